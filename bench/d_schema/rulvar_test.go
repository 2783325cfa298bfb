package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// compiles numbers the schemas, so that each is compiled and none comes out of
// the cache of equal ones.
var compiles atomic.Int64

// compileRulvar makes a checker of the schema's text.
func compileRulvar(tb testing.TB) *jsonschema.Validator {
	tree, err := jcs.Parse([]byte(schemaText))
	if err != nil {
		tb.Fatal(err)
	}
	tree.(map[string]any)["$comment"] = strconv.FormatInt(compiles.Add(1), 10)
	v, err := jsonschema.Compile(tree)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func newRulvar(tb testing.TB) validator {
	v := compileRulvar(tb)
	return validator{
		value: func(tree any) error { return firstIssue(v, tree) },
		raw: func(b []byte) error {
			_, _, err := take(v, b)
			return err
		},
		decode: jcs.Parse,
	}
}

func firstIssue(v *jsonschema.Validator, tree any) error {
	if issues := v.Validate(tree); issues != nil {
		return invalid(issues[0].Location + ": " + issues[0].Message)
	}
	return nil
}

// take is the intake of a call's arguments, in the order in which the engine
// does it: strict JSON, no name that another declared one folds to, defaults,
// schema, canonical bytes.
func take(v *jsonschema.Validator, raw []byte) (canonical []byte, tree any, err error) {
	if tree, err = jcs.ParseStrict(raw); err != nil {
		return nil, nil, err
	}
	if place, found := v.FoldConflict(tree); found {
		return nil, nil, invalid(place)
	}
	if tree, err = v.ApplyDefaults(tree); err != nil {
		return nil, nil, err
	}
	if err := firstIssue(v, tree); err != nil {
		return nil, nil, err
	}
	canonical, err = jcs.AppendTree(make([]byte, 0, len(raw)), tree)
	return canonical, tree, err
}

// takeInto is take and the decoding that hands the value to a typed handler.
func takeInto(v *jsonschema.Validator, raw []byte) (a args, err error) {
	canonical, tree, err := take(v, raw)
	if err == nil {
		err = jsonschema.DecodeInto(canonical, tree, &a)
	}
	return a, err
}

// BenchmarkIntake takes the intake apart, and holds the public dry run, which
// does all of it and walks an empty chain, to the sum of the parts.
func BenchmarkIntake(b *testing.B) {
	v := compileRulvar(b)
	tree, err := jcs.ParseStrict(good)
	if err != nil {
		b.Fatal(err)
	}
	canonical, err := jcs.AppendTree(nil, tree)
	if err != nil {
		b.Fatal(err)
	}
	for _, part := range []struct {
		name string
		f    func() error
	}{
		{"parse-strict", func() error { _, err := jcs.ParseStrict(good); return err }},
		{"fold-conflict", func() error {
			if _, found := v.FoldConflict(tree); found {
				return invalid("found")
			}
			return nil
		}},
		{"defaults", func() error { _, err := v.ApplyDefaults(tree); return err }},
		{"validate", func() error { return firstIssue(v, tree) }},
		{"canonical", func() error { _, err := jcs.AppendTree(make([]byte, 0, len(good)), tree); return err }},
		{"decode", func() error { var a args; return jsonschema.DecodeInto(canonical, tree, &a) }},
		{"all-but-decode", func() error { _, _, err := take(v, good); return err }},
		{"all", func() error { _, err := takeInto(v, good); return err }},
		{"evaluate-permission", evaluatePermission(b)},
	} {
		b.Run(part.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := part.f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("struct-unmarshal-bound", unmarshalStruct)
}

// evaluatePermission is the dry run of the call: the one public function that
// takes arguments in without executing anything.
func evaluatePermission(b *testing.B) func() error {
	tool, err := declare()
	if err != nil {
		b.Fatal(err)
	}
	chain, err := rulvar.CompilePermissionChain(nil, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	return func() error {
		ev, err := rulvar.EvaluatePermission(b.Context(), chain, tool, json.RawMessage(good))
		if err == nil && ev.Verdict != rulvar.VerdictAllow {
			err = invalid(ev.String())
		}
		return err
	}
}

func declare() (*rulvar.Tool, error) {
	s, err := rulvar.SchemaPair(json.RawMessage(schemaText), func(b json.RawMessage) (a args, err error) {
		return a, json.Unmarshal(b, &a)
	})
	if err != nil {
		return nil, err
	}
	return rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "edit"}, s, func(_ *rulvar.ToolContext, a args) (int, error) { return len(a.Edits), nil })
}

// reflectAgain is the schema of a type that has been asked for before.
func reflectAgain(b *testing.B) {
	b.ReportAllocs()
	start := cpuTime()
	defer func() { reportCPU(b, start, 1) }()
	for b.Loop() {
		s, err := rulvar.SchemaOf[invArgs]()
		if err != nil {
			b.Fatal(err)
		}
		sinkInt += len(s.Hash())
	}
}

// reflectFirst is the schema of a type that was never asked for, as SchemaOf
// makes it: reflected, checked, hashed and compiled. Every round has a type of
// its own, made outside the timing.
func reflectFirst(b *testing.B) {
	const chunk = 8
	var took, cpu time.Duration
	rounds := 0
	for b.Loop() {
		var types [chunk]reflect.Type
		for i := range types {
			types[i] = variant(int(compiles.Add(1)))
		}
		start, cpuStart := time.Now(), cpuTime()
		for _, t := range types {
			if err := schemaOf(t); err != nil {
				b.Fatal(err)
			}
		}
		took += time.Since(start)
		cpu += cpuTime() - cpuStart
		rounds += chunk
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(rounds), "ns/op")
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(rounds), "cpu-ns/op")
}

// variant is invArgs with another description.
func variant(n int) reflect.Type {
	var fields []reflect.StructField
	for i := range reflect.TypeFor[invArgs]().NumField() {
		fields = append(fields, reflect.TypeFor[invArgs]().Field(i))
	}
	fields[0].Tag = reflect.StructTag(fmt.Sprintf(`json:"path" jsonschema:"description=file %d to change,minLength=1"`, n))
	return reflect.StructOf(fields)
}

func schemaOf(t reflect.Type) error {
	tree, err := jsonschema.Reflect(t)
	if err != nil {
		return err
	}
	declared, err := jcs.AppendTree(nil, tree)
	if err != nil {
		return err
	}
	canonical, err := jsonschema.Canonical(tree)
	if err != nil {
		return err
	}
	text, err := jcs.AppendTree(nil, canonical)
	if err != nil {
		return err
	}
	sinkInt += len(declared) + len(jcs.Sum(text))
	_, err = jsonschema.Compile(tree)
	return err
}

// TestRulvar holds our checker to the verdicts, and the way through a tool to
// the struct that encoding/json makes.
func TestRulvar(t *testing.T) {
	v := compileRulvar(t)
	got, err := takeInto(v, good)
	var want args
	if err != nil || json.Unmarshal(good, &want) != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	for _, bad := range append(bads,
		`{"path":"a","mode":"create","MODE":"append","edits":[{"start":1,"end":2,"text":""}]}`, // folds to a name
		`{"path":"a","mode":"create","mode":"append","edits":[{"start":1,"end":2,"text":""}]}`, // twice
	) {
		if _, err := takeInto(v, []byte(bad)); err == nil {
			t.Errorf("accepts %s", bad)
		}
	}
	if err := schemaOf(variant(1)); err != nil {
		t.Error(err)
	}
	if tool, err := declare(); err != nil || tool.Name() != "edit" {
		t.Error(err)
	}
}
