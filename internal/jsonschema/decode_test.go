package jsonschema_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// The types of this file cover what encoding/json knows.

type color string

func (c *color) UnmarshalText(text []byte) error {
	if string(text) == "bad" {
		return errors.New("no such colour")
	}
	*c = color("<" + string(text) + ">")
	return nil
}

func (c color) MarshalText() ([]byte, error) {
	return []byte(strings.Trim(string(c), "<>")), nil
}

type own struct{ text string }

func (o *own) UnmarshalJSON(text []byte) error {
	if string(text) == `"bad"` {
		return errors.New("refused")
	}
	o.text = string(text)
	return nil
}

func (o own) MarshalJSON() ([]byte, error) {
	if o.text == "" {
		return []byte("null"), nil
	}
	return []byte(o.text), nil
}

type embeddedValue struct {
	V      int `json:"v"`
	Shadow int `json:"shadow"`
}

type EmbeddedPointer struct {
	P int `json:"p"`
}

type every struct {
	embeddedValue
	*EmbeddedPointer
	Shadow string `json:"shadow"`

	B   bool    `json:"b"`
	S   string  `json:"s"`
	I   int     `json:"i"`
	I8  int8    `json:"i8"`
	I64 int64   `json:"i64"`
	U8  uint8   `json:"u8"`
	U64 uint64  `json:"u64"`
	F32 float32 `json:"f32"`
	F64 float64 `json:"f64"`

	PtrPtr **int            `json:"ptrptr"`
	Slice  []string         `json:"slice"`
	Bytes  []byte           `json:"bytes"`
	Array  [2]int           `json:"array"`
	Map    map[string]int   `json:"map"`
	IntMap map[int8]bool    `json:"intmap"`
	Colors map[color]string `json:"colors"`
	Any    any              `json:"any"`
	Raw    json.RawMessage  `json:"raw"`
	Number json.Number      `json:"number"`
	Time   time.Time        `json:"time"`
	Addr   netip.Addr       `json:"addr"`
	Color  *color           `json:"color"`
	Own    own              `json:"own"`
	OwnPtr *own             `json:"ownptr"`

	Quoted  int     `json:"quoted,string"`
	QuotedB *bool   `json:"quotedb,string"`
	QuotedF float64 `json:"quotedf,string"`
	QuotedS string  `json:"quoteds,string"`

	Skipped string `json:"-"`
	hidden  string
	Plain   string
	Next    *every  `json:"next"`
	List    []every `json:"list"`
}

// decodeBoth decodes with encoding/json and with DecodeInto.
func decodeBoth(t *testing.T, text string, typ reflect.Type) (want, got reflect.Value, wantErr, gotErr error) {
	t.Helper()
	want, got = reflect.New(typ), reflect.New(typ)
	canonical, err := jcs.Canonical([]byte(text))
	require.NoError(t, err)
	tree, err := jcs.Parse([]byte(text))
	require.NoError(t, err)
	wantErr = json.Unmarshal(canonical, want.Interface())
	gotErr = jsonschema.DecodeInto(canonical, tree, got.Interface())
	return want, got, wantErr, gotErr
}

