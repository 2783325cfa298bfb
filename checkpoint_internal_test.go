package rulvar

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/llm"
)

func sampleCheckpoint() *checkpoint {
	return &checkpoint{
		Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{llm.TextPart("go")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{
				{Type: llm.PartRaw, Provider: "p", Block: json.RawMessage(`{"a":1}`)}, llm.TextPart("<&>"),
				{Type: llm.PartToolCall, ID: "a", Name: "t", Args: json.RawMessage(`{"x":1}`)},
				{Type: llm.PartToolCall, ID: "b", Name: "t", Args: json.RawMessage(`{"x":2}`)},
			}},
		},
		Turns: 1, ToolCallsUsed: 1,
		Pending: &pendingTurn{
			Executed: []executedCall{{ID: "a", Name: "t", Result: json.RawMessage(`null`)}},
			Awaiting: pendingCall{ID: "b", Name: "t", Args: json.RawMessage(`{"x":2}`)},
		},
	}
}

func TestCheckpointRoundTrip(t *testing.T) {
	blob, err := encodeCheckpoint(sampleCheckpoint())
	require.NoError(t, err)
	require.Equal(t, byte(checkpointFormat), blob[0])
	text := string(blob[1:])
	require.NotContains(t, text, `\u003c`, "no HTML escapes")
	for _, list := range []string{`"remaining":[]`, `"compaction":[]`, `"usageByModel":[]`} {
		require.Contains(t, text, list, "empty lists are [], other readers discard a null")
	}
	back, err := decodeCheckpoint("r/ckpt/0", blob)
	require.NoError(t, err)
	again, err := encodeCheckpoint(back)
	require.NoError(t, err)
	require.Equal(t, string(blob), string(again))
}

func TestCheckpointRefuses(t *testing.T) {
	good, err := encodeCheckpoint(sampleCheckpoint())
	require.NoError(t, err)
	for name, blob := range map[string]string{
		"nothing":                  "",
		"another format":           "\x02{}",
		"no JSON":                  "\x01{",
		"not an object":            "\x01[]",
		"another version":          strings.Replace(string(good), `"v":1`, `"v":2`, 1),
		"negative turns":           strings.Replace(string(good), `"turns":1`, `"turns":-1`, 1),
		"negative usage":           strings.Replace(string(good), `"inputTokens":0`, `"inputTokens":-5`, 1),
		"no messages":              "\x01" + `{"v":1,"turns":0}`,
		"unknown part":             strings.Replace(string(good), `"type":"text"`, `"type":"video"`, 1),
		"call without id":          strings.Replace(string(good), `"id":"a","name":"t","args"`, `"name":"t","args"`, 1),
		"pending call unknown":     strings.Replace(string(good), `"awaiting":{"id":"b"`, `"awaiting":{"id":"z"`, 1),
		"pending call left out":    strings.Replace(string(good), `"executed":[{"id":"a","name":"t","result":null}]`, `"executed":[]`, 1),
		"result of another call":   strings.Replace(string(good), `"executed":[{"id":"a"`, `"executed":[{"id":"b"`, 1),
		"an unanswered call":       "\x01" + `{"v":1,"turns":1,"messages":[{"role":"assistant","parts":[{"type":"tool-call","id":"a","name":"t","args":{}}]}]}`,
		"a result for no call":     "\x01" + `{"v":1,"turns":1,"messages":[{"role":"tool","parts":[{"type":"tool-result","id":"a","name":"t","result":1}]}]}`,
		"a call id that is reused": "\x01" + `{"v":1,"turns":1,"messages":[{"role":"assistant","parts":[{"type":"tool-call","id":"a","name":"t"}]},{"role":"tool","parts":[{"type":"tool-result","id":"a","name":"t"}]},{"role":"assistant","parts":[{"type":"tool-call","id":"a","name":"t"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, string(good), blob, "the case changes nothing")
			_, err := decodeCheckpoint("r/ckpt/0", []byte(blob))
			require.ErrorIs(t, err, ErrJournalIntegrity)
			require.ErrorContains(t, err, "r/ckpt/0")
		})
	}
}

// The name and the arguments of a pending call come from the conversation: a
// pending list that says otherwise cannot make another call run.
func TestPendingArgumentsComeFromTheConversation(t *testing.T) {
	blob, err := encodeCheckpoint(sampleCheckpoint())
	require.NoError(t, err)
	forged := strings.Replace(string(blob), `"awaiting":{"id":"b","name":"t","args":{"x":2}}`, `"awaiting":{"id":"b","name":"rm","args":{"x":9}}`, 1)
	require.NotEqual(t, string(blob), forged)
	c, err := decodeCheckpoint("r", []byte(forged))
	require.NoError(t, err)
	require.Equal(t, "t", c.Pending.Awaiting.Name)
	require.JSONEq(t, `{"x":2}`, string(c.Pending.Awaiting.Args))
}

// Every checkpoint that another system has recorded can be read.
func TestRecordedCheckpoints(t *testing.T) {
	blobs, err := filepath.Glob(filepath.Join("testdata", "journals", "*", "store", "*", "ckpt", "*.bin"))
	require.NoError(t, err)
	require.NotEmpty(t, blobs)
	refused := 0
	for _, path := range blobs {
		blob, err := os.ReadFile(path)
		require.NoError(t, err)
		if _, err := decodeCheckpoint(path, blob); err != nil {
			refused++
			t.Logf("%v", err)
			require.Regexp(t, `corrupt|surrogate`, path, "%v", err)
		}
	}
	t.Logf("%d checkpoints read, %d refused", len(blobs)-refused, refused)
}

func FuzzCheckpoint(f *testing.F) {
	good, err := encodeCheckpoint(sampleCheckpoint())
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte("\x01{}"))
	f.Add([]byte("\x01" + `{"v":1,"messages":[],"turns":0,"pending":{"executed":null,"awaiting":{},"remaining":null}}`))
	f.Fuzz(func(t *testing.T, blob []byte) {
		c, err := decodeCheckpoint("r/ckpt/0", blob)
		if err != nil {
			require.ErrorIs(t, err, ErrJournalIntegrity)
			return
		}
		again, err := encodeCheckpoint(c)
		require.NoError(t, err)
		_, err = decodeCheckpoint("r/ckpt/0", again)
		require.NoError(t, err, "what was read is written so that it can be read: %s", again)
	})
}
