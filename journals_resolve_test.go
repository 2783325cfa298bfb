package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal"
)

func (x *fixtureRun) resolveLive(key string) {
	x.mu.Lock()
	var found *fixtureResolve
	for i := range x.live {
		if r := x.live[i]; x.keys(r.Key) == key {
			found = &r
			x.live = append(x.live[:i:i], x.live[i+1:]...)
			break
		}
	}
	x.mu.Unlock()
	if found != nil {
		x.resolved(x.engine.Resolve(context.Background(), x.f.RunID, key, found.Value))
	}
}

// resolveOffline gives the answers that come while no process owns the run.
func (x *fixtureRun) resolveOffline(ctx context.Context) {
	for _, r := range x.seg.Resolve {
		switch r.Via {
		case "", "offline":
			x.resolved(x.engine.Resolve(ctx, x.f.RunID, x.keys(r.Key), r.Value))
		case "raw":
			x.resolved(x.resolveRaw(ctx, r))
		}
	}
}

// resolveRaw appends an answer as another writer would: nobody looks at it.
func (x *fixtureRun) resolveRaw(ctx context.Context, r fixtureResolve) (rulvar.ResolutionOutcome, error) {
	var none rulvar.ResolutionOutcome
	open, err := x.engine.PendingOf(ctx, x.f.RunID)
	if err != nil {
		return none, err
	}
	for _, p := range open {
		if p.Key != x.keys(r.Key) {
			continue
		}
		payload, err := json.Marshal(journal.Resolution{Target: p.EntryRef, By: "operator", Value: r.Value})
		if err != nil {
			return none, err
		}
		en := &rulvar.Entry{
			HashVersion: journal.HashVersion, Ref: &p.EntryRef, Scope: p.Scope, Kind: journal.KindResolution, Status: journal.StatusOK,
			SpanID: "s0", StartedAt: "2026-12-01T00:00:00.000Z", Resolution: payload,
		}
		if err := x.store.AppendAll(ctx, x.f.RunID, []*rulvar.Entry{en}, nil); err != nil {
			return none, err
		}
		after, err := x.engine.PendingOf(ctx, x.f.RunID)
		return rulvar.ResolutionOutcome{Applied: len(after) < len(open)}, err
	}
	return none, fmt.Errorf("no open suspension %q", r.Key)
}

func (x *fixtureRun) resolved(out rulvar.ResolutionOutcome, err error) {
	facts := map[string]any{"applied": out.Applied}
	if err != nil {
		facts = map[string]any{"error": errorCode(err)}
	} else if out.Reason != "" {
		facts["reason"] = out.Reason
	}
	x.mu.Lock()
	x.resolutions = append(x.resolutions, facts)
	x.mu.Unlock()
}

func errorCode(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*rulvar.Error](err); ok {
		return string(e.Code)
	}
	return "error"
}

// afterwards does what the scenario does to the stopped or settled store.
func (x *fixtureRun) afterwards(ctx context.Context) error {
	for _, a := range x.seg.After {
		var err error
		switch a.Op {
		case "resolveOnHandle":
			_, err = x.handle.ResolveExternal(ctx, x.keys(a.Key), a.Value)
		case "offline":
			_, err = x.engine.Resolve(ctx, x.f.RunID, x.keys(a.Key), a.Value)
		case "sleep":
			time.Sleep(time.Duration(a.Ms) * time.Millisecond)
		case "mutate": // once the store is closed: see operate
		default:
			err = fmt.Errorf("unknown op %q", a.Op)
		}
		if err != nil {
			return fmt.Errorf("after: %s: %w", a.Op, err)
		}
	}
	return nil
}

// approvalSeq returns the sequence number in a key "approval:<seq>".
func approvalSeq(key string) (int64, bool) {
	text, ok := strings.CutPrefix(key, "approval:")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
