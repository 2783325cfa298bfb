package jcs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"

	ours "github.com/rulvar/rulvar-go/internal/jcs"
)

// toolset returns 20 tools of 15 parameters each, as a program would hold
// them: about 50 kB of canonical text.
func toolset() map[string]any {
	var tools []any
	for i := range 20 {
		properties := map[string]any{}
		var required []any
		for j := range 15 {
			name := fmt.Sprintf("%c_property_%d", 'a'+(j*7)%26, j)
			properties[name] = property(i, j)
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
				"properties": properties, "required": required, "additionalProperties": false,
			},
		})
	}
	return map[string]any{"version": 1, "tools": tools}
}

// property returns the schema of parameter j of tool i.
func property(i, j int) map[string]any {
	kind := []string{"string", "integer", "number", "boolean", "array"}[j%5]
	p := map[string]any{
		"type":        kind,
		"description": fmt.Sprintf("Property %d of tool %d; says \"what\" it does, in a line.", j, i),
	}
	switch kind {
	case "integer", "number":
		p["minimum"], p["maximum"] = 0, 1e6+float64(j)/8
	case "string":
		p["pattern"], p["maxLength"] = `^[a-z0-9/_.-]+$`, 4096
	case "array":
		p["items"] = map[string]any{"type": "string", "enum": []any{"read", "write", "exec"}}
	}
	return p
}

// indentedReversed returns tree as an indented text whose members stand in the
// reverse of the canonical order, so that every object has to be sorted.
func indentedReversed(t testing.TB, tree any) []byte {
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, appendReversed(t, nil, tree), "", "  "))
	return out.Bytes()
}

func appendReversed(t testing.TB, dst []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		slices.Reverse(names)
		dst = append(dst, '{')
		for i, name := range names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(ours.AppendString(dst, name), ':')
			dst = appendReversed(t, dst, v[name])
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendReversed(t, dst, e)
		}
		return append(dst, ']')
	default:
		b, err := json.Marshal(v)
		require.NoError(t, err)
		return append(dst, b...)
	}
}

var sink byte

// BenchmarkToolset puts a toolset into canonical form and hashes it, from
// values and from text. Read the ratios to sha256 alone.
func BenchmarkToolset(b *testing.B) {
	tree := toolset()
	text := indentedReversed(b, tree)
	canonical, err := jcs.Transform(text)
	require.NoError(b, err)
	dst := make([]byte, 0, len(canonical))

	run := func(name string, canon func() ([]byte, error)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				out, err := canon()
				if err != nil {
					b.Fatal(err)
				}
				h := sha256.Sum256(out)
				sink += h[0]
			}
		})
	}
	run("sha256", func() ([]byte, error) { return canonical, nil })
	run("tree", func() ([]byte, error) { return ours.AppendTree(dst, tree) })
	run("text", func() ([]byte, error) { return ours.Append(dst, text) })
	run("text-canonical", func() ([]byte, error) { return ours.Append(dst, canonical) })
	run("text-gowebpki", func() ([]byte, error) { return jcs.Transform(text) })
}

// BenchmarkRead makes trees of the arguments of one call and of a toolset.
func BenchmarkRead(b *testing.B) {
	arguments := []byte(`{"path":"src/main.go","edits":[{"line":12,"old":"a := 1","new":"a := 2"},` +
		`{"line":40,"old":"\treturn \"x\"\n","new":"\treturn \"y\"\n"}],"dryRun":false,"limit":0.5}`)
	document := indentedReversed(b, toolset())
	for _, row := range []struct {
		name string
		text []byte
		read func([]byte) (any, error)
	}{
		{"arguments/strict", arguments, ours.ParseStrict},
		{"arguments/encoding-json", arguments, unmarshal},
		{"toolset/parse", document, ours.Parse},
		{"toolset/encoding-json", document, unmarshal},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(row.text)))
			for b.Loop() {
				if _, err := row.read(row.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func unmarshal(text []byte) (v any, err error) {
	err = json.Unmarshal(text, &v)
	return v, err
}

// TestWritesWithoutAllocating holds the two writers to that, given room, and
// the check.
func TestWritesWithoutAllocating(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop at random")
	}
	tree := toolset()
	text := indentedReversed(t, tree)
	dst := make([]byte, 0, len(text))
	require.Zero(t, testing.AllocsPerRun(200, func() { _, _ = ours.AppendTree(dst, tree) }), "AppendTree")
	require.Zero(t, testing.AllocsPerRun(200, func() { _, _ = ours.Append(dst, text) }), "Append")
	require.Zero(t, testing.AllocsPerRun(200, func() { _ = ours.Check(text) }), "Check")
}
