// Package schema times checking one tool call's arguments against the tool's
// JSON Schema, and making that schema from a Go type.
//
// The schema has five properties, one of them an array of objects, with the
// keywords that models' tools use: type, enum, pattern, bounds, required and
// additionalProperties. Each peer is timed twice: on a value already decoded,
// and from the raw argument bytes, which is what a tool call brings.
package schema

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	google "github.com/google/jsonschema-go/jsonschema"
	invopop "github.com/invopop/jsonschema"
	kaptin "github.com/kaptinlin/jsonschema"
	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/xeipuuv/gojsonschema"
)

const schemaText = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
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

var (
	good = []byte(`{"path":"internal/journal/segment.go","mode":"replace","limit":200,"force":false,"edits":[{"start":10,"end":14,"text":"func (s *Segment) Close() error {\n"},{"start":20,"end":20,"text":"}\n"},{"start":31,"end":40,"text":"return s.f.Sync()"}]}`)
	bads = []string{
		`{"path":"a","mode":"replace"}`,                                                    // edits missing
		`{"path":"a","mode":"rewrite","edits":[{"start":1,"end":2,"text":""}]}`,            // enum
		`{"path":"a b","mode":"create","edits":[{"start":1,"end":2,"text":""}]}`,           // pattern
		`{"path":"a","mode":"create","limit":0,"edits":[{"start":1,"end":2,"text":""}]}`,   // minimum
		`{"path":"a","mode":"create","limit":1.5,"edits":[{"start":1,"end":2,"text":""}]}`, // integer
		`{"path":"a","mode":"create","edits":[{"start":1,"end":2}]}`,                       // nested required
		`{"path":"a","mode":"create","edits":[{"start":1,"end":2,"text":"","x":1}]}`,       // nested additional
		`{"path":"a","mode":"create","edits":[],"x":1}`,                                    // minItems, additional
	}
)

type edit struct {
	Start int    `json:"start" jsonschema:"first line"`
	End   int    `json:"end" jsonschema:"line after the last"`
	Text  string `json:"text" jsonschema:"the new text"`
}

type args struct {
	Path  string `json:"path" jsonschema:"file to change"`
	Mode  string `json:"mode" jsonschema:"create, replace or append"`
	Limit int    `json:"limit,omitempty" jsonschema:"most lines to touch"`
	Force bool   `json:"force,omitempty" jsonschema:"overwrite"`
	Edits []edit `json:"edits" jsonschema:"the edits"`
}

// invArgs repeats args with invopop's tag grammar.
type invEdit struct {
	Start int    `json:"start" jsonschema:"description=first line,minimum=0"`
	End   int    `json:"end" jsonschema:"description=line after the last,minimum=0"`
	Text  string `json:"text" jsonschema:"description=the new text"`
}

type invArgs struct {
	Path  string    `json:"path" jsonschema:"description=file to change,minLength=1"`
	Mode  string    `json:"mode" jsonschema:"description=how,enum=create,enum=replace,enum=append"`
	Limit int       `json:"limit,omitempty" jsonschema:"description=most lines,minimum=1"`
	Force bool      `json:"force,omitempty" jsonschema:"description=overwrite"`
	Edits []invEdit `json:"edits" jsonschema:"description=the edits"`
}

// validator checks a decoded value and raw bytes; a nil error is valid.
type validator struct {
	value  func(any) error
	raw    func([]byte) error
	decode func([]byte) (any, error) // nil: as encoding/json does
}

func (v *validator) decoded(text []byte) (tree any, err error) {
	if v.decode != nil {
		return v.decode(text)
	}
	err = json.Unmarshal(text, &tree)
	return tree, err
}

type invalid string

func (e invalid) Error() string { return string(e) }

var peers = []struct {
	name string
	make func(testing.TB) validator
}{
	{"rulvar", newRulvar},
	{"santhosh-v6", newSanthosh},
	{"google-jsonschema-go", newGoogle},
	{"kaptinlin", newKaptin},
	{"xeipuuv", newXeipuuv},
}

func newSanthosh(tb testing.TB) validator {
	doc, err := santhosh.UnmarshalJSON(bytes.NewReader([]byte(schemaText)))
	if err != nil {
		tb.Fatal(err)
	}
	c := santhosh.NewCompiler()
	if err := c.AddResource("tool.json", doc); err != nil {
		tb.Fatal(err)
	}
	s := c.MustCompile("tool.json")
	return validator{value: s.Validate, raw: func(b []byte) error {
		v, err := santhosh.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			return err
		}
		return s.Validate(v)
	}}
}

