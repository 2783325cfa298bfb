// Package canon times the toolset hash: a set of tool definitions put into
// RFC 8785 canonical JSON and hashed with SHA-256.
//
// The input is 20 tools, each with a name, a description and an input schema
// of 15 properties, marshaled once with its keys out of canonical order and
// with the whitespace of an indented file. Peers canonicalize that document;
// the bounds are what no canonicalizer can beat: one decode and one encode by
// the standard library, one copy of the bytes, and the hash alone.
package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	cyber "github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	ours "github.com/rulvar/rulvar-go/internal/jcs"
)

var types = []string{"string", "integer", "number", "boolean", "array"}

// toolset returns the document as a program would hold it: a tree of maps.
func toolset() any {
	var tools []any
	for i := range 20 {
		props := map[string]any{}
		var required []any
		for j := range 15 {
			name := fmt.Sprintf("%c_property_%d", 'a'+(j*7)%26, j)
			p := map[string]any{
				"type":        types[j%len(types)],
				"description": fmt.Sprintf("Property %d of tool %d; says \"what\" it does, in a line.", j, i),
			}
			switch types[j%len(types)] {
			case "integer", "number":
				p["minimum"], p["maximum"] = 0, 1e6+float64(j)/8
			case "string":
				p["pattern"], p["maxLength"] = `^[a-z0-9/_.-]+$`, 4096
			case "array":
				p["items"] = map[string]any{"type": "string", "enum": []any{"read", "write", "exec"}}
			}
			props[name] = p
			if j%3 == 0 {
				required = append(required, name)
			}
		}
		tools = append(tools, map[string]any{
			"name":        fmt.Sprintf("tool_%02d", i),
			"description": "Reads, checks and rewrites a file of the workspace — then reports what changed.",
			"version":     "1.4.0",
			"risk":        "medium",
			"inputSchema": map[string]any{
				"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
				"properties": props, "required": required, "additionalProperties": false,
			},
		})
	}
	return map[string]any{"version": 1, "tools": tools}
}

// document returns the set as text, object members in the reverse of the
// canonical order, so that every object has to be sorted.
func document(t testing.TB) []byte {
	var buf bytes.Buffer
	reversed(&buf, toolset())
	var out bytes.Buffer
	if err := json.Indent(&out, buf.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func reversed(buf *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		// insertion sort, descending: the sets are small
		for i := range keys {
			for j := i; j > 0 && keys[j] > keys[j-1]; j-- {
				keys[j], keys[j-1] = keys[j-1], keys[j]
			}
		}
		buf.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				buf.WriteByte(',')
			}
			fmt.Fprintf(buf, "%q:", k)
			reversed(buf, v[k])
		}
		buf.WriteByte('}')
	case []any:
		buf.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				buf.WriteByte(',')
			}
			reversed(buf, e)
		}
		buf.WriteByte(']')
	default:
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		buf.Write(b)
	}
}

// appendCanonical is a straight canonical encoder for the tree above, written
// to show how near to the hash alone a library that owns its values can come.
// It sorts keys bytewise, which equals RFC 8785's UTF-16 order for keys without
// characters past U+D7FF, as here.
func appendCanonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		var arr [32]string
		keys := arr[:0]
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		dst = append(dst, '{')
		for i, k := range keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, k), ':')
			dst = appendCanonical(dst, v[k])
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(dst, e)
		}
		return append(dst, ']')
	case string:
		return appendString(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case float64:
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	}
	panic(fmt.Sprintf("%T", v))
}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			default:
				dst = fmt.Appendf(dst, "\\u%04x", c)
			}
			start = i + 1
		}
	}
	return append(append(dst, s[start:]...), '"')
}

func jsontextCanonicalize(in []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(in))
	err := v.Canonicalize()
	return v, err
}

var sink byte

// canonicalizer appends the canonical form of a value to dst where it appends,
// and else returns it in memory of its own.
type canonicalizer[T any] struct {
	name    string
	appends bool
	f       func(dst []byte, v T) ([]byte, error)
}

// fromText are the ways from a JSON text to its canonical form.
var fromText = []canonicalizer[[]byte]{
	{"rulvar", true, func(dst, doc []byte) ([]byte, error) { return ours.Append(dst, doc) }},
	{"gowebpki-jcs", false, func(_, doc []byte) ([]byte, error) { return jcs.Transform(doc) }},
	{"cyberphone", false, func(_, doc []byte) ([]byte, error) { return cyber.Transform(doc) }},
	{"jsontext-canonicalize", false, func(_, doc []byte) ([]byte, error) { return jsontextCanonicalize(doc) }},
	{"encoding-json-decode-encode", false, func(_, doc []byte) ([]byte, error) {
		var v any
		if err := json.Unmarshal(doc, &v); err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}},
}

