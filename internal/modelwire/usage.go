package modelwire

import "github.com/rulvar/rulvar-go/llm"

// maxCount is the largest count that every reader of a journal gets exactly.
const maxCount = 1<<53 - 1

// Account holds usage to its invariant: counts are whole and not negative, and
// the cached tokens are part of the input. It returns usage that fulfils it,
// which is billed in any case, and whether it was so.
func Account(u llm.Usage) (llm.Usage, bool) {
	ok := true
	clamp := func(n *int64, most int64) {
		if c := min(max(*n, 0), most); c != *n {
			*n, ok = c, false
		}
	}
	clamp(&u.InputTokens, maxCount)
	clamp(&u.OutputTokens, maxCount)
	clamp(&u.ReasoningTokens, maxCount)
	clamp(&u.CacheReadTokens, u.InputTokens)
	clamp(&u.CacheWriteTokens, u.InputTokens-u.CacheReadTokens)
	return u, ok
}

// BadUsage is the fault of an answer whose usage breaks the invariant.
func BadUsage() *llm.Error {
	return &llm.Error{Kind: llm.KindTransport, Message: "the service broke its contract: the usage does not add up"}
}
