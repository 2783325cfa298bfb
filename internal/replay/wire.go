package replay

import (
	"encoding/json"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// wireCall is a request of an agent to a model. An intent that does not say
// which request it is for stands for itself, by its negative place.
type wireCall struct{ agent, ordinal int64 }

// intend folds a provider-intent: a request is about to be sent, and may have
// been paid where nothing says how it has ended.
func (f *Fold) intend(e *journal.Entry, members map[string]json.RawMessage) {
	agent, known := seqMember(members, "agentRef")
	ordinal, ok := seqMember(members, "ordinal")
	if !known || !ok {
		f.intents[wireCall{-1, -1 - e.Seq}] = true
		return
	}
	f.ordinals[agent] = max(f.ordinals[agent], ordinal)
	f.intents[wireCall{agent, ordinal}] = true
}

// called folds a provider-call.
func (f *Fold) called(e *journal.Entry, members map[string]json.RawMessage) {
	agent, ok := seqMember(members, "agentRef")
	if !ok {
		return
	}
	f.lastCall[agent] = e.Seq
	record, err := objectMembers(members["record"], "record")
	if err != nil {
		return
	}
	if ordinal, ok := seqMember(record, "ordinal"); ok {
		f.ordinals[agent] = max(f.ordinals[agent], ordinal)
		delete(f.intents, wireCall{agent, ordinal})
	}
}

// OpenIntents counts the requests that were about to be sent and whose end is
// neither recorded nor acknowledged as unknown.
func (f *Fold) OpenIntents() int { return len(f.intents) }

// NextOrdinal numbers the next request of an agent, from 1.
func (f *Fold) NextOrdinal(agent int64) int64 { return f.ordinals[agent] + 1 }

// fallback folds a model.fallback: a call has gone on with another model after
// its agent had failed. The later word counts.
func (f *Fold) fallback(members map[string]json.RawMessage) {
	target, ok := seqMember(members, "targetRef")
	model, named := stringMember(members, "model")
	if ok && named {
		f.fallbacks[target] = model
	}
}

// Fallback returns the model that a call has gone on with after the agent of
// the given running entry had failed.
func (f *Fold) Fallback(agent int64) (model string, ok bool) {
	model, ok = f.fallbacks[agent]
	return model, ok
}
