package jcs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// refusal is what a reader is expected to say of a text.
type refusal struct {
	name, text string
	kind       jcs.Kind
	path       string
	offset     int
	says       string
}

func (r refusal) check(t *testing.T, err error) {
	require.ErrorIs(t, err, r.kind)
	var e *jcs.SyntaxError
	require.ErrorAs(t, err, &e)
	require.Equal(t, r.kind, e.Kind)
	require.Equal(t, r.path, e.Path)
	require.Equal(t, r.offset, e.Offset)
	require.Contains(t, e.Error(), r.says)
}

// bothRefuse are texts that neither reader takes.
var bothRefuse = []refusal{
	{"empty", "", jcs.ErrSyntax, "", 0, "the text ends where a value should start"},
	{"only blanks", " \t\r\n", jcs.ErrSyntax, "", 4, "ends"},
	{"byte order mark", "\ufeff{}", jcs.ErrSyntax, "", 0, "0xef"},
	{"second value", `{"a":1} {}`, jcs.ErrSyntax, "", 8, "one text holds one value"},
	{"cut off", `{"path":`, jcs.ErrSyntax, "/path", 8, "ends"},
	{"cut off in a string", `{"a":["x`, jcs.ErrSyntax, "/a/0", 8, "inside a string"},
	{"cut off in an escape", `"\`, jcs.ErrSyntax, "", 2, "inside a string"},
	{"name without quotes", `{a:1}`, jcs.ErrSyntax, "", 1, `unexpected 'a' where a member name`},
	{"comma at the end", `[1,]`, jcs.ErrSyntax, "/1", 3, "where a value should start"},
	{"no colon", `{"a" 1}`, jcs.ErrSyntax, "", 5, "':'"},
	{"raw line feed", "{\"a\":\"x\ny\"}", jcs.ErrSyntax, "/a", 7, "control character 0x0a"},
	{"unknown escape", `"\x41"`, jcs.ErrSyntax, "", 1, "unknown escape"},
	{"short unicode escape", `"\u12"`, jcs.ErrSyntax, "", 1, "four hexadecimal digits"},
	{"leading zero", `[01]`, jcs.ErrSyntax, "/0", 2, "inside a number"},
	{"only a minus", `-`, jcs.ErrSyntax, "", 1, "inside a number"},
	{"invalid UTF-8", "{\"a\":[\"\xff\"]}", jcs.ErrUTF8, "/a/0", 7, "0xff"},
	{"surrogate as UTF-8", "\"\xed\xa0\x80\"", jcs.ErrUTF8, "", 1, "0xed"},
	{"overlong UTF-8", "\"\xc0\x80\"", jcs.ErrUTF8, "", 1, "0xc0"},
	{"UTF-8 cut off", "\"\xf0\x9f\x98\"", jcs.ErrUTF8, "", 1, "0xf0"},
	{"invalid UTF-8 outside strings", "\xff", jcs.ErrSyntax, "", 0, "0xff"},
	{"high surrogate", `{"a":"x\ud800y"}`, jcs.ErrSurrogate, "/a", 7, `\ud800`},
	{"low surrogate", `"\uDC00"`, jcs.ErrSurrogate, "", 1, `\uDC00`},
	{"pair the wrong way", `"\ude00\ud83d"`, jcs.ErrSurrogate, "", 1, ""},
	{"high surrogate twice", `"\ud83d\ud83d\ude00"`, jcs.ErrSurrogate, "", 1, ""},
	{"surrogate in a name", `{"\ud800":1}`, jcs.ErrSurrogate, "", 2, ""},
	{"surrogate in a replaced member", `{"a":"\ud800","a":1}`, jcs.ErrSurrogate, "/a", 6, ""},
	{"overflow", `{"a/b":{"c~":[1e400]}}`, jcs.ErrNonFinite, "/a~1b/c~0/0", 14, "send it as a string"},
	{"overflow without exponent", `-` + strings.Repeat("9", 400), jcs.ErrNonFinite, "", 0, "…"},
}

func TestParseRefuses(t *testing.T) {
	for _, row := range bothRefuse {
		t.Run(row.name, func(t *testing.T) {
			tree, err := jcs.Parse([]byte(row.text))
			require.Nil(t, tree)
			row.check(t, err)
			row.check(t, jcs.Check([]byte(row.text)))

			out, err := jcs.Append([]byte("before"), []byte(row.text))
			require.Equal(t, "before", string(out))
			row.check(t, err)
		})
	}
}

func TestParseStrictRefuses(t *testing.T) {
	for _, row := range append([]refusal{
		{"same name", `{"command":"ls","command":"rm -rf /"}`, jcs.ErrDuplicate, "/command", 16, `"command" comes twice`},
		{"same name, spelt otherwise", `{"a":{"b":1,"\u0062":1}}`, jcs.ErrDuplicate, "/a/b", 12, "send each name once"},
		{"same empty name", `[{"":1,"":1}]`, jcs.ErrDuplicate, "/0/", 7, ""},
		{"2^53+1", `{"id":9007199254740993}`, jcs.ErrInexact, "/id", 6, "9007199254740992; send it as a string"},
		{"-(2^53+1)", `-9007199254740993`, jcs.ErrInexact, "", 0, "-9007199254740992"},
		{"2^53+1 with a fraction", `9007199254740993.0`, jcs.ErrInexact, "", 0, ""},
		{"2^53+1 with an exponent", `[900719925474099.3e1]`, jcs.ErrInexact, "/0", 1, ""},
		{"2^53+1 with zeros around", `0.09007199254740993000e17`, jcs.ErrInexact, "", 0, ""},
		{"largest uint64", `18446744073709551615`, jcs.ErrInexact, "", 0, "18446744073709552000"},
		{"2^60, which is written otherwise", `1152921504606846976`, jcs.ErrInexact, "", 0, "1152921504606847000"},
		{"many digits", `1` + strings.Repeat("0", 40) + `1`, jcs.ErrInexact, "", 0, "1e+41"},
		{"digits behind many zeros", `1.` + strings.Repeat("0", 25) + `1e40`, jcs.ErrInexact, "", 0, ""},
		{"replaced overflow", `{"a":1e400,"a":1}`, jcs.ErrNonFinite, "/a", 5, ""},
	}, bothRefuse...) {
		t.Run(row.name, func(t *testing.T) {
			tree, err := jcs.ParseStrict([]byte(row.text))
			require.Nil(t, tree)
			row.check(t, err)
		})
	}
}

func TestParseStrictTakes(t *testing.T) {
	for _, row := range []struct{ name, text, canonical string }{
		{"2^53", `9007199254740992`, `9007199254740992`},
		{"2^53+2", `9007199254740994`, `9007199254740994`},
		{"an integer that is its own shortest text", `123456789012345670000`, `123456789012345670000`},
		{"large with exponent", `6.02214076e23`, `6.02214076e+23`},
		{"power of ten", `1e23`, `1e+23`},
		{"zeros written out", `100000000000000000000000`, `1e+23`},
		{"long fraction", `0.1000000000000000055511151231257827`, `0.1`},
		{"long fraction beyond 2^53", `9007199254740993.5`, `9007199254740994`},
		{"underflow", `1e-400`, `0`},
		{"zero with exponent", `-0e99999999999999999999`, `0`},
		{"integral fraction", `1.0`, `1`},
		{"pair of surrogates", `"\uD83D\uDE00"`, `"😀"`},
		{"names that differ in case", `{"b":1,"B":2}`, `{"B":2,"b":1}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			tree, err := jcs.ParseStrict([]byte(row.text))
			require.NoError(t, err)
			got, err := jcs.AppendTree(nil, tree)
			require.NoError(t, err)
			require.Equal(t, row.canonical, string(got))

			_, err = jcs.ParseStrict(got)
			require.NoError(t, err, "what was taken is taken again in canonical form")
		})
	}
}

