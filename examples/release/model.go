package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/rulvar/rulvar-go/llm"
)

// localModel stands in for a language model. It reads the conversation, as a
// model would, and answers by rules: check and search first, tidy up and deploy
// when that looks good, then report. It keeps no state, so that any process
// can go on with a conversation.
type localModel struct{ dir string }

func (m *localModel) ID() string { return "local" }

func (m *localModel) Capabilities(string) llm.Capabilities { return llm.Capabilities{} }

type call struct {
	tool string
	args any
}

func (m *localModel) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		turn := 1
		results := make(map[string]json.RawMessage) // the last result by tool
		failed := make(map[string]bool)
		for _, msg := range req.Messages {
			if msg.Role == llm.RoleAssistant {
				turn++
			}
			for _, p := range msg.Parts {
				if p.Type == llm.PartToolResult {
					results[p.Name], failed[p.Name] = p.Result, p.IsError
				}
			}
		}
		note(m.dir, fmt.Sprintf("model turn %d", turn))
		text, calls := m.answer(ctx, req, results, failed)
		if text != "" && !yield(llm.StreamEvent{Type: llm.StreamText, Text: text}, nil) {
			return
		}
		finish := llm.FinishStop
		for _, c := range calls {
			args, err := json.Marshal(c.args)
			if err != nil {
				yield(llm.StreamEvent{}, err)
				return
			}
			finish = llm.FinishToolCalls
			if !yield(llm.StreamEvent{Type: llm.StreamToolCall, ID: ulid.Make().String(), Name: c.tool, Arguments: string(args)}, nil) {
				return
			}
		}
		yield(llm.StreamEvent{Type: llm.StreamFinish, Finish: finish, Usage: usage(req, text)}, nil)
	}
}

// answer decides what to say next.
func (m *localModel) answer(ctx context.Context, req *llm.Request, results map[string]json.RawMessage, failed map[string]bool) (string, []call) {
	if _, checked := results["run_checks"]; !checked {
		return "I check the repository and look for blocking issues first.", []call{
			{"run_checks", map[string]any{}},
			{"search_issues", map[string]any{"query": "blocker"}},
		}
	}
	var checks checkResult
	var blockers []string
	if json.Unmarshal(results["run_checks"], &checks) != nil || !checks.OK {
		return "I do not deploy: the checks fail.\n" + checks.Output, nil
	}
	if json.Unmarshal(results["search_issues"], &blockers) != nil || len(blockers) > 0 {
		return "I do not deploy: " + strings.Join(blockers, "; "), nil
	}
	deployed, tried := results["deploy_service"]
	if !tried {
		return "All is green. I remove the old branch and deploy.", []call{
			{"delete_branch", map[string]any{"branch": "old"}},
			{"deploy_service", map[string]any{"service": service(req), "commit": head(ctx, m.dir)}},
		}
	}
	if failed["deploy_service"] {
		return "I did not deploy: " + string(deployed), nil
	}
	var result map[string]string
	if err := json.Unmarshal(deployed, &result); err != nil {
		return "The deployment's result is unreadable.", nil
	}
	text := fmt.Sprintf("%s is deployed, its manifest is %s.", result["deployed"], result["manifest"])
	if failed["delete_branch"] {
		text += " The old branch is still there: I may not delete it."
	}
	return text, nil
}

// service takes the service's name out of the prompt.
func service(req *llm.Request) string {
	words := strings.Fields(req.Messages[0].Parts[0].Text)
	return strings.TrimSuffix(words[len(words)-1], ".")
}

func head(ctx context.Context, dir string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", filepath.Join(dir, "repo"), "rev-parse", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// usage counts a token for every four characters.
func usage(req *llm.Request, text string) llm.Usage {
	var in int
	for _, msg := range req.Messages {
		for _, p := range msg.Parts {
			in += len(p.Text) + len(p.Args) + len(p.Result)
		}
	}
	return llm.Usage{InputTokens: int64(in / 4), OutputTokens: int64(len(text)/4 + 1)}
}
