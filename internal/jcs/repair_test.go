package jcs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

func TestRepair(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"fence", "```json\n{\"path\":\"a.txt\"}\n```", `{"path":"a.txt"}`},
		{"fence without a language", "```\n{\"a\":1}\n```", `{"a":1}`},
		{"fence on one line", "```json {\"a\":1}```", `{"a":1}`},
		{"fence with the object on its line", "```json {\n\"a\":{}\n}```", "{\n\"a\":{}\n}"},
		{"fence with attributes", "```{.json}\n{\"a\":1}\n```", `{"a":1}`},
		{"fence behind words", "Here you go:\n```json\n{\"a\":1}\n```\nDone.", `{"a":1}`},
		{"fence inside a string", "x {\"a\":\"```{}\"}", "{\"a\":\"```{}\"}"},
		{"words around", `I call it with {"a":{"b":2}} now {"c":3}`, `{"a":{"b":2}}`},
		{"byte order mark", "\ufeff{}", "{}"},
		{"raw control characters", "{\"a\":\"x\ny\tz\x00\x1b\",\n\t\"b\":1}", "{\"a\":\"x\\ny\\tz\\u0000\\u001b\",\n\t\"b\":1}"},
		{"braces and quotes in strings", "x {\"a\":\"}\\\"}\\\\\",\"b\":\"{\"} }", `{"a":"}\"}\\","b":"{"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, ok := jcs.Repair(row.text)
			require.True(t, ok)
			require.Equal(t, row.want, got)
			_, err := jcs.ParseStrict([]byte(row.text))
			require.Error(t, err, "the text itself is no JSON")
			_, err = jcs.ParseStrict([]byte(got))
			require.NoError(t, err)
		})
	}
}

// TestRepairIsBounded lists what is left alone: there is nothing to do, or a
// repair would be a guess.
func TestRepairIsBounded(t *testing.T) {
	for _, row := range []struct{ name, text string }{
		{"empty", ""},
		{"nothing to do", `{"a":1}`},
		{"nothing but blanks to drop", "\n {\"a\":1} \n"},
		{"no object", "please run ls"},
		{"cut off", `{"path":`},
		{"cut off in a string", `{"path":"}`},
		{"cut off in an escape", `{"path":"\`},
		{"cut off in a fence", "```json\n{\"a\":{}"},
		{"array with an object", `[{"a":1}]`},
		{"array in a fence", "```json\n[{\"a\":1}]\n```"},
		{"array in a fence on one line", "```json [{\"a\":1}]```"},
		{"object as a string", `"{\"a\":1}"`},
		{"only a fence", "```"},
		{"closing brace first", "}"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, ok := jcs.Repair(row.text)
			require.False(t, ok)
			require.Empty(t, got)
		})
	}
}

// TestRepairKeepsMeaning: a control character behind a backslash would become
// another escape, so it stays and the text stays unreadable.
func TestRepairKeepsMeaning(t *testing.T) {
	got, ok := jcs.Repair("x {\"a\":\"b\\\nc\"}")
	require.True(t, ok)
	require.Equal(t, "{\"a\":\"b\\\nc\"}", got)
	_, err := jcs.ParseStrict([]byte(got))
	require.ErrorIs(t, err, jcs.ErrSyntax)
}

func TestRepairTakesLinearTime(t *testing.T) {
	for _, part := range []string{"{", "```", "{\"", "\"", "```{\n", "{}", "\\", "{\"\n", "["} {
		for _, start := range []string{"", "{", "{\"a\":\""} {
			got, _ := jcs.Repair(start + strings.Repeat(part, 1<<20/len(part)))
			require.LessOrEqual(t, len(got), 6<<20+8)
		}
	}
}
