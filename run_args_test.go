package rulvar_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// No arguments are recorded as none, and stay none.
func TestRunWithoutArguments(t *testing.T) {
	ctx := testCtx(t)
	store := fileStore(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: store})
	w := rulvar.DefineWorkflow("plain", func(_ *rulvar.Ctx, args json.RawMessage) (string, error) { return string(args), nil })
	h, err := rulvar.Run(ctx, engine, w, nil, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	meta, _, err := store.Load(ctx, "r1", -1)
	require.NoError(t, err)
	require.False(t, meta.ArgsProvided)
	require.Empty(t, meta.ArgsHash)
	h, err = rulvar.Resume[json.RawMessage](ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	some := json.RawMessage(`"api"`)
	_, err = rulvar.Resume(ctx, engine, w, "r1", &rulvar.ResumeOptions[json.RawMessage]{Args: &some})
	require.ErrorIs(t, err, rulvar.ErrConfig)
}

// A key that a scope waits for twice is refused; each branch has its own scope.
func TestAwaitOncePerScope(t *testing.T) {
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	wait := func(c *rulvar.Ctx) (int, error) { return rulvar.AwaitExternal[int](c, "k", "", nil) }
	w := rulvar.DefineWorkflow("waits", func(c *rulvar.Ctx, twice bool) (int, error) {
		if !twice {
			_, err := rulvar.Parallel(c, wait, wait)
			return 0, err
		}
		if _, err := wait(c); err != nil {
			return 0, err
		}
		return wait(c)
	})
	h, err := rulvar.Run(ctx, engine, w, false, nil)
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Len(t, out.Pending, 2)

	h, err = rulvar.Run(ctx, engine, w, true, &rulvar.RunOptions{RunID: "twice"})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	_, err = engine.Resolve(ctx, "twice", "k", 1)
	require.NoError(t, err)
	h, err = rulvar.Resume[bool](ctx, engine, w, "twice", nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.Equal(t, rulvar.RunError, out.Status)
}