// everyTexts are values for each field of every, good and bad.
var everyTexts = []string{
	`{}`, `null`, `[]`, `"x"`, `1`,
	`{"v":1,"shadow":"x","p":2}`, `{"shadow":1}`,
	`{"b":true}`, `{"b":1}`, `{"b":null}`, `{"s":"é"}`, `{"s":1}`, `{"s":null}`,
	`{"i":-5}`, `{"i":1.0}`, `{"i":1e2}`, `{"i":-0}`, `{"i":1.5}`, `{"i":"1"}`, `{"i":true}`, `{"i":1e21}`,
	`{"i8":127}`, `{"i8":128}`, `{"i8":-128}`, `{"i8":-129}`,
	`{"i64":9007199254740992}`, `{"i64":1152921504606846976}`, `{"i64":9223372036854775807}`, `{"i64":-9223372036854775808}`,
	`{"u8":255}`, `{"u8":256}`, `{"u8":300}`, `{"u8":-1}`, `{"u64":18446744073709551615}`, `{"u64":1e3}`,
	`{"f32":1.5}`, `{"f32":1e300}`, `{"f64":1e300}`, `{"f64":-1e-300}`, `{"f64":"1"}`,
	`{"ptrptr":5}`, `{"ptrptr":null}`, `{"ptrptr":"x"}`,
	`{"slice":["a","b"]}`, `{"slice":[]}`, `{"slice":null}`, `{"slice":["a",1]}`, `{"slice":{}}`, `{"slice":"YQ=="}`,
	`{"bytes":"aGk="}`, `{"bytes":"aG\nk="}`, `{"bytes":"!"}`, `{"bytes":[1,2]}`, `{"bytes":[300]}`, `{"bytes":""}`, `{"bytes":null}`,
	`{"array":[1,2]}`, `{"array":[1]}`, `{"array":[]}`, `{"array":null}`, `{"array":[1,"x"]}`,
	`{"map":{"a":1,"b":2}}`, `{"map":{}}`, `{"map":null}`, `{"map":{"a":"x"}}`, `{"map":[]}`,
	`{"intmap":{"1":true,"-5":false}}`, `{"intmap":{"300":true}}`, `{"intmap":{"x":true}}`, `{"intmap":{"+7":true}}`,
	`{"colors":{"red":"x"}}`, `{"colors":{"bad":"x"}}`,
	`{"any":{"a":[1,"x",null,true,{"b":1.5}]}}`, `{"any":null}`, `{"any":1e2}`, `{"any":[]}`,
	`{"raw":{"b":1.0,"a":[1e2,"x"]}}`, `{"raw":null}`, `{"raw":[ ]}`,
	`{"number":1.50}`, `{"number":"12"}`, `{"number":""}`, `{"number":null}`, `{"number":"x"}`, `{"number":true}`,
	`{"time":"2024-01-02T03:04:05Z"}`, `{"time":"x"}`, `{"time":1}`, `{"time":null}`,
	`{"addr":"::1"}`, `{"addr":"x"}`, `{"addr":null}`,
	`{"color":"red"}`, `{"color":"bad"}`, `{"color":1}`, `{"color":null}`,
	`{"own":{"z":1,"a":2}}`, `{"own":"bad"}`, `{"own":null}`, `{"ownptr":null}`, `{"ownptr":[1]}`,
	`{"quoted":"5"}`, `{"quoted":5}`, `{"quoted":"x"}`, `{"quoted":"null"}`, `{"quoted":null}`, `{"quoted":"300000000000000000000"}`, `{"quoted":" 5"}`, `{"quoted":""}`, `{"quoted":"true"}`, `{"quoted":"\"5\""}`,
	`{"quotedb":"true"}`, `{"quotedb":"null"}`, `{"quotedb":"1"}`, `{"quotedf":"1.5"}`, `{"quotedf":"1"}`, `{"quoteds":"\"x\""}`, `{"quoteds":"x"}`, `{"quoteds":"\"x"}`,
	`{"Skipped":"x","-":"x","hidden":"x","Plain":"x"}`,
	`{"next":{"next":{"i":3},"list":[{"i":1},{"slice":["q"]}]}}`, `{"list":[{},{"i":"x"}]}`,
}

func TestDecodeAsEncodingJSON(t *testing.T) {
	for _, text := range everyTexts {
		want, got, wantErr, gotErr := decodeBoth(t, text, reflect.TypeFor[every]())
		if wantErr != nil {
			require.Error(t, gotErr, text)
			require.ErrorIs(t, gotErr, errs.InvalidArguments)
			continue
		}
		require.NoError(t, gotErr, text)
		require.Equal(t, want.Elem().Interface(), got.Elem().Interface(), text)
	}
}