func newGoogle(tb testing.TB) validator {
	var s google.Schema
	if err := json.Unmarshal([]byte(schemaText), &s); err != nil {
		tb.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return validator{value: r.Validate, raw: func(b []byte) error {
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		return r.Validate(v)
	}}
}

func newKaptin(tb testing.TB) validator {
	s, err := kaptin.NewCompiler().Compile([]byte(schemaText))
	if err != nil {
		tb.Fatal(err)
	}
	is := func(r *kaptin.EvaluationResult) error {
		if !r.IsValid() {
			return invalid("kaptin")
		}
		return nil
	}
	return validator{
		value: func(v any) error { return is(s.Validate(v)) },
		raw:   func(b []byte) error { return is(s.ValidateJSON(b)) },
	}
}

func newXeipuuv(tb testing.TB) validator {
	s, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(schemaText))
	if err != nil {
		tb.Fatal(err)
	}
	check := func(l gojsonschema.JSONLoader) error {
		r, err := s.Validate(l)
		if err != nil {
			return err
		}
		if !r.Valid() {
			return invalid(r.Errors()[0].String())
		}
		return nil
	}
	return validator{
		value: func(v any) error { return check(gojsonschema.NewGoLoader(v)) },
		raw:   func(b []byte) error { return check(gojsonschema.NewBytesLoader(b)) },
	}
}

func BenchmarkValidate(b *testing.B) {
	var decoded any
	if err := json.Unmarshal(good, &decoded); err != nil {
		b.Fatal(err)
	}
	for _, p := range peers {
		b.Run("value/"+p.name, func(b *testing.B) {
			v := p.make(b)
			decoded, err := v.decoded(good)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := v.value(decoded); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("value/hand-bound", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !handValid(decoded) {
				b.Fatal("invalid")
			}
		}
	})
	for _, p := range peers {
		b.Run("raw/"+p.name, func(b *testing.B) {
			v := p.make(b)
			b.ReportAllocs()
			for b.Loop() {
				if err := v.raw(good); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("raw/decode-any", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v any
			if err := json.Unmarshal(good, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("raw/struct-unmarshal-bound", unmarshalStruct)
	b.Run("raw/struct-decode-strict", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var a args
			d := json.NewDecoder(bytes.NewReader(good))
			d.DisallowUnknownFields()
			if err := d.Decode(&a); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func unmarshalStruct(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var a args
		if err := json.Unmarshal(good, &a); err != nil {
			b.Fatal(err)
		}
	}
}

// handValid is the least work a check of the decoded value can be: the
// schema's keywords written out as Go.
func handValid(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	n := 0
	if s, ok := m["path"].(string); !ok || len(s) < 1 || len(s) > 4096 || !pathChars(s) {
		return false
	}
	n++
	switch s, _ := m["mode"].(string); s {
	case "create", "replace", "append":
		n++
	default:
		return false
	}
	if l, has := m["limit"]; has {
		if f, ok := l.(float64); !ok || f != float64(int(f)) || f < 1 || f > 10000 {
			return false
		}
		n++
	}
	if l, has := m["force"]; has {
		if _, ok := l.(bool); !ok {
			return false
		}
		n++
	}
	es, ok := m["edits"].([]any)
	if !ok || len(es) < 1 || len(es) > 64 {
		return false
	}
	n++
	for _, e := range es {
		o, ok := e.(map[string]any)
		if !ok || len(o) != 3 {
			return false
		}
		for _, k := range [2]string{"start", "end"} {
			if f, ok := o[k].(float64); !ok || f < 0 || f != float64(int(f)) {
				return false
			}
		}
		if _, ok := o["text"].(string); !ok {
			return false
		}
	}
	return len(m) == n
}

func pathChars(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '/', c == '-':
		default:
			return false
		}
	}
	return true
}

var sinkSchema any

func BenchmarkReflect(b *testing.B) {
	b.Run("rulvar-first", reflectFirst)
	b.Run("rulvar-again", reflectAgain)
	b.Run("invopop", func(b *testing.B) {
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			sinkSchema = (&invopop.Reflector{DoNotReference: true}).Reflect(&invArgs{})
		}
	})
	b.Run("google-jsonschema-go", func(b *testing.B) {
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			s, err := google.For[args](nil)
			if err != nil {
				b.Fatal(err)
			}
			sinkSchema = s
		}
	})
	b.Run("google-For-and-Resolve", func(b *testing.B) {
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			s, err := google.For[args](nil)
			if err != nil {
				b.Fatal(err)
			}
			if sinkSchema, err = s.Resolve(nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reflect-walk-bound", func(b *testing.B) {
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			sinkInt += walk(reflect.TypeFor[args]())
		}
	})
}

var sinkInt int

// walk visits each field and reads its tags, which any reflector must.
func walk(t reflect.Type) int {
	n := 0
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			n += len(f.Tag.Get("json")) + len(f.Tag.Get("jsonschema")) + walk(f.Type)
		}
	case reflect.Slice:
		n += walk(t.Elem())
	}
	return n + 1
}

// BenchmarkCompile times making a validator from the schema's text, once a tool.
func BenchmarkCompile(b *testing.B) {
	for _, p := range peers {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.make(b)
			}
		})
	}
}

// TestAgree holds each peer to the verdicts on the good and the bad arguments.
func TestAgree(t *testing.T) {
	for _, p := range peers {
		v := p.make(t)
		if err := v.raw(good); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		for _, bad := range bads {
			d, err := v.decoded([]byte(bad))
			if err != nil {
				t.Fatal(err)
			}
			if handValid(d) {
				t.Errorf("hand: accepts %s", bad)
			}
			if v.raw([]byte(bad)) == nil || v.value(d) == nil {
				t.Errorf("%s: accepts %s", p.name, bad)
			}
		}
	}
}
