package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

func TestCheckRefused(t *testing.T) {
	rows := []struct{ name, schema, kind, pointer string }{
		{"remote below dependencies", `{"dependencies":{"a":{"$ref":"https://x.test"}}}`, jsonschema.KindRemote, "#/dependencies/a"},
		{"recursive below dependencies", `{"dependencies":{"a":{"$ref":"#"}}}`, jsonschema.KindRecursive, "#/dependencies/a"},
		{"unresolved below dependencies", `{"dependencies":{"a":{"$ref":"#/definitions/x"}}}`, jsonschema.KindUnresolved, "#/dependencies/a"},
		{"remote in a tuple", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"$ref":"x.json"}]}`, jsonschema.KindRemote, "#/items/0"},
		{"remote after a tuple", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":{"$ref":"x.json"}}`, jsonschema.KindRemote, "#/additionalItems"},
		{"recursive reference of 2019-09", `{"$recursiveRef":"#"}`, jsonschema.KindDynamic, "#"},
		{"percent escape", `{"$ref":"#/$defs/a%25b","$defs":{"a%25b":true,"a%b":false}}`, jsonschema.KindUnresolved, "#"},
		{"anchor twice", `{"$ref":"#k","$defs":{"a":{"$anchor":"k"},"b":{"$anchor":"k"}}}`, jsonschema.KindMalformed, "#"},
		{"into a constant", `{"$ref":"#/const","const":{"type":"string"}}`, jsonschema.KindUnresolved, "#"},
		{"into an example", `{"$ref":"#x","examples":[{"$anchor":"x"}]}`, jsonschema.KindUnresolved, "#"},
		{"id below the root", `{"properties":{"a":{"$id":"x","type":"string"}}}`, jsonschema.KindRebase, "#/properties/a"},
		{"id that is no URI", `{"$id":"http://[bad"}`, jsonschema.KindMalformed, "#"},
		{"own dialect", `{"$schema":"https://x.test/dialect"}`, jsonschema.KindDialect, "#"},
		{"dialect from a file", `{"$schema":"file:///etc/passwd"}`, jsonschema.KindDialect, "#"},
		{"older dialect", `{"$schema":"http://json-schema.org/draft-04/schema#"}`, jsonschema.KindDialect, "#"},
		{"dialect that is no text", `{"$schema":7}`, jsonschema.KindDialect, "#"},
		{"look-ahead", `{"properties":{"a":{"pattern":"^(?!x)"}}}`, jsonschema.KindPattern, "#/properties/a"},
		{"pattern of names", `{"patternProperties":{"(a)\\1":true}}`, jsonschema.KindPattern, "#"},
		{"pattern that is no text", `{"pattern":5}`, jsonschema.KindMalformed, "#"},
		{"type that is not known", `{"type":"int"}`, jsonschema.KindMalformed, "#"},
		{"null for a schema", `{"items":null}`, jsonschema.KindMalformed, "#/items"},
		{"text for a schema", `{"not":"x"}`, jsonschema.KindMalformed, "#/not"},
		{"null for properties", `{"properties":null}`, jsonschema.KindMalformed, "#"},
		{"no alternative", `{"anyOf":[]}`, jsonschema.KindMalformed, "#"},
		{"zero divisor", `{"multipleOf":0}`, jsonschema.KindMalformed, "#"},
		{"negative divisor", `{"multipleOf":-1}`, jsonschema.KindMalformed, "#"},
		{"a divisor that is zero as a double", `{"multipleOf":1e-400}`, jsonschema.KindMalformed, "#"},
		{"bound that is a text", `{"minimum":"5"}`, jsonschema.KindMalformed, "#"},
		{"exclusive bound of draft-04", `{"minimum":5,"exclusiveMinimum":true}`, jsonschema.KindMalformed, "#"},
		{"negative count", `{"minLength":-1}`, jsonschema.KindMalformed, "#"},
		{"broken count", `{"maxItems":1.5}`, jsonschema.KindMalformed, "#"},
		{"required that is a text", `{"required":"ab"}`, jsonschema.KindMalformed, "#"},
		{"required that is a number", `{"required":["a",1]}`, jsonschema.KindMalformed, "#"},
		{"dependent names", `{"dependentRequired":{"a":"b"}}`, jsonschema.KindMalformed, "#/dependentRequired/a"},
		{"tuple in draft 2020-12", `{"items":[true]}`, jsonschema.KindMalformed, "#"},
		{"tuple twice", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"prefixItems":[true]}`, jsonschema.KindMalformed, "#"},
		{"reference that is no text", `{"$ref":5}`, jsonschema.KindMalformed, "#"},
		{"format that is no text", `{"format":1}`, jsonschema.KindMalformed, "#"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			e := refused(t, jsonschema.Check(parse(t, row.schema)))
			require.Equal(t, row.kind, e.Kind, "%v", e)
			require.Equal(t, row.pointer, e.Pointer, "%v", e)
			_, err := jsonschema.Compile(parse(t, row.schema))
			require.Equal(t, row.kind, refused(t, err).Kind)
		})
	}
}

func TestCheckAccepted(t *testing.T) {
	for _, schema := range []string{
		`true`, `false`, `{}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x.test/a"}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema"}`,
		`{"properties":{"$id":{"type":"string"},"$ref":{"type":"string"},"$dynamicRef":true,"$schema":true}}`,
		`{"$defs":{"unused":{"$ref":"https://x.test","type":5,"$dynamicRef":"#a"}}}`,
		`{"const":{"$ref":"https://x.test","$id":7}}`,
		`{"title":5,"description":null,"examples":"x","x-vendor":{"$ref":"https://x.test"}}`,
		`{"$ref":"#/custom/place","custom":{"place":{"type":"string"}}}`,
		`{"$ref":"#/$defs/a b","$defs":{"a b":true}}`,
		`{"required":["a","a"],"type":["null","null"],"maxLength":1e30,"minItems":3.0}`,
		`{"format":"no-such-format"}`,
		`{"allOf":[],"prefixItems":[],"enum":[],"properties":{}}`,
		`{"anyOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"string"}}}`,
	} {
		require.NoError(t, jsonschema.Check(parse(t, schema)), schema)
		_, err := jsonschema.Compile(parse(t, schema))
		require.NoError(t, err, schema)
	}
}

