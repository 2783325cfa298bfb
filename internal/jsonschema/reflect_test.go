package jsonschema_test

import (
	"encoding"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"text/template"
	"time"

	invopop "github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
	"github.com/rulvar/rulvar-go/internal/jsonschema/testdata/twin"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func reflectText(t *testing.T, typ reflect.Type) string {
	t.Helper()
	tree, err := jsonschema.Reflect(typ)
	require.NoError(t, err)
	text, err := jcs.AppendTree(nil, tree)
	require.NoError(t, err)
	return string(text)
}

// Same is the name of a type here and in another package.
type Same struct {
	Here string `json:"here"`
}

// box is generic over types of other packages.
type box[T any] struct {
	In T `json:"in"`
}

type bothWays struct{ n int }

func (b bothWays) MarshalText() ([]byte, error)     { return []byte{'x'}, nil }
func (b *bothWays) UnmarshalText(text []byte) error { b.n = len(text); return nil }

type described struct{ x int }

func (described) JSONSchema() *invopop.Schema {
	return &invopop.Schema{Type: "string", MinLength: ptr(uint64(3))}
}
func (d *described) UnmarshalJSON([]byte) error { d.x = 1; return nil }

type describedByPointer struct{}

func (*describedByPointer) JSONSchema() *invopop.Schema { return sharedSchema }

var sharedSchema = &invopop.Schema{Type: "boolean"}

func ptr[T any](v T) *T { return &v }

type base struct {
	ID   string `json:"id"`
	Note string `json:"note,omitempty"`
}

type level int8

// The traps of reflection, each with what has to come out.
func TestReflectTraps(t *testing.T) {
	rows := []struct {
		name string
		typ  reflect.Type
		want string
	}{
		{"no arguments", typeOf[struct{}](), `{"additionalProperties":false,"properties":{},"type":"object"}`},
		{"no arguments, by pointer", typeOf[**struct{}](), `{"additionalProperties":false,"properties":{},"type":"object"}`},
		{"types of one name in two packages", typeOf[struct {
			A Same      `json:"a"`
			B twin.Same `json:"b"`
		}](), `{"additionalProperties":false,"properties":{` +
			`"a":{"additionalProperties":false,"properties":{"here":{"type":"string"}},"required":["here"],"type":"object"},` +
			`"b":{"additionalProperties":false,"properties":{"there":{"type":"integer"}},"required":["there"],"type":"object"}},"required":["a","b"],"type":"object"}`},
		{"generic over an imported type", typeOf[box[twin.Same]](), `{"additionalProperties":false,"properties":{"in":{"additionalProperties":false,"properties":{"there":{"type":"integer"}},"required":["there"],"type":"object"}},"required":["in"],"type":"object"}`},
		{"generic over a time", typeOf[box[[]time.Time]](), `{"additionalProperties":false,"properties":{"in":{"items":{"format":"date-time","type":"string"},"type":"array"}},"required":["in"],"type":"object"}`},
		{"a type used twice", typeOf[[2]struct{ A, B base }](), `{"items":{"additionalProperties":false,"properties":{` +
			`"A":{"additionalProperties":false,"properties":{"id":{"type":"string"},"note":{"type":"string"}},"required":["id"],"type":"object"},` +
			`"B":{"additionalProperties":false,"properties":{"id":{"type":"string"},"note":{"type":"string"}},"required":["id"],"type":"object"}},"required":["A","B"],"type":"object"},"maxItems":2,"minItems":2,"type":"array"}`},
		{"text marshaler by pointer", typeOf[[]bothWays](), `{"items":{"type":"string"},"type":"array"}`},
		{"addresses", typeOf[struct {
			A netip.Addr
			B *net.IP
		}](), `{"additionalProperties":false,"properties":{"A":{"type":"string"},"B":{"type":"string"}},"required":["A","B"],"type":"object"}`},
		{"its own schema", typeOf[map[string]described](), `{"additionalProperties":{"minLength":3,"type":"string"},"type":"object"}`},
		{"its own schema by pointer, and tags beside it", typeOf[struct {
			A describedByPointer `jsonschema:"description=first"`
			B describedByPointer
		}](), `{"additionalProperties":false,"properties":{"A":{"description":"first","type":"boolean"},"B":{"type":"boolean"}},"required":["A","B"],"type":"object"}`},
		{"json.Number", typeOf[json.Number](), `{"type":"number"}`},
		{"sized integers", typeOf[struct {
			A int8
			B uint8
			C int16
			D uint16
			E int32
			F uint32
			G int
			H uint64
			I level
		}](), `{"additionalProperties":false,"properties":{` +
			`"A":{"maximum":127,"minimum":-128,"type":"integer"},"B":{"maximum":255,"minimum":0,"type":"integer"},` +
			`"C":{"maximum":32767,"minimum":-32768,"type":"integer"},"D":{"maximum":65535,"minimum":0,"type":"integer"},` +
			`"E":{"maximum":2147483647,"minimum":-2147483648,"type":"integer"},"F":{"maximum":4294967295,"minimum":0,"type":"integer"},` +
			`"G":{"type":"integer"},"H":{"minimum":0,"type":"integer"},"I":{"maximum":127,"minimum":-128,"type":"integer"}},` +
			`"required":["A","B","C","D","E","F","G","H","I"],"type":"object"}`},
		{"bounds of a tag are kept where they are closer", typeOf[struct {
			A int8 `jsonschema:"minimum=-5,maximum=1000"`
		}](), `{"additionalProperties":false,"properties":{"A":{"maximum":127,"minimum":-5,"type":"integer"}},"required":["A"],"type":"object"}`},
		{"pointers and omission", typeOf[struct {
			A *int  `json:"a"`
			B *int  `json:"b,omitempty"`
			C int   `json:"c,omitzero"`
			D *base `json:"d" jsonschema:"nullable"`
		}](), `{"additionalProperties":false,"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"},` +
			`"d":{"anyOf":[{"additionalProperties":false,"properties":{"id":{"type":"string"},"note":{"type":"string"}},"required":["id"],"type":"object"},{"type":"null"}]}},"required":["a","d"],"type":"object"}`},
		{"embedded structs", typeOf[struct {
			base
			X int `json:"x"`
		}](), `{"additionalProperties":false,"properties":{"id":{"type":"string"},"note":{"type":"string"},"x":{"type":"integer"}},"required":["id","x"],"type":"object"}`},
		{"embedded pointers are optional", typeOf[struct {
			*EmbeddedPointer
			X int `json:"x"`
		}](), `{"additionalProperties":false,"properties":{"p":{"type":"integer"},"x":{"type":"integer"}},"required":["x"],"type":"object"}`},
		{"embedded with a name", typeOf[struct {
			base `json:"base"`
		}](), `{"additionalProperties":false,"properties":{"base":{"additionalProperties":false,"properties":{"id":{"type":"string"},"note":{"type":"string"}},"required":["id"],"type":"object"}},"required":["base"],"type":"object"}`},
		{"integer keys", typeOf[map[int]string](), `{"additionalProperties":false,"patternProperties":{"^[+-]?[0-9]+$":{"type":"string"}},"type":"object"}`},
		{"unsigned keys", typeOf[map[uint8][]int](), `{"additionalProperties":false,"patternProperties":{"^[0-9]+$":{"items":{"type":"integer"},"type":"array"}},"type":"object"}`},
		{"text keys", typeOf[map[bothWays]any](), `{"type":"object"}`},
		{"anything", typeOf[struct {
			A any
			B json.RawMessage
			C map[string]any
			D []any
		}](), `{"additionalProperties":false,"properties":{"A":{},"B":{},"C":{"type":"object"},"D":{"items":{},"type":"array"}},"required":["A","B","C","D"],"type":"object"}`},
		{"bytes", typeOf[struct {
			A []byte
			B [2]byte
			C []level
		}](), `{"additionalProperties":false,"properties":{"A":{"contentEncoding":"base64","type":"string"},"B":{"items":{"maximum":255,"minimum":0,"type":"integer"},"maxItems":2,"minItems":2,"type":"array"},"C":{"items":{"maximum":127,"minimum":-128,"type":"integer"},"type":"array"}},"required":["A","B","C"],"type":"object"}`},
		{"numbers as texts", typeOf[struct {
			A int      `json:",string"`
			B *bool    `json:"b,string"`
			C *float64 `json:"c,string,omitempty"`
		}](), `{"additionalProperties":false,"properties":{"A":{"pattern":"^(0|-?[1-9][0-9]*)$","type":"string"},"b":{"enum":["false","true"],"type":"string"},"c":{"pattern":"^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?$","type":"string"}},"required":["A","b"],"type":"object"}`},
		{"fields that nothing reads", typeOf[struct {
			A string   `json:"-"`
			b func()   //nolint:unused // it has to be passed over
			C chan int `json:"-"`
			D string   `json:"d" jsonschema:"-"`
		}](), `{"additionalProperties":false,"properties":{},"type":"object"}`},
		{"tags", typeOf[struct {
			Path  string   `json:"path" jsonschema:"title=T,description=the file\\, or a directory,minLength=1,maxLength=9,pattern=^[a-z]{1\\,9}$,format=uri-reference,example=a"`
			Mode  string   `json:"mode" jsonschema:"enum=replace,enum=append,default=append"`
			Limit int      `json:"limit" jsonschema:"exclusiveMinimum=0,multipleOf=5,default=10,enum=5,enum=10"`
			Force bool     `json:"force" jsonschema:"default=false,required"`
			Tags  []string `json:"tags" jsonschema:"minItems=1,uniqueItems=true,enum=b,enum=a,default=a" jsonschema_description:"some, tags"`
			More  string   `json:"more" jsonschema_extras:"x-order=1"`
		}](), `{"additionalProperties":false,"properties":{` +
			`"force":{"default":false,"type":"boolean"},` +
			`"limit":{"default":10,"enum":[5,10],"exclusiveMinimum":0,"multipleOf":5,"type":"integer"},` +
			`"mode":{"default":"append","enum":["append","replace"],"type":"string"},` +
			`"more":{"type":"string","x-order":"1"},` +
			`"path":{"description":"the file, or a directory","examples":["a"],"format":"uri-reference","maxLength":9,"minLength":1,"pattern":"^[a-z]{1,9}$","title":"T","type":"string"},` +
			`"tags":{"default":["a"],"description":"some, tags","items":{"enum":["b","a"],"type":"string"},"minItems":1,"type":"array","uniqueItems":true}},` +
			`"required":["force","more","path"],"type":"object"}`},
		{"a root that is no struct", typeOf[[]string](), `{"items":{"type":"string"},"type":"array"}`},
		{"durations are integers", typeOf[time.Duration](), `{"type":"integer"}`},
		{"an anonymous struct in a map", typeOf[map[string]struct {
			N int8 `json:"n"`
		}](), `{"additionalProperties":{"additionalProperties":false,"properties":{"n":{"maximum":127,"minimum":-128,"type":"integer"}},"required":["n"],"type":"object"},"type":"object"}`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, reflectText(t, row.typ))
		})
	}
	require.Equal(t, &invopop.Schema{Type: "boolean"}, sharedSchema, "the type's own schema was written into")
}

