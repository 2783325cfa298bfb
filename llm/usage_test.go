package llm_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/llm"
)

func TestUsageAdd(t *testing.T) {
	const most = 1<<53 - 1
	a := llm.Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4, ReasoningTokens: 5}
	b := llm.Usage{InputTokens: 10, OutputTokens: 20, CacheReadTokens: 30, CacheWriteTokens: 40, ReasoningTokens: 50}
	require.Equal(t, llm.Usage{InputTokens: 11, OutputTokens: 22, CacheReadTokens: 33, CacheWriteTokens: 44, ReasoningTokens: 55}, a.Add(b))
	for name, v := range map[string]int64{"at the bound": most, "above it": most + 1, "the largest": math.MaxInt64} {
		t.Run(name, func(t *testing.T) {
			u := llm.Usage{InputTokens: v}
			require.Equal(t, int64(most), u.Add(u).InputTokens, "the sum does not wrap")
			require.Equal(t, int64(most), u.Add(llm.Usage{}).InputTokens)
		})
	}
}

func TestError(t *testing.T) {
	cause := errors.New("connection reset")
	err := error(&llm.Error{Kind: llm.KindTransport, Message: "cut", Err: cause})
	require.Equal(t, "transport: cut", err.Error())
	require.ErrorIs(t, err, cause)
}