func TestCheckCountsSchemas(t *testing.T) {
	props := map[string]any{}
	for i := range jsonschema.MaxSubschemas - 1 {
		props[fmt.Sprint("p", i)] = true
	}
	tree := map[string]any{"properties": props}
	require.NoError(t, jsonschema.Check(tree))
	props["one more"] = true
	require.Equal(t, jsonschema.KindTooLarge, refused(t, jsonschema.Check(tree)).Kind)
}

// No address in a schema is ever opened, whichever way the validator would.
func TestNothingIsLoaded(t *testing.T) {
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		_, _ = w.Write([]byte("true"))
	}))
	defer server.Close()
	secret := filepath.Join(t.TempDir(), "secret.json")
	require.NoError(t, os.WriteFile(secret, []byte(`{"const":"secret"}`), 0o600))

	for _, address := range []string{server.URL, server.URL + "/s.json#/a", "file://" + secret, secret, "./" + filepath.Base(secret)} {
		quoted, err := json.Marshal(address)
		require.NoError(t, err)
		for _, form := range []string{
			`{"$ref":%s}`, `{"items":{"$ref":%s}}`, `{"$dynamicRef":%s}`, `{"$recursiveRef":%s}`, `{"$schema":%s}`,
			`{"$id":%s,"$ref":"x"}`, `{"properties":{"a":{"$id":%s}}}`, `{"properties":{"a":{"$id":"x","$schema":%s}}}`,
			`{"dependencies":{"a":{"$ref":%s}}}`, `{"$defs":{"a":{"$ref":%s}},"$ref":"#/$defs/a"}`,
		} {
			schema := strings.ReplaceAll(form, "%s", string(quoted))
			_, err := jsonschema.Compile(parse(t, schema))
			e := refused(t, err)
			require.NotContains(t, e.Error(), "secret\"")
		}
	}
	require.Zero(t, hits.Load())
}
