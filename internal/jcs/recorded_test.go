package jcs_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// recordedTexts are the texts of the recorded vectors: seeds with every turn
// that JSON can take. The vectors themselves are run by the root package.
func recordedTexts(t testing.TB) (texts []string) {
	data, err := os.ReadFile("../../testdata/vectors/jcs.json")
	require.NoError(t, err)
	var list []struct{ Text string }
	require.NoError(t, json.Unmarshal(data, &list))
	for _, v := range list {
		texts = append(texts, v.Text)
	}
	require.NotEmpty(t, texts)
	return texts
}
