package rulvar

import (
	"fmt"

	"github.com/rulvar/rulvar-go/llm"
)

func knownRole(r llm.Role) bool {
	switch r {
	case llm.RoleSystem, llm.RoleUser, llm.RoleAssistant, llm.RoleTool:
		return true
	}
	return false
}

// checkMessages holds a conversation to its one rule: every tool call of an
// assistant message has exactly one result, in call order, in the tool message
// that follows. open names the calls of a last assistant message that have no
// answer yet, which only a checkpoint with pending calls may have.
func checkMessages(messages []llm.Message) (open []llm.Part, err error) {
	var awaited []llm.Part
	seen := make(map[string]bool)
	for i, m := range messages {
		if !knownRole(m.Role) {
			return nil, fmt.Errorf("message %d has the unknown role %q", i, m.Role)
		}
		if m.Role == llm.RoleTool {
			results := make([]llm.Part, 0, len(m.Parts))
			for _, p := range m.Parts {
				if p.Type == llm.PartToolResult {
					results = append(results, p)
				}
			}
			if len(results) != len(awaited) {
				return nil, fmt.Errorf("message %d answers %d tool calls, %d were made", i, len(results), len(awaited))
			}
			for j, r := range results {
				if r.ID != awaited[j].ID {
					return nil, fmt.Errorf("message %d answers call %q where %q is next", i, r.ID, awaited[j].ID)
				}
			}
			awaited = nil
			continue
		}
		if len(awaited) > 0 {
			return nil, fmt.Errorf("message %d follows %d unanswered tool calls", i, len(awaited))
		}
		for _, p := range m.Parts {
			if p.Type != llm.PartToolCall {
				continue
			}
			if m.Role != llm.RoleAssistant {
				return nil, fmt.Errorf("message %d holds a tool call but its role is %q", i, m.Role)
			}
			if p.ID == "" || seen[p.ID] {
				return nil, fmt.Errorf("message %d repeats the call id %q", i, p.ID)
			}
			seen[p.ID] = true
			awaited = append(awaited, p)
		}
	}
	return awaited, nil
}
