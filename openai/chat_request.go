package openai

import (
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// chatParams puts a request into the chat dialect.
func (p *Provider) chatParams(req *llm.Request) (*sdk.ChatCompletionNewParams, error) {
	caps := p.Capabilities(req.Model)
	native := caps.StructuredOutput == llm.StructuredNative
	out := &sdk.ChatCompletionNewParams{Model: req.Model}
	out.StreamOptions.IncludeUsage = sdk.Bool(true)
	if n := req.MaxOutputTokens; n > 0 {
		if caps.MaxOutputTokens > 0 {
			n = min(n, caps.MaxOutputTokens)
		}
		if p.completion {
			out.MaxCompletionTokens = sdk.Int(int64(n))
		} else {
			out.MaxTokens = sdk.Int(int64(n))
		}
	}
	if slices.Contains(p.efforts, req.Effort) {
		out.ReasoningEffort = shared.ReasoningEffort(req.Effort)
	}
	instruction := ""
	if len(req.Schema) > 0 && native {
		members, strict, err := answerSchema(req.Schema)
		if err != nil {
			return nil, err
		}
		out.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "output", Schema: members, Strict: sdk.Bool(strict)},
		}
	} else if len(req.Schema) > 0 {
		instruction = modelwire.Instruction(req.Schema)
	}
	if err := p.addChatTools(out, req, native); err != nil {
		return nil, err
	}
	for i, msg := range req.Messages {
		if i == lastUser(req) && instruction != "" {
			msg.Parts = append(slices.Clip(msg.Parts), llm.TextPart(instruction))
		}
		list, err := p.chatMessages(msg)
		if err != nil {
			return nil, err
		}
		out.Messages = append(out.Messages, list...)
	}
	if len(out.Messages) == 0 {
		return nil, modelwire.Unsendable("its messages are empty")
	}
	return out, nil
}

func (p *Provider) addChatTools(out *sdk.ChatCompletionNewParams, req *llm.Request, native bool) error {
	for _, t := range req.Tools {
		schema, strict, err := p.toolSchema(t, native)
		if err != nil {
			return err
		}
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: schema}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		if strict { // services that do not know the word need not see it
			f.Strict = sdk.Bool(true)
		}
		out.Tools = append(out.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if len(req.Tools) == 0 || req.ToolChoice == "" {
		return nil
	}
	if name, named := strings.CutPrefix(req.ToolChoice, "tool:"); named {
		out.ToolChoice = sdk.ToolChoiceOptionFunctionToolChoice(sdk.ChatCompletionNamedToolChoiceFunctionParam{Name: name})
		return nil
	}
	switch req.ToolChoice {
	case "auto", "none", "required":
		out.ToolChoice.OfAuto = param.NewOpt(req.ToolChoice)
		return nil
	}
	return modelwire.Unsendable("unknown tool choice %q", req.ToolChoice)
}

// chatMessages translates a message: the results of a turn's calls are one
// each. Private blocks have no place in this dialect.
func (p *Provider) chatMessages(msg llm.Message) ([]sdk.ChatCompletionMessageParamUnion, error) {
	switch msg.Role {
	case llm.RoleSystem:
		if text := strings.Join(texts(msg), "\n\n"); text != "" {
			return []sdk.ChatCompletionMessageParamUnion{sdk.SystemMessage(text)}, nil
		}
		return nil, nil
	case llm.RoleAssistant:
		return p.chatAssistant(msg)
	case llm.RoleTool:
		var out []sdk.ChatCompletionMessageParamUnion
		for _, part := range msg.Parts {
			if part.Type == llm.PartToolResult {
				out = append(out, sdk.ToolMessage(resultText(part), p.ids.Wire(part.ID)))
			}
		}
		return out, nil
	}
	var content []sdk.ChatCompletionContentPartUnionParam
	plain := true
	for _, part := range msg.Parts {
		switch part.Type {
		case llm.PartText:
			if !modelwire.Blank(part.Text) {
				content = append(content, sdk.TextContentPart(part.Text))
			}
		case llm.PartImage:
			url, err := imageURL(part)
			if err != nil {
				return nil, err
			}
			plain = false
			content = append(content, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url}))
		default:
			return nil, modelwire.Unsendable("a user message holds a part of type %q", part.Type)
		}
	}
	switch {
	case len(content) == 0:
		return nil, nil
	case plain: // small services take nothing but a text
		return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(strings.Join(texts(msg), "\n\n"))}, nil
	}
	return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(content)}, nil
}

func (p *Provider) chatAssistant(msg llm.Message) ([]sdk.ChatCompletionMessageParamUnion, error) {
	a := &sdk.ChatCompletionAssistantMessageParam{}
	text := ""
	for _, part := range msg.Parts {
		switch part.Type {
		case llm.PartText:
			text += part.Text
		case llm.PartToolCall:
			a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: p.ids.Wire(part.ID),
					Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: part.Name, Arguments: modelwire.ArgsText(part.Args),
					},
				},
			})
		case llm.PartRaw:
		default:
			return nil, modelwire.Unsendable("a message of the model holds a part of type %q", part.Type)
		}
	}
	if !modelwire.Blank(text) {
		a.Content.OfString = sdk.String(text)
	} else if len(a.ToolCalls) == 0 {
		return nil, nil
	}
	return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: a}}, nil
}
