package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/llm"
)

// The form that checkpoints and transcripts hold: the members of the part's
// type in this order, and no others.
func TestPartJSON(t *testing.T) {
	for _, row := range []struct {
		name string
		part llm.Part
		want string
	}{
		{"text", llm.TextPart("a<&>\u2028"), "{\"type\":\"text\",\"text\":\"a<&>\u2028\"}"},
		{"empty text", llm.TextPart(""), `{"type":"text","text":""}`},
		{"image", llm.Part{Type: llm.PartImage, MediaType: "image/png", Data: json.RawMessage(`"aGk="`)},
			`{"type":"image","mediaType":"image/png","data":"aGk="}`},
		{"call", llm.Part{Type: llm.PartToolCall, ID: "1", Name: "t", Args: json.RawMessage(`{"x":1}`)},
			`{"type":"tool-call","id":"1","name":"t","args":{"x":1}}`},
		{"call without arguments", llm.Part{Type: llm.PartToolCall, ID: "1", Name: "t", Args: json.RawMessage(`null`)},
			`{"type":"tool-call","id":"1","name":"t","args":null}`},
		{"result", llm.Part{Type: llm.PartToolResult, ID: "1", Name: "t", Result: json.RawMessage(`"ok"`)},
			`{"type":"tool-result","id":"1","name":"t","result":"ok"}`},
		{"error", llm.Part{Type: llm.PartToolResult, ID: "1", Name: "t", Result: json.RawMessage(`"no"`), IsError: true},
			`{"type":"tool-result","id":"1","name":"t","result":"no","isError":true}`},
		{"private block", llm.Part{Type: llm.PartRaw, Provider: "p", Block: json.RawMessage(`{"a":1}`)},
			`{"type":"provider-raw","provider":"p","block":{"a":1}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			text, err := row.part.MarshalJSON()
			require.NoError(t, err)
			require.Equal(t, row.want, string(text))
			var back llm.Part
			require.NoError(t, json.Unmarshal(text, &back))
			require.Equal(t, row.part, back)
		})
	}
}

// Members of another type than the part's own are not written.
func TestPartJSONLeavesOut(t *testing.T) {
	text, err := llm.Part{Type: llm.PartText, Text: "x", ID: "1", Name: "t", Provider: "p"}.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, `{"type":"text","text":"x"}`, string(text))

	text, err = llm.Part{Type: llm.PartToolCall, ID: "1", Name: "t"}.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, `{"type":"tool-call","id":"1","name":"t","args":null}`, string(text), "absent arguments are null")
}

func TestPartJSONRefuses(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `{"type":"video"}`, `{"type":"text"}`, `{"type":"image","mediaType":"image/png"}`,
		`{"type":"image","data":"aGk="}`, `{"type":"tool-call","name":"t"}`, `{"type":"tool-call","id":"1"}`,
		`{"type":"tool-result","id":"1","result":1}`, `{"type":"provider-raw","block":1}`, `{"type":"text","text":1}`,
	} {
		var p llm.Part
		require.Error(t, json.Unmarshal([]byte(text), &p), text)
	}
	_, err := json.Marshal(llm.Part{Type: "video"})
	require.ErrorContains(t, err, "video")
	_, err = json.Marshal(llm.Part{})
	require.Error(t, err, "a part without a type is none")
}

// What was read is written so that it reads the same.
func FuzzMessageJSON(f *testing.F) {
	f.Add([]byte(`{"role":"assistant","parts":[{"type":"text","text":"x"},{"type":"tool-call","id":"1","name":"t","args":{"x":1e2}}]}`))
	f.Add([]byte(`{"role":"tool","parts":[{"type":"tool-result","id":"1","name":"t","result":null,"isError":true}]}`))
	f.Add([]byte(`{"role":"user","parts":[{"type":"image","mediaType":"image/png","data":"aGk="}]}`))
	f.Add([]byte(`{"role":"assistant","parts":[{"type":"provider-raw","provider":"p","block":{"b":1,"a":"\u2028<"}}]}`))
	f.Add([]byte(`{"role":"user","parts":[{"type":"text","text":"\ud800"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var m llm.Message
		if json.Unmarshal(text, &m) != nil {
			return
		}
		once, err := json.Marshal(m)
		require.NoError(t, err)
		var back llm.Message
		require.NoError(t, json.Unmarshal(once, &back), "%s", once)
		twice, err := json.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
	})
}
