package rulvar

import (
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/llm"
)

// answer takes a reply without tool calls as the agent's answer, or asks again
// where it does not fit the schema.
func (a *agentRun) answer(reply modelReply) (agentOutcome, bool, error) {
	if reply.finish == llm.FinishMaxTokens && strings.TrimSpace(reply.text) == "" && reply.forced == nil {
		return a.end(a.cutShort())
	}
	if a.finalize != nil {
		final, stop := a.finalAnswer()
		if stop != nil {
			return a.endWith(stop)
		}
		reply = final
	}
	if a.schema == nil {
		out, err := marshalJSON(reply.text)
		if err != nil {
			return agentOutcome{}, false, err
		}
		return a.end(agentOutcome{status: AgentOK, output: out})
	}
	if a.extract != nil {
		return a.extractAnswer(reply)
	}
	out, again := a.judge(&reply)
	a.state.Messages = append(a.state.Messages, again...)
	if out != nil {
		return a.end(*out)
	}
	return agentOutcome{}, false, a.save(nil)
}

func (a *agentRun) cutShort() agentOutcome {
	return a.limited("the answer was cut before it began: raise the output limit")
}

// judge holds a reply to the schema. Where it fits, or the model was asked
// often enough, out is the agent's end; otherwise messages ask again. messages
// make the conversation whole in either case.
func (a *agentRun) judge(reply *modelReply) (out *agentOutcome, messages []llm.Message) {
	text := reply.text
	if reply.forced != nil {
		text = string(reply.forced.Args)
	}
	value, issues := a.schema.parseAnswer(text)
	if issues == nil {
		return &agentOutcome{status: AgentOK, output: value}, reply.forcedResult("accepted", false)
	}
	if a.state.SchemaAttempts >= maxSchemaRetries {
		err := agentError(AgentErrored, llm.KindSchemaMismatch, "the answer does not fit the schema: "+strings.Join(issues, "; "), false)
		return &agentOutcome{status: AgentErrored, err: err}, reply.forcedResult("refused", true)
	}
	a.state.SchemaAttempts++
	again := "The answer does not fit the required JSON Schema. Answer again with only the JSON.\n- " + strings.Join(issues[:min(len(issues), 16)], "\n- ")
	if messages = reply.forcedResult(again, true); messages == nil {
		messages = []llm.Message{userText(again)}
	}
	return nil, messages
}

// finalAnswer has the finalize route write the answer. The instruction is in
// the request alone. Nothing is checkpointed: a crash asks the loop's last turn
// again.
func (a *agentRun) finalAnswer() (modelReply, *ending) {
	reply, stop := a.ask(&question{line: a.finalize, quiet: true, messages: instructed(a.state.Messages, finalInstruction)})
	if stop != nil {
		return reply, stop
	}
	a.state.Messages = append(a.state.Messages, reply.message())
	if reply.finish == llm.FinishMaxTokens && strings.TrimSpace(reply.text) == "" {
		return reply, &ending{out: a.cutShort()}
	}
	return reply, a.refused(&reply)
}

// extractAnswer has the extract route write what was said as JSON, unless it
// fits the schema as it is. The exchange is no part of the history, and not
// checkpointed.
func (a *agentRun) extractAnswer(said modelReply) (agentOutcome, bool, error) {
	if value, issues := a.schema.parseAnswer(said.text); issues == nil {
		return a.end(agentOutcome{status: AgentOK, output: value})
	}
	q := &question{line: a.extract, schema: a.schema, quiet: true, messages: instructed(a.state.Messages, extractInstruction)}
	for {
		reply, stop := a.ask(q)
		if stop == nil {
			stop = a.refused(&reply)
		}
		if stop != nil {
			return a.endWith(stop)
		}
		out, again := a.judge(&reply)
		if out != nil {
			return a.end(*out)
		}
		q.messages = append(append(q.messages, reply.message()), again...)
	}
}

const (
	finalInstruction   = "Now write the final answer. Call no more tools."
	extractInstruction = "Now give the answer of this conversation as JSON that fits the required JSON Schema, and nothing else."
)

func userText(text string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.TextPart(text)}}
}

// instructed is a conversation with an instruction at its end, in a list of its
// own.
func instructed(messages []llm.Message, text string) []llm.Message {
	return append(slices.Clone(messages), userText(text))
}

// emitTool is the tool that a model is made to call with its answer where it
// can be held to a schema in no other way. It is never dispatched.
const emitTool = "emit_result"

// forcedResult gives the call of [emitTool] its result, so that the history
// stays whole; nil where there was no such call.
func (r *modelReply) forcedResult(text string, failed bool) []llm.Message {
	if r.forced == nil {
		return nil
	}
	result := map[string]string{"result": text}
	if failed {
		result = map[string]string{"error": text}
	}
	return []llm.Message{{Role: llm.RoleTool, Parts: []llm.Part{
		{Type: llm.PartToolResult, ID: r.forced.ID, Name: emitTool, Result: mustMarshal(result), IsError: failed},
	}}}
}

// tier is how a request is held to its schema.
func (a *agentRun) tier(q *question) llm.StructuredOutputTier {
	switch tier := q.line.served().caps.StructuredOutput; {
	case tier == llm.StructuredNative && q.schema.closed():
		return llm.StructuredNative
	case (tier == llm.StructuredNative || tier == llm.StructuredForcedTool) && (q.quiet || len(a.tools) == 0):
		return llm.StructuredForcedTool
	}
	return llm.StructuredPrompt
}

// maxSchemaRetries is how often a model is asked again for an answer that fits
// its schema.
const maxSchemaRetries = 2