// Types that contain themselves, in every way there is.
type (
	direct       struct{ Next *direct }
	mutualA      struct{ B *mutualB }
	mutualB      struct{ A []mutualA }
	throughMap   struct{ M map[string]throughMap }
	throughSlice struct{ S []throughSlice }
	throughAnon  struct{ X struct{ Y *throughAnon } }
	listOfSelf   []listOfSelf
	mapOfSelf    map[string]mapOfSelf
	pointerLoop  *pointerLoop
	embedsSelf   struct{ *embedsSelf }
	embedsOther  struct{ *embedsBack }
	embedsBack   struct{ *embedsOther }
	genericSelf  struct{ In box[*genericSelf] }
)

type (
	writesText      struct{}
	ownJSON         struct{}
	aliased         struct{}
	perProperty     struct{}
	panicking       struct{}
	returnsNothing  struct{}
	borrowedSchema  struct{ described }
	declaresIts     struct{ described }
	unexportedValue struct{ secret }
	secret          int
	wide            struct{ A, B, C, D, E, F, G, H [1]wide2 }
	wide2           struct{ A, B, C, D, E, F, G, H [1]wide3 }
	wide3           struct{ A, B, C, D, E, F, G, H [1]wide4 }
	wide4           struct{ A, B, C, D, E, F, G, H [1]wide5 }
	wide5           struct{ A, B, C, D, E, F, G, H int }
	textByte        byte
)

