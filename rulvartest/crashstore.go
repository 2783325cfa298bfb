package rulvartest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
)

// CrashStore wraps a store so that each of its writes is a [Point] before and
// a point after it is durable:
//
//	lock:before                          lock:after
//	append:<kind>:<status>:before        …:after
//	append:decision:<type>:before        …:after     a decision has no status of interest
//	append:step:running+step:ok:before   …:after     records that are written at once
//	meta:<run status>:before             …:after
//	put:<directory>:before               …:after     ckpt, tr, patch
//	delete:<directory>:before            …:after
//
// A write that fails has no point after it. Outside a child process the store
// is as it was.
func CrashStore(store rulvar.Store) rulvar.Store { return &crashStore{Store: store} }

type crashStore struct{ rulvar.Store }

// Identity is the wrapped store's.
func (s *crashStore) Identity() string {
	if named, ok := s.Store.(interface{ Identity() string }); ok {
		return named.Identity()
	}
	return ""
}

// around marks a write.
func around(name string, write func() error) error {
	Point(name + ":before")
	err := write()
	if err == nil {
		Point(name + ":after")
	}
	return err
}

func (s *crashStore) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	words := make([]string, len(entries))
	for i, en := range entries {
		words[i] = entryWords(en)
	}
	return around("append:"+strings.Join(words, "+"), func() error { return s.Store.AppendAll(ctx, runID, entries, lock) })
}

// entryWords names a record: its kind and its status, or what was decided.
func entryWords(en *rulvar.Entry) string {
	if en.Kind == "decision" {
		var v struct {
			DecisionType string `json:"decisionType"`
		}
		if json.Unmarshal(en.Value, &v) == nil && v.DecisionType != "" {
			return "decision:" + v.DecisionType
		}
	}
	return string(en.Kind) + ":" + string(en.Status)
}

func (s *crashStore) PutMeta(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
	return around("meta:"+meta.Status, func() error { return s.Store.PutMeta(ctx, meta, lock) })
}

func (s *crashStore) Lock(ctx context.Context, runID, owner string) (lock *rulvar.RunLock, err error) {
	err = around("lock", func() error {
		lock, err = s.Store.Lock(ctx, runID, owner)
		return err
	})
	return lock, err
}

func (s *crashStore) Put(ctx context.Context, ref string, data []byte) error {
	return around("put:"+blobDirectory(ref), func() error { return s.Store.Put(ctx, ref, data) })
}

func (s *crashStore) DeleteBlob(ctx context.Context, ref string) error {
	return around("delete:"+blobDirectory(ref), func() error { return s.Store.DeleteBlob(ctx, ref) })
}

// blobDirectory is the part of "run/ckpt/7" that says what the blob is.
func blobDirectory(ref string) string {
	parts := strings.Split(ref, "/")
	if len(parts) < 2 {
		return ref
	}
	return parts[1]
}

// CrashProvider wraps a model so that each request is a [Point] before it is
// sent and a point when its answer is complete but not yet handed on:
//
//	model:<agent>:<turn>:before
//	model:<agent>:<turn>:after
//
// agent is the agent's label, else its profile's name, else "agent"; turn
// counts from 1 within the conversation.
func CrashProvider(p llm.Provider) llm.Provider { return &crashProvider{Provider: p} }

type crashProvider struct{ llm.Provider }

func (p *crashProvider) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	name := fmt.Sprintf("model:%s:%d", agentName(req), 1+answers(req.Messages))
	return func(yield func(llm.StreamEvent, error) bool) {
		Point(name + ":before")
		for ev, err := range p.Provider.Stream(ctx, req) {
			if err == nil && ev.Type == llm.StreamFinish {
				Point(name + ":after")
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func agentName(r *llm.Request) string {
	switch {
	case r.AgentLabel != "":
		return r.AgentLabel
	case r.AgentType != "":
		return r.AgentType
	}
	return "agent"
}

// answers counts the model's answers in a conversation.
func answers(messages []llm.Message) int {
	n := 0
	for _, m := range messages {
		if m.Role == llm.RoleAssistant {
			n++
		}
	}
	return n
}
