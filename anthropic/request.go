package anthropic

import (
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// maxStrictTools is how many tools of a request the service decodes by schema.
const maxStrictTools = 20

// body writes a request in the service's form.
func (p *Provider) body(req *llm.Request, m *model) ([]byte, error) {
	var private modelwire.Verbatim
	params, err := p.params(req, m, &private)
	if err != nil {
		return nil, err
	}
	return private.Body(params)
}

func (p *Provider) params(req *llm.Request, m *model, private *modelwire.Verbatim) (*sdk.MessageNewParams, error) {
	if len(req.Messages) == 0 {
		return nil, modelwire.Unsendable("it has no messages")
	}
	out := &sdk.MessageNewParams{Model: req.Model, MaxTokens: p.maxTokens(req)}
	if err := p.addTools(out, req); err != nil {
		return nil, err
	}
	instruction := p.addSchema(out, req)
	if err := p.addMessages(out, req, private, instruction); err != nil {
		return nil, err
	}
	if m.takesEffort(req.Effort) {
		out.OutputConfig.Effort = sdk.OutputConfigEffort(req.Effort)
	}
	forced, err := addChoice(out, req, m)
	if err != nil {
		return nil, err
	}
	p.addThinking(out, m, forced)
	p.addBreakpoints(out)
	return out, nil
}

func (p *Provider) maxTokens(req *llm.Request) int64 {
	most := p.Capabilities(req.Model).MaxOutputTokens
	if most == 0 {
		most = unknown.output
	}
	if req.MaxOutputTokens > 0 {
		most = min(most, req.MaxOutputTokens)
	}
	return int64(most)
}

func (p *Provider) addTools(out *sdk.MessageNewParams, req *llm.Request) error {
	strictTools := 0
	native := p.Capabilities(req.Model).StructuredOutput == llm.StructuredNative
	for _, t := range req.Tools {
		members, err := modelwire.Object(t.Parameters)
		if err != nil {
			return modelwire.Unsendable("the schema of tool %s is no JSON object", t.Name)
		}
		tool := &sdk.ToolParam{Name: t.Name}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		var schema any = members
		if native && !p.loose && strictTools < maxStrictTools {
			if s, ok := modelwire.Strict(t.Parameters); ok {
				schema, tool.Strict = s, sdk.Bool(true)
				strictTools++
			}
		}
		tool.InputSchema = param.Override[sdk.ToolInputSchemaParam](schema)
		out.Tools = append(out.Tools, sdk.ToolUnionParam{OfTool: tool})
	}
	return nil
}

// addSchema holds the answer to the schema. It returns what has to be said in
// words where the service cannot decode by it.
func (p *Provider) addSchema(out *sdk.MessageNewParams, req *llm.Request) (instruction string) {
	if len(req.Schema) == 0 {
		return ""
	}
	if s, ok := modelwire.Strict(req.Schema); ok && p.Capabilities(req.Model).StructuredOutput == llm.StructuredNative {
		if members, err := modelwire.Members(s); err == nil {
			out.OutputConfig.Format = sdk.JSONOutputFormatParam{Schema: members}
			return ""
		}
	}
	return modelwire.Instruction(req.Schema)
}

// addChoice limits the choice of tools. A model that thinks by itself refuses
// to be forced, so it is left the choice.
func addChoice(out *sdk.MessageNewParams, req *llm.Request, m *model) (forced bool, err error) {
	if len(req.Tools) == 0 {
		return false, nil
	}
	name, named := strings.CutPrefix(req.ToolChoice, "tool:")
	mayForce := m.thinks < thinksByDefault
	switch {
	case req.ToolChoice == "":
		return false, nil
	case req.ToolChoice == "none":
		out.ToolChoice.OfNone = &sdk.ToolChoiceNoneParam{}
	case named && mayForce:
		out.ToolChoice.OfTool = &sdk.ToolChoiceToolParam{Name: name}
		return true, nil
	case req.ToolChoice == "required" && mayForce:
		out.ToolChoice.OfAny = &sdk.ToolChoiceAnyParam{}
		return true, nil
	case req.ToolChoice == "auto", named, req.ToolChoice == "required":
		out.ToolChoice.OfAuto = &sdk.ToolChoiceAutoParam{}
	default:
		return false, modelwire.Unsendable("unknown tool choice %q", req.ToolChoice)
	}
	return false, nil
}

func (p *Provider) addThinking(out *sdk.MessageNewParams, m *model, forced bool) {
	if m.thinks == thinksNever || forced || !m.native {
		return
	}
	if m.thinks == thinksOnRequest || p.show {
		adaptive := &sdk.ThinkingConfigAdaptiveParam{}
		if p.show {
			adaptive.Display = sdk.ThinkingConfigAdaptiveDisplaySummarized
		}
		out.Thinking.OfAdaptive = adaptive
	}
}

// addBreakpoints has the service keep what the next request begins with: the
// tools, the system text, and the conversation so far. It takes four at most.
func (p *Provider) addBreakpoints(out *sdk.MessageNewParams) {
	if p.cache == CacheOff {
		return
	}
	mark := sdk.NewCacheControlEphemeralParam()
	if p.cache == CacheHour {
		mark.TTL = sdk.CacheControlEphemeralTTLTTL1h
	}
	if n := len(out.Tools); n > 0 {
		out.Tools[n-1].OfTool.CacheControl = mark
	}
	if n := len(out.System); n > 0 {
		out.System[n-1].CacheControl = mark
	}
	last := &out.Messages[len(out.Messages)-1]
	if n := len(last.Content); n > 0 {
		if at := last.Content[n-1].GetCacheControl(); at != nil {
			*at = mark
		}
	}
}

// addMessages puts the conversation into the service's form, the instruction
// behind its last user message.
func (p *Provider) addMessages(out *sdk.MessageNewParams, req *llm.Request, private *modelwire.Verbatim, instruction string) error {
	lastUser := -1
	for i, msg := range req.Messages {
		if msg.Role == llm.RoleUser {
			lastUser = i
		}
	}
	c := conversation{p: p, private: private, retention: p.Capabilities(req.Model).RetentionKey, ids: make(map[string]string)}
	for i, msg := range req.Messages {
		if msg.Role == llm.RoleSystem {
			for _, part := range msg.Parts {
				if part.Type == llm.PartText && !modelwire.Blank(part.Text) {
					out.System = append(out.System, sdk.TextBlockParam{Text: part.Text})
				}
			}
			continue
		}
		blocks, err := c.blocks(msg)
		if err != nil {
			return err
		}
		if i == lastUser && instruction != "" {
			blocks = append(blocks, sdk.NewTextBlock(instruction))
		}
		switch {
		case len(blocks) == 0:
		case msg.Role == llm.RoleAssistant:
			out.Messages = append(out.Messages, sdk.NewAssistantMessage(blocks...))
		default:
			out.Messages = append(out.Messages, sdk.NewUserMessage(blocks...))
		}
	}
	if len(out.Messages) == 0 {
		return modelwire.Unsendable("its messages are empty")
	}
	return nil
}

// conversation translates messages. It keeps the ids by which the service knew
// earlier calls.
type conversation struct {
	p         *Provider
	private   *modelwire.Verbatim
	retention string
	ids       map[string]string
}

func (c *conversation) id(id string) string {
	if wire, ok := c.ids[id]; ok {
		return wire
	}
	return c.p.ids.Wire(id)
}

func (c *conversation) blocks(msg llm.Message) ([]sdk.ContentBlockParamUnion, error) {
	var own []llm.Part
	for _, part := range msg.Parts {
		if part.Type != llm.PartRaw || part.Provider == c.retention {
			own = append(own, part)
		}
	}
	exact := false
	if msg.Role == llm.RoleAssistant {
		ordered, ids := modelwire.Restore(own)
		for id, wire := range ids {
			c.ids[id] = wire
		}
		own, exact = ordered, ids != nil
	}
	var out []sdk.ContentBlockParamUnion
	for _, part := range own {
		block, err := c.block(part, exact)
		if err != nil {
			return nil, err
		}
		if block != nil {
			out = append(out, *block)
		}
	}
	return out, nil
}

// block translates a part; nil where there is nothing to say.
func (c *conversation) block(part llm.Part, exact bool) (*sdk.ContentBlockParamUnion, error) {
	var out sdk.ContentBlockParamUnion
	switch part.Type {
	case llm.PartText:
		if part.Text == "" || !exact && modelwire.Blank(part.Text) {
			return nil, nil
		}
		out = sdk.NewTextBlock(part.Text)
	case llm.PartImage:
		url, data, err := modelwire.Image(part)
		if err != nil {
			return nil, err
		}
		out = sdk.NewImageBlock(sdk.URLImageSourceParam{URL: url})
		if url == "" {
			out = sdk.NewImageBlockBase64(part.MediaType, data)
		}
	case llm.PartToolCall:
		out = sdk.NewToolUseBlock(c.id(part.ID), modelwire.ArgsObject(part.Args), part.Name)
	case llm.PartToolResult:
		out = c.result(part)
	case llm.PartRaw:
		held, err := c.private.Hold(part.Block)
		if err != nil {
			return nil, err
		}
		out = param.Override[sdk.ContentBlockParamUnion](held)
	default:
		return nil, modelwire.Unsendable("a part has the unknown type %q", part.Type)
	}
	return &out, nil
}

func (c *conversation) result(part llm.Part) sdk.ContentBlockParamUnion {
	r := sdk.ToolResultBlockParam{ToolUseID: c.id(part.ID)}
	text := modelwire.ResultText(part)
	if part.IsError {
		r.IsError = sdk.Bool(true)
		if modelwire.Blank(text) {
			text = "the call failed without saying why"
		}
	}
	if !modelwire.Blank(text) {
		r.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: text}}}
	}
	return sdk.ContentBlockParamUnion{OfToolResult: &r}
}
