package jcs_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

type label string

func (l label) MarshalText() ([]byte, error) { return []byte("label " + string(l)), nil }

type embedded struct{ Inner string }

type record struct {
	B       string            `json:"b"`
	A       []any             `json:"a,omitempty"`
	Skip    string            `json:"-"`
	Default map[string]string `json:",omitempty"`
	Next    *record           `json:"next,omitempty"`
	Label   label             `json:"label,omitempty"`
	Bytes   []byte            `json:"bytes,omitempty"`
	hidden  string
	embedded
}

func TestMarshal(t *testing.T) {
	for _, row := range []struct {
		name string
		v    any
		want string
	}{
		{"nil", nil, `null`},
		{"html", "<a href=\"x\">&</a>\u2028", "\"<a href=\\\"x\\\">&</a>\u2028\""},
		{"struct", record{B: "x", A: []any{1.50, 2}, Label: "l", embedded: embedded{"i"}}, `{"Inner":"i","a":[1.5,2],"b":"x","label":"label l"}`},
		{"map with numbers as keys", map[int]string{10: "b", 9: "a"}, `{"10":"b","9":"a"}`},
		{"time", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `"2026-01-02T03:04:05Z"`},
		{"floats", []float64{1e21, 1e-7, 1.2345678901234567e20, math.MaxFloat64}, `[1e+21,1e-7,123456789012345670000,1.7976931348623157e+308]`},
		{"float32", float32(1.2345679e17), `123456790000000000`},
		{"replacement character", []any{"\ufffd", json.RawMessage(`"\ufffd"`)}, "[\"\ufffd\",\"\ufffd\"]"},
		{"invalid bytes nobody sees", record{B: "\ufffd", Skip: "\xff", hidden: "\xff", Bytes: []byte{0xff}, embedded: embedded{}}, "{\"Inner\":\"\",\"b\":\"\ufffd\",\"bytes\":\"/w==\"}"},
		{"raw text", json.RawMessage(`{"b":1,"a":2,"a":3}`), `{"a":3,"b":1}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := jcs.Marshal(row.v)
			require.NoError(t, err)
			require.Equal(t, row.want, string(got))
		})
	}
}

func TestMarshalRefuses(t *testing.T) {
	loop := &record{}
	for _, row := range []struct {
		name string
		v    any
		kind jcs.Kind
		path string
	}{
		{"large integer", map[string]any{"ids": []int64{1, 1<<53 + 1}}, jcs.ErrInexact, "/ids/1"},
		{"string", []any{"ok", "\xff"}, jcs.ErrUTF8, "/1"},
		{"field", record{Next: &record{B: "\xff"}}, jcs.ErrUTF8, "/next/b"},
		{"field without a name in its tag", record{Default: map[string]string{"k": "\xff"}}, jcs.ErrUTF8, "/Default/k"},
		{"embedded field", record{embedded: embedded{"\xff"}}, jcs.ErrUTF8, "/Inner"},
		{"text marshaler", record{Label: "\xff"}, jcs.ErrUTF8, "/label"},
		{"text marshaler as key", map[*label]int{ptr(label("\xff")): 1}, jcs.ErrUTF8, "/label \xff"},
		{"map key", map[string]any{"a": map[string]int{"\xff": 1}}, jcs.ErrUTF8, "/a/\xff"},
		{"raw text", map[string]any{"r": json.RawMessage("\"\xff\"")}, jcs.ErrUTF8, "/r"},
		{"surrogate in raw text", []any{json.RawMessage(`"\ud800"`)}, jcs.ErrSurrogate, "/0"},
		{"behind a pointer that is seen twice", []any{loop, loop, ptr("\xff")}, jcs.ErrUTF8, "/2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := jcs.Marshal(row.v)
			require.Nil(t, got)
			require.ErrorIs(t, err, row.kind)
			var e *jcs.SyntaxError
			require.ErrorAs(t, err, &e)
			require.Equal(t, row.path, e.Path)
			require.Equal(t, -1, e.Offset)
		})
	}
	var unsupported *json.UnsupportedTypeError
	_, err := jcs.Marshal(func() {})
	require.ErrorAs(t, err, &unsupported, "the encoder's own error comes through")
}

func ptr[T any](v T) *T { return &v }
