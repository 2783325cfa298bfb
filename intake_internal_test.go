package rulvar

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

func schemaOfText(t testing.TB, text string) compiledSchema {
	t.Helper()
	s, err := parseSchema(json.RawMessage(text))
	require.NoError(t, err)
	return s
}

const shellSchema = `{"type":"object","properties":{"command":{"type":"string"},"limit":{"type":"integer","default":10}},"required":["command"]}`

// Arguments that show a policy one thing and a decoder another never get in.
func TestIntakeRefuses(t *testing.T) {
	s := schemaOfText(t, shellSchema)
	for name, raw := range map[string]string{
		"the same member twice":          `{"command":"ls","command":"rm -rf /"}`,
		"a member that folds to one":     `{"command":"ls","COMMAND":"rm -rf /"}`,
		"the Kelvin sign":                `{"command":"ls","\u212aommand":1,"commanD":"rm"}`,
		"an escaped name, twice":         `{"command":"ls","\u0063ommand":"rm"}`,
		"a lone surrogate":               `{"command":"\ud800"}`,
		"invalid UTF-8":                  "{\"command\":\"\xff\"}",
		"an integer float64 cannot hold": `{"command":"ls","limit":9007199254740993}`,
		"overflow":                       `{"command":"ls","limit":1e400}`,
		"NaN":                            `{"command":"ls","limit":NaN}`,
		"absurd depth":                   `{"command":"ls","x":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`,
		"a missing member":               `{}`,
		"the wrong type":                 `{"command":["ls"]}`,
		"an array":                       `[]`,
		"the wrapper, unmendable":        `{"__unparsed":"rm -rf /"}`,
	} {
		t.Run(name, func(t *testing.T) {
			in, issues := s.intake([]byte(raw))
			require.NotEmpty(t, issues)
			require.Nil(t, in.effective)
		})
	}
}

func TestIntakeAccepts(t *testing.T) {
	s := schemaOfText(t, shellSchema)
	none := schemaOfText(t, `{"type":"object","properties":{}}`)
	for _, c := range []struct {
		name             string
		schema           *compiledSchema
		raw              string
		given, effective string
		repaired         bool
	}{
		{"plain, default added", &s, ` { "command" : "ls" } `, `{"command":"ls"}`, `{"command":"ls","limit":10}`, false},
		{"integral float", &s, `{"command":"ls","limit":1e2}`, `{"command":"ls","limit":100}`, `{"command":"ls","limit":100}`, false},
		{"canonical order", &s, `{"limit":1,"command":"l\u0073"}`, `{"command":"ls","limit":1}`, `{"command":"ls","limit":1}`, false},
		{"no text for no arguments", &none, ``, `{}`, `{}`, false},
		{"null for no arguments", &none, `null`, `{}`, `{}`, false},
		{"a fence", &s, "```json\n{\"command\":\"ls\"}\n```", `{"__unparsed":"` + "```json\\n{\\\"command\\\":\\\"ls\\\"}\\n```" + `"}`, `{"command":"ls","limit":10}`, true},
		{"trailing data is cut", &s, `{"command":"ls"} {"command":"rm"}`, `{"__unparsed":"{\"command\":\"ls\"} {\"command\":\"rm\"}"}`, `{"command":"ls","limit":10}`, true},
		{"the wrapper around JSON", &s, `{"__unparsed":"{\"command\":\"ls\"}"}`, `{"__unparsed":"{\"command\":\"ls\"}"}`, `{"command":"ls","limit":10}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, issues := c.schema.intake([]byte(c.raw))
			require.Empty(t, issues)
			require.Equal(t, c.given, string(in.given))
			require.Equal(t, c.effective, string(in.effective))
			require.Equal(t, c.repaired, in.repaired)
		})
	}
}

// History arguments go through intake again on a resume and must mean the same.
func FuzzIntake(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `{"command":"ls"}`, `{"command":"ls","limit":3}`, "```\n{\"command\":\"x\"}\n```", `{"__unparsed":"{\"command\":\"ls\"}"}`,
		`{"command":"ls","COMMAND":"rm"}`, `{"command":"a","command":"b"}`, "{\"command\":\"\xff\"}", `{"command":1e999}`, `[[[[`, `{"command":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	s := schemaOfText(f, shellSchema)
	f.Fuzz(func(t *testing.T, raw []byte) {
		in, issues := s.intake(raw)
		history := historyArgs(raw)
		require.True(t, json.Valid(history), "history %q", history)
		again, issuesAgain := s.intake(history)
		require.Equal(t, issues == nil, issuesAgain == nil, "history %s: %v, %v", history, issues, issuesAgain)
		if issues != nil {
			return
		}
		require.Equal(t, string(in.effective), string(again.effective))
		require.Equal(t, string(in.given), string(again.given))
		canonical, err := jcs.Canonical(in.effective)
		require.NoError(t, err)
		require.Equal(t, string(canonical), string(in.effective))
		tree, err := jcs.ParseStrict(in.effective)
		require.NoError(t, err)
		require.Empty(t, s.validator.Validate(tree))
	})
}
