package rulvar

import (
	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/llm"
)

// Routes names models for what an agent asks beside its loop, each
// "provider:model". A field that is not set is taken from the next layer: call
// over profile over engine. They do not enter the identity of a call.
type Routes struct {
	// Extract writes the answer of an agent with a schema as JSON, in a request
	// of its own once the loop has ended, unless what the loop said fits the
	// schema already. Default: the loop's model answers in the loop.
	Extract string
	// Finalize writes the answer of an agent that has tools, in one more
	// request once the loop has ended. Default: what the loop said last.
	Finalize string
	// Summarize writes the summary that takes the place of a conversation which
	// has grown too large; see UsageLimits.CompactAt. Default: the loop's model.
	Summarize string
}

// The roles that requests are accounted for.
const (
	roleLoop      = "loop"
	roleExtract   = "extract"
	roleFinalize  = "finalize"
	roleSummarize = "summarize"
)

func mergeRoutes(layers ...Routes) Routes {
	var out Routes
	for _, l := range layers {
		out.Extract = firstSet(out.Extract, l.Extract)
		out.Finalize = firstSet(out.Finalize, l.Finalize)
		out.Summarize = firstSet(out.Summarize, l.Summarize)
	}
	return out
}

// checkRoutes refuses, at registration, models that no provider serves.
func (e *Engine) checkRoutes(path string, r Routes) error {
	for field, ref := range map[string]string{"Extract": r.Extract, "Finalize": r.Finalize, "Summarize": r.Summarize} {
		if ref == "" {
			continue
		}
		if _, _, err := e.provider(ref); err != nil {
			return errs.Wrap(errs.Config, "NewEngine", path+"."+field, "", err)
		}
	}
	return nil
}

// modelChoice is a model that may serve an agent.
type modelChoice struct {
	ref      string
	provider llm.Provider
	model    string
	caps     llm.Capabilities
}

func (m *modelChoice) retention() string { return firstSet(m.caps.RetentionKey, m.provider.ID()) }

// modelLine is the models that may serve one role of an agent, in order.
type modelLine struct {
	role    string
	effort  string // that they are asked with
	choices []modelChoice
	at      *int // that serves now; lines of the same models share it
}

func (l *modelLine) served() *modelChoice { return &l.choices[*l.at] }

// line resolves the models of a role.
func (e *Engine) line(role, effort string, refs ...string) (modelLine, error) {
	l := modelLine{role: role, effort: effort, at: new(int)}
	for _, ref := range refs {
		p, model, err := e.provider(ref)
		if err != nil {
			return l, err
		}
		caps, err := capabilitiesOf(p, model)
		if err != nil {
			return l, err
		}
		l.choices = append(l.choices, modelChoice{ref: ref, provider: p, model: model, caps: caps})
	}
	return l, nil
}

// resolveRoutes makes the lines of the roles that the agent has. A model other
// than the loop's is asked with its own default effort: it need not know the
// one that the loop's is asked with.
func (a *agentRun) resolveRoutes(r Routes) error {
	routed := func(role, ref string) (*modelLine, error) {
		if ref == "" || ref == a.modelRef {
			return &modelLine{role: role, effort: a.effort, choices: a.loop.choices, at: a.loop.at}, nil
		}
		l, err := a.seg.e.line(role, "", ref)
		return &l, err
	}
	var err error
	if r.Finalize != "" && len(a.tools) > 0 {
		if a.finalize, err = routed(roleFinalize, r.Finalize); err != nil {
			return err
		}
	}
	if a.schema != nil && (a.finalize != nil || r.Extract != "" && r.Extract != a.modelRef) {
		if a.extract, err = routed(roleExtract, r.Extract); err != nil {
			return err
		}
	}
	a.summarize, err = routed(roleSummarize, r.Summarize)
	return err
}
