package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// responseParams puts a request into the form of the Responses API.
func (p *Provider) responseParams(req *llm.Request, private *modelwire.Verbatim) (*responses.ResponseNewParams, error) {
	m, _ := lookUp(req.Model)
	caps := p.Capabilities(req.Model)
	out := &responses.ResponseNewParams{Model: req.Model, Store: sdk.Bool(false)}
	if m.efforts != nil { // others refuse to be asked for their reasoning
		out.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if e := m.effort(req.Effort); e != "" {
		out.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffort(e)}
	}
	if n := req.MaxOutputTokens; n > 0 {
		if most := caps.MaxOutputTokens; most > 0 {
			n = min(n, most)
		}
		out.MaxOutputTokens = sdk.Int(int64(max(n, leastOutput)))
	}
	native := caps.StructuredOutput == llm.StructuredNative
	if err := p.addTools(out, req, native); err != nil {
		return nil, err
	}
	instruction, err := addFormat(out, req, native)
	if err != nil {
		return nil, err
	}
	c := conversation{p: p, private: private, ids: make(map[string]string)}
	items, err := c.items(out, req, instruction)
	if err != nil {
		return nil, err
	}
	out.Input.OfInputItemList = items
	return out, addChoice(out, req)
}

func (p *Provider) addTools(out *responses.ResponseNewParams, req *llm.Request, native bool) error {
	for _, t := range req.Tools {
		schema, strict, err := p.toolSchema(t, native)
		if err != nil {
			return err
		}
		f := &responses.FunctionToolParam{Name: t.Name, Parameters: schema, Strict: sdk.Bool(strict)}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		out.Tools = append(out.Tools, responses.ToolUnionParam{OfFunction: f})
	}
	return nil
}

// toolSchema is a tool's schema as the service decodes by it, and whether it
// shall.
func (p *Provider) toolSchema(t llm.ToolDeclaration, native bool) (schema map[string]any, strict bool, err error) {
	if native && !p.loose {
		if s, ok := modelwire.Strict(t.Parameters); ok {
			schema, err = modelwire.Object(s)
			return schema, true, err
		}
	}
	if schema, err = modelwire.Object(t.Parameters); err != nil {
		return nil, false, modelwire.Unsendable("the schema of tool %s is no JSON object", t.Name)
	}
	return schema, false, nil
}

// answerSchema is the schema of the answer as the service decodes by it.
func answerSchema(schema json.RawMessage) (members map[string]any, strict bool, err error) {
	if s, ok := modelwire.Strict(schema); ok {
		members, err = modelwire.Members(s)
		return members, true, err
	}
	if members, err = modelwire.Members(schema); err != nil {
		return nil, false, modelwire.Unsendable("the schema of the answer is no JSON object")
	}
	return members, false, nil
}

// addFormat holds the answer to the schema. It returns what has to be said in
// words where the service cannot decode by one.
func addFormat(out *responses.ResponseNewParams, req *llm.Request, native bool) (instruction string, err error) {
	if len(req.Schema) == 0 {
		return "", nil
	}
	if !native {
		return modelwire.Instruction(req.Schema), nil
	}
	members, strict, err := answerSchema(req.Schema)
	if err != nil {
		return "", err
	}
	out.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
		Name: "output", Schema: members, Strict: sdk.Bool(strict),
	}
	return "", nil
}

func addChoice(out *responses.ResponseNewParams, req *llm.Request) error {
	if len(req.Tools) == 0 || req.ToolChoice == "" {
		return nil
	}
	if name, named := strings.CutPrefix(req.ToolChoice, "tool:"); named {
		out.ToolChoice.OfFunctionTool = &responses.ToolChoiceFunctionParam{Name: name}
		return nil
	}
	switch req.ToolChoice {
	case "auto", "none", "required":
		out.ToolChoice.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptions(req.ToolChoice))
		return nil
	}
	return modelwire.Unsendable("unknown tool choice %q", req.ToolChoice)
}

// conversation translates messages. It keeps the ids by which the service knew
// earlier calls.
type conversation struct {
	p       *Provider
	private *modelwire.Verbatim
	ids     map[string]string
}