// fromTree are the ways from a tree in memory: what a library that holds the
// tools as values can do, without a text to parse.
var fromTree = []canonicalizer[any]{
	{"rulvar", true, ours.AppendTree},
	{"encoding-json-marshal-jcs", false, func(_ []byte, tree any) ([]byte, error) {
		out, err := json.Marshal(tree)
		if err != nil {
			return nil, err
		}
		return jcs.Transform(out)
	}},
	{"encoding-json-marshal-jsontext", false, func(_ []byte, tree any) ([]byte, error) {
		out, err := json.Marshal(tree)
		if err != nil {
			return nil, err
		}
		v := jsontext.Value(out)
		return v, v.Canonicalize()
	}},
	{"encoding-json-marshal", false, func(_ []byte, tree any) ([]byte, error) { return json.Marshal(tree) }},
	{"hand-append", true, func(dst []byte, tree any) ([]byte, error) { return appendCanonical(dst, tree), nil }},
}

// BenchmarkToolset times the hash of the toolset, from a text and from values.
// The buffer that a canonicalizer may append to is kept between the rounds, as
// a library does that hashes often.
func BenchmarkToolset(b *testing.B) {
	doc, tree := document(b), toolset()
	canonical, err := jcs.Transform(doc)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("document %d bytes, canonical %d bytes", len(doc), len(canonical))
	for _, p := range fromText {
		b.Run("text/"+p.name, func(b *testing.B) { hashed(b, p, doc, len(doc)) })
	}
	bound := canonicalizer[[]byte]{f: func(_, c []byte) ([]byte, error) { return c, nil }}
	b.Run("text/sha256-bound", func(b *testing.B) { hashed(b, bound, canonical, len(canonical)) })
	for _, p := range fromTree {
		b.Run("tree/"+p.name, func(b *testing.B) { hashed(b, p, any(tree), len(canonical)) })
	}
	b.Run("tree/sha256-bound", func(b *testing.B) { hashed(b, bound, canonical, len(canonical)) })
}

func hashed[T any](b *testing.B, p canonicalizer[T], v T, size int) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	var buf []byte
	start := cpuTime()
	defer func() { reportCPU(b, start, 1) }()
	for b.Loop() {
		out, err := p.f(buf[:0], v)
		if err != nil {
			b.Fatal(err)
		}
		if p.appends {
			buf = out
		}
		h := sha256.Sum256(out)
		sink += h[0]
	}
}

// BenchmarkPass times passes over the text that any canonicalizer needs some
// form of.
func BenchmarkPass(b *testing.B) {
	doc := document(b)
	b.Run("json-valid", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		for b.Loop() {
			if !json.Valid(doc) {
				b.Fatal("invalid")
			}
		}
	})
	b.Run("jsontext-isvalid", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		for b.Loop() {
			if !jsontext.Value(doc).IsValid() {
				b.Fatal("invalid")
			}
		}
	})
	b.Run("jsontext-compact", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		for b.Loop() {
			v := jsontext.Value(bytes.Clone(doc))
			if err := v.Compact(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("copy-bound", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		dst := make([]byte, len(doc))
		for b.Loop() {
			copy(dst, doc)
		}
	})
}

// TestAgree holds the canonicalizers to the same bytes, here and on cases that
// RFC 8785 is strict about. Peers' differences are logged, since a peer's fault
// is a finding and not this suite's; ours follows gowebpki/jcs except where it
// refuses (a half of a surrogate pair).
func TestAgree(t *testing.T) {
	tree, err := ours.AppendTree(nil, toolset())
	if err != nil || !bytes.Equal(tree, appendCanonical(nil, toolset())) {
		t.Errorf("rulvar differs from the hand-written encoder (%v)", err)
	}
	if want, err := jcs.Transform(document(t)); err != nil || !bytes.Equal(want, tree) {
		t.Errorf("hand-written encoder differs from jcs (%v)", err)
	}
	for _, in := range []string{
		string(document(t)),
		`{"b":1.0,"a":1e21,"c":-0,"é":"\u20ac","\u0000":333333333.33333329}`,
		`{"\ud83d\ude00":1,"\ufb33":2,"1":{"f":{"f":"hi","F":5},"\n":56.0},"":[1E30,4.50,2e-3,0.000000000000000000000000001]}`,
		`"\u003c\u0026\u2028\/"`,
		`9007199254740993`,
		`{"a":1,"a":2}`,
		`"\ud800"`,
		`[1]x`,
	} {
		o, errO := ours.Canonical([]byte(in))
		a, errA := jcs.Transform([]byte(in))
		c, errC := cyber.Transform([]byte(in))
		j, errJ := jsontextCanonicalize([]byte(in))
		if errO == nil && errA == nil && !bytes.Equal(o, a) {
			t.Errorf("%.80s\n  rulvar %s\n  jcs    %s", in, o, a)
		}
		if errA != nil || errC != nil || errJ != nil || !bytes.Equal(a, c) || !bytes.Equal(a, j) {
			if len(in) > 200 {
				t.Fatalf("differ on the document: %v %v %v", errA, errC, errJ)
			}
			t.Logf("%s\n  rulvar     %s %v\n  jcs        %s %v\n  cyberphone %s %v\n  jsontext   %s %v", in, o, errO, a, errA, c, errC, j, errJ)
		}
	}
}
