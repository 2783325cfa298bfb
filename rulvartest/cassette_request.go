package rulvartest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/llm"
)

// cassetteRequest is a request as it is compared and written.
type cassetteRequest struct {
	hash string
	json json.RawMessage
}

// requestMembers are the members of a stored request. The first are compared.
type requestMembers struct {
	Model      string                `json:"model"`
	Messages   []llm.Message         `json:"messages"`
	Tools      []llm.ToolDeclaration `json:"tools,omitempty"`
	ToolChoice string                `json:"toolChoice,omitempty"`
	Schema     json.RawMessage       `json:"schema,omitempty"`
	Effort     string                `json:"effort,omitempty"`
}

// wireRequest writes a request without what must not be seen.
func (c *Cassette) wireRequest(req *llm.Request) (*cassetteRequest, error) {
	refuse := func(err error) error {
		return &llm.Error{Kind: llm.KindTerminal, Message: "the cassette cannot write the request: " + err.Error(), Err: err}
	}
	text, err := json.Marshal(requestMembers{
		Model: req.Model, Messages: req.Messages, Tools: req.Tools, ToolChoice: req.ToolChoice, Schema: req.Schema, Effort: req.Effort,
	})
	if err != nil {
		return nil, refuse(err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, refuse(err)
	}
	hidden, err := json.Marshal(c.hideTree(tree))
	if err != nil {
		return nil, refuse(err)
	}
	canonical, err := jcs.Canonical(hidden)
	if err != nil {
		return nil, refuse(err)
	}
	return &cassetteRequest{hash: jcs.Sum(canonical), json: canonical}, nil
}

func (c *Cassette) hideTree(v any) any {
	switch v := v.(type) {
	case string:
		return c.hide(v)
	case []any:
		for i := range v {
			v[i] = c.hideTree(v[i])
		}
	case map[string]any:
		for k, e := range v {
			v[k] = c.hideTree(e)
		}
	}
	return v
}

// hideEvents takes out of an answer what must not be written. Deltas are
// joined: a key may be spread over several.
func (c *Cassette) hideEvents(row *cassetteRow) error {
	var out []cassetteEvent
	for _, ev := range row.Events {
		if n := len(out); n > 0 && ev.Text != "" && out[n-1].Type == ev.Type {
			out[n-1].Text += ev.Text
			continue
		}
		out = append(out, ev)
	}
	for i := range out {
		ev := &out[i]
		ev.Text, ev.Arguments = c.hide(ev.Text), c.hide(ev.Arguments)
		if ev.Block == nil {
			continue
		}
		if hidden := c.hide(string(ev.Block)); hidden != string(ev.Block) {
			if !json.Valid([]byte(hidden)) {
				return fmt.Errorf("a private block is no JSON after Hide")
			}
			ev.Block = json.RawMessage(hidden)
		}
	}
	row.Events = out
	return nil
}

// nearest names the members in which the most similar recorded request differs
// from asked.
func (c *Cassette) nearest(asked *cassetteRequest) string {
	var best []string
	for _, row := range c.rows {
		if d := differingMembers(row.Request, asked.json); d != nil && (best == nil || len(d) < len(best)) {
			best = d
		}
	}
	return strings.Join(best, ", ")
}

// differingMembers lists in what two requests differ; nil where one of them
// cannot be read.
func differingMembers(a, b json.RawMessage) []string {
	var one, two map[string]any
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &two) != nil {
		return nil
	}
	out := []string{}
	for _, k := range []string{"model", "tools", "toolChoice", "schema", "effort"} {
		if !reflect.DeepEqual(one[k], two[k]) {
			out = append(out, k)
		}
	}
	m1, _ := one["messages"].([]any)
	m2, _ := two["messages"].([]any)
	for i := range max(len(m1), len(m2)) {
		if i >= len(m1) || i >= len(m2) || !reflect.DeepEqual(m1[i], m2[i]) {
			out = append(out, fmt.Sprintf("messages[%d]", i))
		}
	}
	return slices.Clip(out)
}