func (writesText) MarshalText() ([]byte, error)   { return nil, nil }
func (*ownJSON) UnmarshalJSON([]byte) error       { return nil }
func (aliased) JSONSchemaAlias() any              { return aliased{} }
func (perProperty) JSONSchemaProperty(string) any { return nil }
func (panicking) JSONSchema() *invopop.Schema     { panic("boom") }
func (returnsNothing) JSONSchema() *invopop.Schema {
	return nil
}
func (declaresIts) JSONSchema() *invopop.Schema { return &invopop.Schema{Type: "null"} }
func (*textByte) UnmarshalText([]byte) error    { return nil }

// These are only ever reached through their types.
var _ = []any{embedsOther{}.embedsBack, embedsBack{}.embedsOther, unexportedValue{}.secret}

// tagged returns a struct type with one field that has the tag.
func tagged(tag reflect.StructTag) reflect.Type {
	return reflect.StructOf([]reflect.StructField{{Name: "A", Type: typeOf[string](), Tag: tag}})
}

func TestReflectRefused(t *testing.T) {
	rows := []struct {
		name    string
		typ     reflect.Type
		message string // holds the type and the way to the field
	}{
		{"itself", typeOf[direct](), "jsonschema_test.direct.Next: the type jsonschema_test.direct contains itself"},
		{"another", typeOf[mutualA](), "mutualA.B.A[]: the type jsonschema_test.mutualA contains itself"},
		{"map", typeOf[throughMap](), "throughMap.M[key]: "},
		{"slice", typeOf[throughSlice](), "throughSlice.S[]: "},
		{"anonymous struct", typeOf[throughAnon](), "throughAnon.X.Y: "},
		{"list", typeOf[listOfSelf](), "listOfSelf[]: "},
		{"map of itself", typeOf[mapOfSelf](), "mapOfSelf[key]: "},
		{"pointer", typeOf[pointerLoop](), "contains itself"},
		{"embedded", typeOf[embedsSelf](), "embedsSelf"},
		{"embedded in each other", typeOf[embedsOther](), "embedsOther"},
		{"generic", typeOf[genericSelf](), "genericSelf.In.In: "},
		{"func", typeOf[struct{ F func() }](), ".F: no JSON value becomes a func()"},
		{"chan", typeOf[struct{ C []chan int }](), ".C[]: no JSON value becomes a chan int"},
		{"complex", typeOf[complex128](), "complex128"},
		{"uintptr", typeOf[struct{ P uintptr }](), ".P: "},
		{"interface with methods", typeOf[struct{ R map[string]io.Reader }](), ".R[key]: no JSON value becomes the interface io.Reader"},
		{"url", typeOf[struct{ U *url.URL }](), ".U: url.URL"},
		{"big integer", typeOf[struct{ N big.Int }](), ".N: the type big.Int has its own JSON form"},
		{"own JSON form", typeOf[ownJSON](), "ownJSON has its own JSON form"},
		{"an embedded form", typeOf[struct {
			time.Time
			N int
		}](), "has its own JSON form"},
		{"text in one direction", typeOf[writesText](), "cannot read it"},
		{"alias", typeOf[aliased](), "JSONSchemaAlias"},
		{"property alias", typeOf[perProperty](), "JSONSchemaProperty"},
		{"a schema that panics", typeOf[panicking](), "reflection failed: boom"},
		{"a schema that is nil", typeOf[returnsNothing](), "returns nil"},
		{"a schema of an embedded type", typeOf[struct{ B struct{ describedByPointer } }](), ".B: JSONSchema comes from a type"},
		{"dash and comma", tagged(`json:"-,"`), `.A: the tag json:"-,"`},
		{"a name that is not taken", tagged(`json:"a\"b"`), ".A: the name in the json tag"},
		{"an option that is not known", tagged(`json:"a,omitEmpty"`), `.A: the option "omitEmpty"`},
		{"inline", typeOf[struct {
			A base `json:",inline"`
		}](), `.A: the option "inline"`},
		{"two fields for one member", typeOf[struct {
			base
			Other string `json:"id"`
		}](), `several fields claim the member "id"`},
		{"two embedded fields for one member", typeOf[struct {
			base
			B struct{} `json:"b"`
			C int      `json:"note"`
		}](), `several fields claim the member "note"`},
		{"an embedded value that is not exported", typeOf[unexportedValue](), ".secret: the embedded type is not exported"},
		{"an embedded pointer that is not exported", typeOf[struct{ *hiddenEmbedded }](), ".hiddenEmbedded: the embedded pointer is not exported"},
		{"string of a text", typeOf[struct {
			A string `json:",string"`
		}](), ".A: the option string"},
		{"keys", typeOf[map[float64]int](), "a member name cannot become a float64"},
		{"bytes with a form", typeOf[[]textByte](), "have their own form"},
		{"too wide", typeOf[wide](), "more than 5000 schemas"},
		{"a template", typeOf[template.Template](), "template.Template"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			for range 2 { // the second time from the cache
				tree, err := jsonschema.Reflect(row.typ)
				require.ErrorIs(t, err, errs.Config)
				require.Nil(t, tree)
				require.ErrorContains(t, err, row.message)
			}
		})
	}
	_, err := jsonschema.Reflect(nil)
	require.ErrorIs(t, err, errs.Config)
	require.Equal(t, `{"type":"null"}`, reflectText(t, typeOf[declaresIts]()))
	_, err = jsonschema.Reflect(typeOf[borrowedSchema]())
	require.ErrorContains(t, err, "JSONSchema comes from a type")
}

