package rulvartest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
)

// AgentWork is what a store holds of the finished work of one agent: what a
// resume must not do again.
type AgentWork struct {
	// Entry is the seq of the agent's running entry.
	Entry int64
	// Prompt is the text of its first message.
	Prompt string
	// Turns is how many answers of the model are kept.
	Turns int
	// Calls are the tool calls whose results are kept, in order.
	Calls []ToolCall
}

// ToolCall names a call of an agent.
type ToolCall struct{ Tool, ID string }

// ReadAgents reads what is recorded of a run's agents, in journal order: from
// the transcript of those that have ended well, from the checkpoint of those
// that have not ended. Agents that failed are left out, since a resume begins
// them anew. A call that has two results fails the test.
func ReadAgents(t testing.TB, store rulvar.Store, runID string) []AgentWork {
	t.Helper()
	_, entries, err := store.Load(context.Background(), runID, -1)
	if err != nil {
		t.Fatalf("rulvartest: %v", err)
	}
	status := make(map[int64]string) // of the ends, by the seq of the running entry
	for _, en := range entries {
		if en.Kind == "agent" && en.Ref != nil {
			status[*en.Ref] = string(en.Status)
		}
	}
	var all []AgentWork
	for _, en := range entries {
		if en.Kind != "agent" || en.Ref != nil {
			continue
		}
		ref := fmt.Sprintf("%s/ckpt/%d", runID, en.Seq)
		switch status[en.Seq] {
		case "":
		case "ok":
			ref = fmt.Sprintf("%s/tr/%d", runID, en.Seq)
		default:
			continue
		}
		blob, err := store.Get(context.Background(), ref)
		if err != nil {
			t.Fatalf("rulvartest: %v", err)
		}
		if blob == nil {
			continue
		}
		w, err := readConversation(blob)
		if err != nil {
			t.Fatalf("rulvartest: %s: %v", ref, err)
		}
		w.Entry = en.Seq
		all = append(all, w)
	}
	return all
}

// readConversation reads a checkpoint or a transcript.
func readConversation(blob []byte) (w AgentWork, err error) {
	var c struct {
		Messages []llm.Message `json:"messages"`
		Pending  *struct {
			Executed []struct{ ID, Name string } `json:"executed"`
		} `json:"pending"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(blob, []byte{1}), &c); err != nil {
		return w, err
	}
	seen := make(map[string]bool)
	add := func(tool, id string) {
		if seen[id] {
			err = fmt.Errorf("the call %s of %s has two results", id, tool)
		}
		seen[id] = true
		w.Calls = append(w.Calls, ToolCall{Tool: tool, ID: id})
	}
	for i, m := range c.Messages {
		if m.Role == llm.RoleAssistant {
			w.Turns++
		}
		for _, p := range m.Parts {
			if i == 0 && w.Prompt == "" {
				w.Prompt = p.Text
			}
			if p.Type == llm.PartToolResult {
				add(p.Name, p.ID)
			}
		}
	}
	if c.Pending != nil {
		for _, x := range c.Pending.Executed {
			add(x.Name, x.ID)
		}
	}
	return w, err
}