// items translates the conversation, with the instruction behind its last user
// message. System messages become the instructions.
func (c *conversation) items(out *responses.ResponseNewParams, req *llm.Request, instruction string) (responses.ResponseInputParam, error) {
	var system []string
	var items responses.ResponseInputParam
	for i, msg := range req.Messages {
		if msg.Role == llm.RoleSystem {
			system = append(system, texts(msg)...)
			continue
		}
		parts := c.own(msg)
		if msg.Role == llm.RoleUser {
			if i == lastUser(req) && instruction != "" {
				parts = append(parts, llm.TextPart(instruction))
			}
			item, err := userItem(parts)
			if err != nil {
				return nil, err
			}
			if item != nil {
				items = append(items, *item)
			}
			continue
		}
		for _, part := range parts {
			item, err := c.item(part)
			if err != nil {
				return nil, err
			}
			if item != nil {
				items = append(items, *item)
			}
		}
	}
	if len(system) > 0 {
		out.Instructions = sdk.String(strings.Join(system, "\n\n"))
	}
	if len(items) == 0 {
		return nil, modelwire.Unsendable("its messages are empty")
	}
	return items, nil
}

// own is a message without the private blocks of others, in the order in which
// the service had sent it.
func (c *conversation) own(msg llm.Message) []llm.Part {
	var own []llm.Part
	for _, part := range msg.Parts {
		if part.Type != llm.PartRaw || part.Provider == c.p.retention {
			own = append(own, part)
		}
	}
	if msg.Role != llm.RoleAssistant {
		return own
	}
	ordered, known := modelwire.Restore(own)
	for id, wire := range known {
		c.ids[id] = wire
	}
	return ordered
}

func texts(msg llm.Message) []string {
	var out []string
	for _, part := range msg.Parts {
		if part.Type == llm.PartText && !modelwire.Blank(part.Text) {
			out = append(out, part.Text)
		}
	}
	return out
}

func lastUser(req *llm.Request) int {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if req.Messages[i].Role == llm.RoleUser {
			return i
		}
	}
	return -1
}

func userItem(parts []llm.Part) (*responses.ResponseInputItemUnionParam, error) {
	var content responses.ResponseInputMessageContentListParam
	for _, part := range parts {
		switch part.Type {
		case llm.PartText:
			if !modelwire.Blank(part.Text) {
				content = append(content, responses.ResponseInputContentParamOfInputText(part.Text))
			}
		case llm.PartImage:
			url, err := imageURL(part)
			if err != nil {
				return nil, err
			}
			content = append(content, responses.ResponseInputContentUnionParam{
				OfInputImage: &responses.ResponseInputImageParam{ImageURL: sdk.String(url), Detail: "auto"},
			})
		default:
			return nil, modelwire.Unsendable("a user message holds a part of type %q", part.Type)
		}
	}
	if len(content) == 0 {
		return nil, nil
	}
	item := responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser)
	return &item, nil
}

// imageURL is where an image is, or the image itself as a URL.
func imageURL(part llm.Part) (string, error) {
	url, data, err := modelwire.Image(part)
	if err == nil && url == "" {
		url = "data:" + part.MediaType + ";base64," + data
	}
	return url, err
}

// item translates a part of what the model or a tool has said.
func (c *conversation) item(part llm.Part) (*responses.ResponseInputItemUnionParam, error) {
	var item responses.ResponseInputItemUnionParam
	switch part.Type {
	case llm.PartText:
		if modelwire.Blank(part.Text) {
			return nil, nil
		}
		item = responses.ResponseInputItemParamOfMessage(part.Text, responses.EasyInputMessageRoleAssistant)
	case llm.PartToolCall:
		item = responses.ResponseInputItemParamOfFunctionCall(modelwire.ArgsText(part.Args), c.wire(part.ID), part.Name)
	case llm.PartToolResult:
		item.OfFunctionCallOutput = &responses.ResponseInputItemFunctionCallOutputParam{
			CallID: sdk.String(c.wire(part.ID)),
			Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: sdk.String(resultText(part))},
		}
	case llm.PartRaw:
		held, err := c.private.Hold(part.Block)
		if err != nil {
			return nil, err
		}
		item = param.Override[responses.ResponseInputItemUnionParam](held)
	default:
		return nil, modelwire.Unsendable("a message of the model holds a part of type %q", part.Type)
	}
	return &item, nil
}

func (c *conversation) wire(id string) string {
	if wire, ok := c.ids[id]; ok {
		return wire
	}
	return c.p.ids.Wire(id)
}

// resultText is a result as the service takes it. It knows no failed results,
// so the text has to say that.
func resultText(part llm.Part) string {
	text := modelwire.ResultText(part)
	switch {
	case part.IsError && modelwire.Blank(text):
		return "error: the call failed without saying why"
	case part.IsError && !strings.Contains(text, "error"):
		return "error: " + text
	}
	return text
}