// Tags that the reflector would pass over in silence.
func TestReflectTagsRefused(t *testing.T) {
	rows := []struct {
		name, message string
		typ           reflect.Type
	}{
		{"a bare text", `"first line", which is no option`, typeOf[struct {
			A int `jsonschema:"first line"`
		}]()},
		{"a comma in a description", `" or a directory", which is no option`, typeOf[struct {
			A string `jsonschema:"description=the file, or a directory"`
		}]()},
		{"a word in a description", `"required" between commas`, typeOf[struct {
			A string `json:"a,omitempty" jsonschema:"description=sometimes\\,required"`
		}]()},
		{"an unknown word", `"minlength": has no effect`, typeOf[struct {
			A string `jsonschema:"minlength=1"`
		}]()},
		{"a word for another type", `"minimum": has no effect`, typeOf[struct {
			A string `jsonschema:"minimum=1"`
		}]()},
		{"a word for a struct", `"minProperties": has no effect`, typeOf[struct {
			A base `jsonschema:"minProperties=1"`
		}]()},
		{"a type that is not the field's", `"type": has no effect`, typeOf[struct {
			A int `jsonschema:"type=string"`
		}]()},
		{"a reference", `"oneof_ref": has no effect`, typeOf[struct {
			A any `jsonschema:"oneof_ref=#/x"`
		}]()},
		{"a count that is none", `"minLength": the value is no count`, typeOf[struct {
			A string `jsonschema:"minLength=x"`
		}]()},
		{"a number that is none", `"minimum": the value is no number`, typeOf[struct {
			A float64 `jsonschema:"minimum=Inf"`
		}]()},
		{"an enum that is no number", `"enum": the value is no number`, typeOf[struct {
			A int `jsonschema:"enum=1,enum=two"`
		}]()},
		{"a default that is no boolean", `"default": the value is neither`, typeOf[struct {
			A bool `jsonschema:"default=yes"`
		}]()},
		{"a default outside the enum", "the default does not fit", typeOf[struct {
			A string `jsonschema:"enum=a,enum=b,default=c"`
		}]()},
		{"a default outside the type", "the default does not fit", typeOf[struct {
			A uint8 `jsonschema:"default=300"`
		}]()},
		{"a default that is no integer", "the default does not fit", typeOf[struct {
			A int `jsonschema:"default=1.5"`
		}]()},
		{"a default of numbers", "only arrays of texts", typeOf[struct {
			A []int `jsonschema:"default=1"`
		}]()},
		{"an equals sign in an array's pattern", "holds a =", typeOf[struct {
			A []string `jsonschema:"pattern=^a=b$"`
		}]()},
		{"a pattern that cannot be used", "look-around", typeOf[struct {
			A string `jsonschema:"pattern=^(?!x)"`
		}]()},
		{"an extra that is malformed", "minLength", typeOf[struct {
			A string `jsonschema_extras:"minLength=x"`
		}]()},
		{"a type name", `"text" is no type`, typeOf[struct {
			A any `jsonschema:"oneof_type=string;text"`
		}]()},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := jsonschema.Reflect(row.typ)
			require.ErrorIs(t, err, errs.Config)
			require.ErrorContains(t, err, row.message)
			require.ErrorContains(t, err, "struct {")
		})
	}
}

// Moving a field changes no hash, a package's name neither.
func TestReflectOrderIsNoIdentity(t *testing.T) {
	a := reflectText(t, typeOf[struct {
		A int    `json:"a"`
		B string `json:"b"`
	}]())
	b := reflectText(t, typeOf[struct {
		B string `json:"b"`
		A int    `json:"a"`
	}]())
	require.Equal(t, a, b)
	require.Equal(t, reflectText(t, typeOf[Same]()), strings.ReplaceAll(strings.ReplaceAll(reflectText(t, typeOf[twin.Same]()), "there", "here"), "integer", "string"))
	require.NotContains(t, reflectText(t, typeOf[every2]()), "$")
}

type every2 struct {
	A base
	B []base
	C map[string]Same
}

var _ encoding.TextUnmarshaler = (*bothWays)(nil)