func TestDecodeRoots(t *testing.T) {
	for _, typ := range []reflect.Type{
		typeOf[int](), typeOf[string](), typeOf[any](), typeOf[[]int](), typeOf[[]byte](), typeOf[[3]bool](), typeOf[map[string]any](),
		typeOf[map[int]string](), typeOf[*every](), typeOf[json.RawMessage](), typeOf[own](), typeOf[color](), typeOf[time.Time](), typeOf[json.Number](),
		typeOf[struct{}](), typeOf[*int](), typeOf[[][]*float64](), typeOf[bool](), typeOf[uint16](),
	} {
		for _, text := range []string{`null`, `true`, `1`, `1.5`, `"x"`, `"MTI="`, `[]`, `[1,2]`, `[[1,null],[]]`, `{}`, `{"a":1}`, `{"1":"x"}`, `"2024-01-02T03:04:05Z"`, `"12"`} {
			want, got, wantErr, gotErr := decodeBoth(t, text, typ)
			require.Equal(t, wantErr == nil, gotErr == nil, "%s into %s: %v, %v", text, typ, wantErr, gotErr)
			if wantErr == nil {
				require.Equal(t, want.Elem().Interface(), got.Elem().Interface(), "%s into %s", text, typ)
			}
		}
	}
}

// What is on purpose not as in encoding/json.
func TestDecodeDiffers(t *testing.T) {
	type target struct {
		Command string `json:"command"`
		Kiss    string
	}
	got, err := jsonschema.Decode[target](nil, parse(t, `{"COMMAND":"rm -rf /","command":"ls","KISS":"x","\u212aiss":"x","Kiſs":"y"}`))
	require.NoError(t, err)
	require.Equal(t, target{Command: "ls"}, got)

	_, err = jsonschema.Decode[map[int]string](nil, parse(t, `{"m":1}`))
	require.ErrorContains(t, err, `"m"`)
	_, err = jsonschema.Decode[map[int]string](nil, parse(t, `{"1":"a","01":"b"}`))
	require.ErrorContains(t, err, "same key")
	_, err = jsonschema.Decode[[2]int](nil, parse(t, `[1,2,3]`))
	require.ErrorContains(t, err, "3 elements do not fit [2]int")

	// The digits of the text are kept out of it: a number is its canonical text.
	n, err := jsonschema.Decode[int64](nil, json.Number("9007199254740993"))
	require.NoError(t, err)
	require.Equal(t, int64(9007199254740992), n)
}

func TestDecodeNamesThePlace(t *testing.T) {
	type item struct {
		N uint8 `json:"n"`
	}
	type target struct {
		N     uint8            `json:"n"`
		Items []item           `json:"items"`
		Map   map[string]*item `json:"m/~"`
		When  time.Time        `json:"when"`
		IDs   map[int]int      `json:"ids"`
	}
	rows := []struct{ text, place, message string }{
		{`{"n":300}`, "#/n", "300 does not fit uint8"},
		{`{"n":1.5}`, "#/n", "1.5 does not fit uint8"},
		{`{"n":1e21}`, "#/n", "1e+21 does not fit uint8"},
		{`{"n":"x"}`, "#/n", "a text does not fit uint8"},
		{`{"items":[{"n":1},{"n":-1}]}`, "#/items/1/n", "-1 does not fit uint8"},
		{`{"m/~":{"a b":{"n":300}}}`, "#/m~1~0/a%20b/n", "300 does not fit uint8"},
		{`{"when":"yesterday"}`, "#/when", "does not fit time.Time: parsing time"},
		{`{"ids":{"x":1}}`, "#/ids/x", `the member name "x" does not fit int`},
		{`{"items":{},"n":1}`, "#/items", "an object does not fit []jsonschema_test.item"},
	}
	for _, row := range rows {
		for range 5 {
			_, err := jsonschema.Decode[target](nil, parse(t, row.text))
			var e *errs.Error
			require.ErrorAs(t, err, &e, row.text)
			require.Equal(t, errs.InvalidArguments, e.Code)
			require.Equal(t, row.place, e.Path)
			require.ErrorContains(t, err, row.message)
		}
	}
}

func TestDecodeBoundaries(t *testing.T) {
	// The last integers of 64 bits have no canonical text of their own.
	for text, ok := range map[string]bool{
		"9007199254740991": true, "-9007199254740991": true, "9223372036854774784": true, "9223372036854775807": false,
		"-9223372036854774784": true, "-9223372036854775808": false, "1e18": true, "1e19": false,
	} {
		_, err := jsonschema.Decode[int64](nil, json.Number(text))
		require.Equal(t, ok, err == nil, text)
	}
	f, err := jsonschema.Decode[float64](nil, json.Number("1.7976931348623157e308"))
	require.NoError(t, err)
	require.Equal(t, math.MaxFloat64, f)
	_, err = jsonschema.Decode[float64](nil, json.Number("1e400"))
	require.Error(t, err)
	_, err = jsonschema.Decode[any](nil, []any{json.Number("1e400")})
	require.ErrorContains(t, err, "#/0")
}