func TestParseTree(t *testing.T) {
	tree, err := jcs.Parse([]byte(" {\"n\":[1.50,-0,1E2],\"s\":\"a\\u0062\\n\",\"t\":true,\"f\":false,\"z\":null,\"o\":{},\"l\":[]}\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"n": []any{json.Number("1.50"), json.Number("-0"), json.Number("1E2")},
		"s": "ab\n", "t": true, "f": false, "z": nil, "o": map[string]any{}, "l": []any{},
	}, tree)
}

// TestLastMemberWins covers members that come twice in foreign text: only the
// last counts, also where an earlier one could not be written.
func TestLastMemberWins(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"plain", `{"a":1,"b":0,"a":2}`, `{"a":2,"b":0}`},
		{"spelt otherwise", `{"a":1,"\u0061":2}`, `{"a":2}`},
		{"overflow replaced", `{"a":[{"x":1e400}],"a":{}}`, `{"a":{}}`},
		{"overflow inside the replaced", `{"a":{"b":1e400,"c":2},"a":{"b":1}}`, `{"a":{"b":1}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := jcs.Canonical([]byte(row.text))
			require.NoError(t, err)
			require.Equal(t, row.want, string(got))
			require.NoError(t, jcs.Check([]byte(row.text)))
			tree, err := jcs.Parse([]byte(row.text))
			require.NoError(t, err)
			got, err = jcs.AppendTree(nil, tree)
			require.NoError(t, err)
			require.Equal(t, row.want, string(got))
		})
	}
	_, err := jcs.Canonical([]byte(`{"a":1,"a":1e400}`))
	require.ErrorIs(t, err, jcs.ErrNonFinite)

	many := "{" + strings.Repeat(`"k":0,"j":1,`, 50) + `"k":2}`
	got, err := jcs.Canonical([]byte(many))
	require.NoError(t, err)
	require.Equal(t, `{"j":1,"k":2}`, string(got), "also with more members than are sorted by insertion")
}

func TestLongPathIsClipped(t *testing.T) {
	name := strings.Repeat("é", 5000)
	_, err := jcs.ParseStrict([]byte(`{"` + name + `":{"` + name + `":1e999}}`))
	var e *jcs.SyntaxError
	require.ErrorAs(t, err, &e)
	require.Equal(t, "/"+name+"/"+name, e.Path)
	require.Less(t, len(e.Error()), 400)
	require.NotContains(t, e.Error(), "\ufffd")
}
