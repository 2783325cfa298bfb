package jcs_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

func TestAppendTree(t *testing.T) {
	for _, row := range []struct {
		name string
		tree any
		want string
	}{
		{"nil", nil, `null`},
		{"bools", []any{true, false}, `[true,false]`},
		{"nil slice", []any(nil), `[]`},
		{"nil map", map[string]any(nil), `{}`},
		{"nil raw text", json.RawMessage(nil), `null`},
		{"raw text", map[string]any{"r": json.RawMessage(" {\"b\":1.0, \"a\":\"\\u0062\"}\n")}, `{"r":{"a":"b","b":1}}`},
		{"signed", []any{int(-1), int8(-128), int16(1), int32(1), int64(math.MinInt32)}, `[-1,-128,1,1,-2147483648]`},
		{"unsigned", []any{uint(1), uint8(255), uint16(1), uint32(1), uint64(1 << 53), uintptr(7)}, `[1,255,1,1,9007199254740992,7]`},
		{"integer that is its own shortest text", int64(1e18), `1000000000000000000`},
		{"floats", []any{0.0, math.Copysign(0, -1), 1e21, 1e20, 1e-6, 1e-7, 5e-324, -1.5}, `[0,0,1e+21,100000000000000000000,0.000001,1e-7,5e-324,-1.5]`},
		{"json numbers", []any{json.Number("-0.0"), json.Number("1E2"), json.Number("9007199254740993")}, `[0,100,9007199254740992]`},
		{"escapes", "\x00\x1f\b\t\n\f\r\"\\/\x7f\u2028<&>é😀", `"\u0000\u001f\b\t\n\f\r\"\\/` + "\x7f\u2028<&>é😀\""},
		{"order by UTF-16", map[string]any{"\U0001f600": 1, "\ue000": 2, "\uffff": 3, "\ud7ff": 4, "a": 5, "": 6, "a\x00": 7},
			"{\"\":6,\"a\":5,\"a\\u0000\":7,\"\ud7ff\":4,\"\U0001f600\":1,\"\ue000\":2,\"\uffff\":3}"},
		{"order by UTF-16 behind eight bytes", map[string]any{"12345678\U0001f600": 1, "12345678\ufb33": 2, "12345678": 3},
			"{\"12345678\":3,\"12345678\U0001f600\":1,\"12345678\ufb33\":2}"},
		{"order by UTF-16 across the eighth byte", map[string]any{"1234567\U0001f600": 1, "1234567\ufb33": 2},
			"{\"1234567\U0001f600\":1,\"1234567\ufb33\":2}"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := jcs.AppendTree([]byte("before "), row.tree)
			require.NoError(t, err)
			require.Equal(t, "before "+row.want, string(got))
			again, err := jcs.Canonical(got[len("before "):])
			require.NoError(t, err)
			require.Equal(t, row.want, string(again))
			sum, err := jcs.Hash(row.tree)
			require.NoError(t, err)
			require.Equal(t, jcs.Sum(again), sum)
		})
	}
}

func TestAppendTreeRefuses(t *testing.T) {
	for _, row := range []struct {
		name string
		tree any
		kind jcs.Kind
		path string
		says string
	}{
		{"struct", map[string]any{"when": time.Time{}}, jcs.ErrType, "/when", "time.Time"},
		{"typed slice", []any{[]string{"a"}}, jcs.ErrType, "/0", "[]string"},
		{"pointer", new(int), jcs.ErrType, "", "*int"},
		{"float32", float32(1), jcs.ErrType, "", "float32"},
		{"NaN", []any{1, math.NaN()}, jcs.ErrNonFinite, "/1", "NaN"},
		{"infinity", math.Inf(-1), jcs.ErrNonFinite, "", "-Inf"},
		{"number text out of range", json.Number("1e400"), jcs.ErrNonFinite, "", "1e400"},
		{"no number", json.Number("01"), jcs.ErrSyntax, "", `"01"`},
		{"empty number", json.Number(""), jcs.ErrSyntax, "", `""`},
		{"text that is no number", json.Number("1 "), jcs.ErrSyntax, "", `"1 "`},
		{"large integer", map[string]any{"id": int64(1<<53 + 1)}, jcs.ErrInexact, "/id", "9007199254740992"},
		{"large unsigned", uint64(math.MaxUint64), jcs.ErrInexact, "", "18446744073709552000"},
		{"smallest integer", int64(math.MinInt64), jcs.ErrInexact, "", "-9223372036854776000"},
		{"string", []any{"a\xff"}, jcs.ErrUTF8, "/0", "byte 1"},
		{"name", map[string]any{"x": map[string]any{"\xc3": 1}}, jcs.ErrUTF8, "/x/\xc3", "member name"},
		{"empty raw text", json.RawMessage{}, jcs.ErrSyntax, "", "ends"},
		{"raw text", map[string]any{"a": []any{json.RawMessage(`{"b":[1,]}`)}}, jcs.ErrSyntax, "/a/0/b/1", "byte 8"},
		{"surrogate in raw text", json.RawMessage(`"\ud800"`), jcs.ErrSurrogate, "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := jcs.AppendTree([]byte("before"), row.tree)
			require.Equal(t, "before", string(got))
			require.ErrorIs(t, err, row.kind)
			var e *jcs.SyntaxError
			require.ErrorAs(t, err, &e)
			require.Equal(t, row.path, e.Path)
			require.Contains(t, e.Error(), row.says)
			_, err = jcs.Hash(row.tree)
			require.ErrorIs(t, err, row.kind)
		})
	}
}

func TestAppendString(t *testing.T) {
	require.Equal(t, `"`+strings.Repeat("x", 30)+`\"é\u0001"`, string(jcs.AppendString(nil, strings.Repeat("x", 30)+"\"é\x01")))
	require.Equal(t, `"`+"a\ufffdb\ufffd"+`"`, string(jcs.AppendString(nil, "a\xffb\xc3")), "invalid bytes are replaced")
	require.Equal(t, "\"\ufffd\"", string(jcs.AppendString(nil, "\ufffd")))
}

func TestSum(t *testing.T) {
	require.Equal(t, "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", jcs.Sum([]byte("[]")))
}
