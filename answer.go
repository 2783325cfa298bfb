package rulvar

import (
	"strings"
)

// answer takes a reply without tool calls as the agent's answer, or asks again
// where it does not fit the schema.
func (a *agentRun) answer(reply modelReply) (agentOutcome, bool, error) {
	text := reply.text
	if reply.finish == FinishMaxTokens && strings.TrimSpace(text) == "" && reply.forced == nil {
		return a.end(a.limited("the answer was cut before it began: raise the output limit"))
	}
	if a.schema == nil {
		out, err := marshalJSON(text)
		if err != nil {
			return agentOutcome{}, false, err
		}
		return a.end(agentOutcome{status: AgentOK, output: out})
	}
	if reply.forced != nil {
		text = string(reply.forced.Args)
	}
	value, issues := a.schema.parseAnswer(text)
	if issues == nil {
		a.answerForced(reply, "accepted", false)
		return a.end(agentOutcome{status: AgentOK, output: value})
	}
	if a.state.SchemaAttempts >= maxSchemaRetries {
		a.answerForced(reply, "refused", true)
		return a.end(agentOutcome{status: AgentErrored, err: agentError(AgentErrored, KindSchemaMismatch, "the answer does not fit the schema: "+strings.Join(issues, "; "), false)})
	}
	a.state.SchemaAttempts++
	again := "The answer does not fit the required JSON Schema. Answer again with only the JSON.\n- " + strings.Join(issues[:min(len(issues), 16)], "\n- ")
	if !a.answerForced(reply, again, true) {
		a.state.Messages = append(a.state.Messages, Message{Role: RoleUser, Parts: []Part{TextPart(again)}})
	}
	return agentOutcome{}, false, a.save(nil)
}

// emitTool is the tool that a model is made to call with its answer where it
// can be held to a schema in no other way. It is never dispatched.
const emitTool = "emit_result"

// answerForced gives the call of [emitTool] its result, so that the history
// stays whole. It reports whether there was such a call.
func (a *agentRun) answerForced(reply modelReply, text string, failed bool) bool {
	if reply.forced == nil {
		return false
	}
	result := map[string]string{"result": text}
	if failed {
		result = map[string]string{"error": text}
	}
	a.state.Messages = append(a.state.Messages, Message{Role: RoleTool, Parts: []Part{
		{Type: PartToolResult, ID: reply.forced.ID, Name: emitTool, Result: mustMarshal(result), IsError: failed},
	}})
	return true
}

// tier is how this request is held to the schema.
func (a *agentRun) tier() StructuredOutputTier {
	switch tier := a.served().caps.StructuredOutput; {
	case tier == StructuredNative && a.schema.closed():
		return StructuredNative
	case (tier == StructuredNative || tier == StructuredForcedTool) && len(a.tools) == 0:
		return StructuredForcedTool
	}
	return StructuredPrompt
}

// maxSchemaRetries is how often a model is asked again for an answer that fits
// its schema.
const maxSchemaRetries = 2
