package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStory(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, story(t.Context(), &out), "%s", &out)
	text := out.String()
	require.Contains(t, text, "the median of 3, 1, 2 is 3")
	require.Contains(t, text, "-\treturn max(a, min(b, c))\n+\treturn max(min(a, b), min(max(a, b), c))\n")
	require.Contains(t, text, "with the patch applied\nok")
}
