package rulvartest

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"testing"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
)

// NewEngine makes an engine for a test. Without a store it gets one in a
// temporary directory, and its log goes to the test's. When the test ends the engine is closed, and goroutines
// of its runs that do not end fail the test.
func NewEngine(t testing.TB, cfg rulvar.Config) *rulvar.Engine {
	t.Helper()
	if cfg.Store == nil {
		store, err := rulvar.OpenFileStore(t.TempDir(), nil)
		if err != nil {
			t.Fatalf("rulvartest: %v", err)
		}
		cfg.Store = store
	}
	if cfg.Retry == nil {
		cfg.Retry = &rulvar.RetryPolicy{Initial: time.Millisecond, Max: 2 * time.Millisecond}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	e, err := rulvar.NewEngine(cfg)
	if err != nil {
		t.Fatalf("rulvartest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			buf := make([]byte, 1<<20)
			t.Errorf("rulvartest: goroutines of the engine are left behind (%v):\n%s", err, buf[:runtime.Stack(buf, true)])
		}
	})
	return e
}

// RequireVerdict judges a call in a dry run and fails the test where the
// verdict is another, with the chain's trace.
func RequireVerdict(t testing.TB, chain *rulvar.PermissionChain, tool *rulvar.Tool, input any, want rulvar.Verdict) rulvar.Evaluation {
	t.Helper()
	got, err := rulvar.EvaluatePermission(context.Background(), chain, tool, input)
	if err != nil {
		t.Fatalf("rulvartest: %v", err)
	}
	if got.Verdict != want {
		text, err := json.MarshalIndent(got.Trace, "", "  ")
		if err != nil {
			text = []byte(err.Error())
		}
		t.Fatalf("rulvartest: the verdict is %s by %s, want %s; the chain's steps:\n%s", got.Verdict, got.DecidedBy, want, text)
	}
	return got
}
