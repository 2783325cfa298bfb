package jsonschema_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"testing"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// The schema and the arguments are those of a typical tool that edits files;
// bench/ measures the same against other libraries.
const editSchema = `{
  "type": "object",
  "properties": {
    "path":  {"type": "string", "minLength": 1, "maxLength": 4096, "pattern": "^[A-Za-z0-9_./-]+$"},
    "mode":  {"type": "string", "enum": ["create", "replace", "append"]},
    "limit": {"type": "integer", "minimum": 1, "maximum": 10000},
    "force": {"type": "boolean"},
    "edits": {
      "type": "array", "minItems": 1, "maxItems": 64,
      "items": {
        "type": "object",
        "properties": {
          "start": {"type": "integer", "minimum": 0},
          "end":   {"type": "integer", "minimum": 0},
          "text":  {"type": "string"}
        },
        "required": ["start", "end", "text"],
        "additionalProperties": false
      }
    }
  },
  "required": ["path", "mode", "edits"],
  "additionalProperties": false
}`

const editArguments = `{"path":"internal/journal/segment.go","mode":"replace","limit":200,"force":false,"edits":[{"start":10,"end":14,"text":"func (s *Segment) Close() error {\n"},{"start":20,"end":20,"text":"}\n"},{"start":31,"end":40,"text":"return s.f.Sync()"}]}`

type edit struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  string `json:"text"`
}

type editArgs struct {
	Path  string `json:"path"`
	Mode  string `json:"mode"`
	Limit int    `json:"limit,omitempty"`
	Force bool   `json:"force,omitempty"`
	Edits []edit `json:"edits"`
}

func parse(tb testing.TB, text string) any {
	tb.Helper()
	tree, err := jcs.Parse([]byte(text))
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return tree
}

func compile(tb testing.TB, text string) *jsonschema.Validator {
	tb.Helper()
	v, err := jsonschema.Compile(parse(tb, text))
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return v
}

// BenchmarkCall times what stands between a model's argument text and a typed
// handler, against the bound of decoding the text without a check.
func BenchmarkCall(b *testing.B) {
	v := compile(b, editSchema)
	tree := parse(b, editArguments)
	canonical, err := jcs.Canonical([]byte(editArguments))
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, step func() bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !step() {
					b.Fatal("refused")
				}
			}
		})
	}
	run("bound", func() bool {
		var a editArgs
		return json.Unmarshal([]byte(editArguments), &a) == nil
	})
	run("all", func() bool {
		tree, err := jcs.ParseStrict([]byte(editArguments))
		if err != nil {
			return false
		}
		if _, found := v.FoldConflict(tree); found || !v.Valid(tree) {
			return false
		}
		full, err := v.ApplyDefaults(tree)
		if err != nil {
			return false
		}
		var a editArgs
		return jsonschema.DecodeInto(nil, full, &a) == nil && len(a.Edits) == 3
	})
	run("parse", func() bool { _, err := jcs.ParseStrict([]byte(editArguments)); return err == nil })
	run("fold", func() bool { _, found := v.FoldConflict(tree); return !found })
	run("valid", func() bool { return v.Valid(tree) })
	run("defaults", func() bool { _, err := v.ApplyDefaults(tree); return err == nil })
	run("decode", func() bool {
		var a editArgs
		return jsonschema.DecodeInto(canonical, tree, &a) == nil
	})
}

func BenchmarkDefine(b *testing.B) {
	tree := parse(b, editSchema)
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := jsonschema.Check(tree); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hash", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := jsonschema.Hash(tree); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			fresh := maps.Clone(tree.(map[string]any))
			fresh["title"] = strconv.Itoa(i) // not in the cache
			if _, err := jsonschema.Compile(fresh); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compile-cached", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := jsonschema.Compile(tree); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reflect-cached-and-compile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tree, err := jsonschema.Reflect(reflect.TypeFor[editArgs]())
			if err != nil {
				b.Fatal(err)
			}
			if _, err := jsonschema.Compile(tree); err != nil {
				b.Fatal(err)
			}
		}
	})
}
