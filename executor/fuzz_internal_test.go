package executor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

const fuzzIntent = `{"phase":"intent","idempotencyKey":"k","runId":"r","spanId":"s","tool":"t","argsHash":"h","executor":"subprocess","workdir":"/w","startedAt":1,"attemptId":"a"}`

// FuzzLedger: whatever a file holds, it is refused as damaged, or it opens, and
// then its intents stay known through a write, a reading and another opening.
func FuzzLedger(f *testing.F) {
	outcome := strings.Replace(fuzzIntent, `"phase":"intent"`, `"phase":"outcome","durationMs":5,"outcome":"ok","exitCode":null,"signal":"SIGKILL"`, 1)
	for _, seed := range []string{
		"", fuzzIntent, fuzzIntent + "\n" + outcome + "\n", fuzzIntent + "\n" + outcome[:50], fuzzIntent + "\x00\x00", "\x00\n", "[]\n", " \n\n",
		`{"phase":"torn","bytes":1,"bytesBase64":"eA==","sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","recoveredAt":3}` + "\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		disk := faultfs.New()
		file, err := disk.OpenFile("/l", os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		_, err = file.WriteAt(text, 0)
		require.NoError(t, err)
		before, err := readLedger("/l", text, false)
		if _, e := readLedger("/l", text, true); e != nil {
			t.Fatal(e)
		}
		l, opened := openFileLedger(disk, "/l")
		if err != nil {
			require.ErrorIs(t, err, ErrLedger)
			require.ErrorIs(t, opened, ErrLedger)
			return
		}
		require.NoError(t, opened)
		require.NoError(t, l.Intent(context.Background(), &Intent{AttemptID: "mine", IdempotencyKey: "mine"}))
		require.NoError(t, l.Close())
		info, err := file.Stat()
		require.NoError(t, err)
		now := make([]byte, info.Size())
		_, _ = file.ReadAt(now, 0)
		after, err := readLedger("/l", now, false)
		require.NoError(t, err)
		require.Equal(t, append(before.Intents, Intent{AttemptID: "mine", IdempotencyKey: "mine"}), after.Intents)
		require.Equal(t, before.Outcomes, after.Outcomes)
		require.Len(t, after.Torn, len(before.Torn))
		_, err = openFileLedger(disk, "/l")
		require.NoError(t, err)
	})
}

// FuzzSpec: a spec is a program that can be started, or refused; and a program
// that is taken is read back as it was.
func FuzzSpec(f *testing.F) {
	for _, seed := range []string{`{"command":"x"}`, `{"command":"/x","args":["a","b"]}`, `null`, `{"args":[null]}`, `{"command":"a","command":"b"}`, `[]`, `{"command":"\u0000"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, spec []byte) {
		p, wrong := programOf(spec, nil)
		if wrong != "" {
			return
		}
		require.Empty(t, p.wrong())
		text, err := p.Spec()
		require.NoError(t, err)
		back, wrong := programOf(text, nil)
		require.Empty(t, wrong)
		require.Equal(t, p.Command, back.Command)
		require.Equal(t, len(p.Args), len(back.Args))
	})
}

// FuzzOutput: what a program writes becomes a result that is JSON, or an error
// whose text and data are.
func FuzzOutput(f *testing.F) {
	for _, seed := range []string{"", " {} ", "1 2", "\xff\xfe", `{"a":1,"a":2}`, strings.Repeat("[", 1100), "1e999", "\x00"} {
		f.Add([]byte(seed))
	}
	a := &attempt{d: &dispatcher{op: "fuzz"}, call: rulvar.ExecutorCall{Tool: "t"}, secrets: []string{"secret"}}
	f.Fuzz(func(t *testing.T, stdout []byte) {
		out, err := a.result(stdout, nil)
		if err == nil {
			require.True(t, json.Valid(out))
			return
		}
		require.ErrorIs(t, err, ErrProtocol)
		e, _ := errors.AsType[*rulvar.Error](error(a.failWith(ErrProtocol, "m", text(stdout), text(stdout), nil)))
		data, err := json.Marshal(e.Data)
		require.NoError(t, err)
		require.NotContains(t, strings.ReplaceAll(string(data), "[masked-secret]", "|"), "secret")
	})
}
