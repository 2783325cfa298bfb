package jsonschema_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// pair is a recorded schema and value. What the reference made of them is held
// by the root package, which runs the vectors.
type pair struct {
	ID           string
	Schema       json.RawMessage
	SchemaText   *string
	Instance     json.RawMessage
	InstanceText *string
}

// recordedPairs reads a file of the vectors; schema_canonical.json has no values.
func recordedPairs(t testing.TB, file string) (pairs []pair) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", file))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &pairs))
	require.NotEmpty(t, pairs)
	return pairs
}

// text returns the JSON text of a member that has two spellings.
func text(plain json.RawMessage, exact *string) []byte {
	if exact != nil {
		return []byte(*exact)
	}
	return plain
}

// refusal is the kind of a refused schema.
func refusal(err error) string {
	if refused, ok := errors.AsType[*jsonschema.RefError](err); ok {
		return refused.Kind
	}
	return "untyped: " + err.Error()
}

func TestNoSchemaHash(t *testing.T) {
	hash, err := jsonschema.Hash(true)
	require.NoError(t, err)
	require.Equal(t, jsonschema.NoSchemaHash, hash)
}
