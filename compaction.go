package rulvar

import (
	"strings"

	"github.com/rulvar/rulvar-go/llm"
)

// compact replaces a conversation that nears its model's context window by the
// first message and a summary of what followed. It comes at the boundary of a
// turn of tool calls, before the checkpoint: a crash before that asks for the
// summary again. Where there is no summary the conversation stays as it is,
// for good: asking again would cost the same and fail the same.
func (a *agentRun) compact() {
	window := a.loop.choices[0].caps.ContextWindow
	used := a.lastUsage.InputTokens + a.lastUsage.OutputTokens
	if a.noCompaction || window <= 0 || float64(used) < a.limits.CompactAt*float64(window) || a.ctx.Err() != nil {
		return
	}
	reply, stop := a.ask(&question{line: a.summarize, quiet: true, messages: instructed(a.state.Messages, summaryInstruction)})
	if stop == nil {
		stop = a.refused(&reply)
	}
	summary := strings.TrimSpace(reply.text)
	if stop != nil || summary == "" {
		a.noCompaction = true
		why := "the summary was empty"
		if stop != nil {
			why = stop.out.err.Msg
		}
		a.log("the conversation could not be summarized and goes on as it is", "error", why)
		return
	}
	for _, m := range a.state.Messages {
		for _, p := range m.Parts {
			if p.Type == llm.PartToolCall {
				a.state.CallIDs = append(a.state.CallIDs, p.ID)
			}
		}
	}
	a.state.Messages = []llm.Message{a.state.Messages[0], userText(summaryPrefix + summary)}
	a.state.Compaction = append(a.state.Compaction, a.state.Turns)
	a.lastUsage = llm.Usage{}
}

const (
	summaryInstruction = "The conversation nears the limit of your context. Summarize it for yourself: the task, what was done and found, with the names, numbers and paths that matter, and what is left to do. Call no tools; the summary will take the place of everything after the first message."
	summaryPrefix      = "This summary takes the place of the conversation so far.\n\n"
)