type panics struct{}

func (*panics) UnmarshalJSON([]byte) error { panic("secret") }

func TestDecodeMisuse(t *testing.T) {
	var i int
	for _, dst := range []any{nil, i, (*int)(nil), "x"} {
		require.ErrorIs(t, jsonschema.DecodeInto(nil, json.Number("1"), dst), errs.Config)
	}
	_, err := jsonschema.Decode[panics](nil, nil)
	require.ErrorIs(t, err, errs.InvalidArguments)
	require.NotContains(t, err.Error(), "secret")
	_, err = jsonschema.Decode[struct{ R io.Reader }](nil, parse(t, `{"R":{}}`))
	require.ErrorContains(t, err, "no JSON value but null fits io.Reader")
	_, err = jsonschema.Decode[struct{ F func() }](nil, parse(t, `{"F":1}`))
	require.Error(t, err)
	_, err = jsonschema.Decode[struct{ F func() }](nil, parse(t, `{"F":null}`))
	require.NoError(t, err)
	_, err = jsonschema.Decode[struct{ *hiddenEmbedded }](nil, parse(t, `{"X":1}`))
	require.ErrorContains(t, err, "cannot be set")
	_, err = jsonschema.Decode[int](nil, 5)
	require.Error(t, err)
	_, err = jsonschema.Decode[json.RawMessage](nil, map[string]any{"a": struct{}{}})
	require.Error(t, err)
}

type hiddenEmbedded struct{ X int }

var _ = every{hidden: "never read"}

// The given canonical text reaches a type that reads itself, and is its own.
func TestDecodeCanonical(t *testing.T) {
	canonical := []byte(`{"a":1}`)
	raw, err := jsonschema.Decode[json.RawMessage](canonical, parse(t, `{"a":1.0}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1}`, string(raw))
	canonical[2] = 'X'
	require.Equal(t, `{"a":1}`, string(raw))
	part, err := jsonschema.Decode[[]json.RawMessage](nil, parse(t, `[{"b":1e2,"a":"é<"}]`))
	require.NoError(t, err)
	require.Equal(t, `{"a":"é<","b":100}`, string(part[0]))
}

func FuzzDecode(f *testing.F) {
	for _, text := range everyTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		tree, err := jcs.Parse(text)
		if err != nil {
			return
		}
		canonical, err := jcs.Canonical(text)
		require.NoError(t, err)
		var want, got every
		gotErr := jsonschema.DecodeInto(canonical, tree, &got)
		if _, found := jsonschema.FoldConflict(everySchema(t), tree); found {
			return // encoding/json reads more than it should
		}
		wantErr := json.Unmarshal(canonical, &want)
		if gotErr != nil {
			// Longer arrays and equal keys are refused here only.
			if wantErr == nil && !strings.Contains(gotErr.Error(), "elements do not fit") && !strings.Contains(gotErr.Error(), "same key") {
				t.Fatalf("%s: %v", text, gotErr)
			}
			return
		}
		require.NoError(t, wantErr)
		require.Equal(t, want, got)
	})
}

// everySchema declares the names of every, at the places where it can stand.
func everySchema(t require.TestingT) any {
	props := map[string]any{}
	typ := reflect.TypeFor[every]()
	var add func(typ reflect.Type)
	add = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && f.Type.Kind() == reflect.Pointer:
				add(f.Type.Elem())
			case f.Anonymous:
				add(f.Type)
			case name == "":
				props[f.Name] = true
			default:
				props[name] = true
			}
		}
	}
	add(typ)
	var schema any = map[string]any{"properties": props}
	for range 3 {
		outer := map[string]any{}
		for name, s := range props {
			outer[name] = s
		}
		outer["next"], outer["list"] = schema, map[string]any{"items": schema}
		schema = map[string]any{"properties": outer}
	}
	return schema
}
