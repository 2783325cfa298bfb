package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// EvaluatePermission holds a call that nobody makes against a chain: nothing
// runs, nothing is written, and the answer carries a trace of every step, so
// that a failing policy test explains itself. Hooks and CanUseTool are called.
//
// input is JSON text as [json.RawMessage], taken in exactly as a model's
// arguments are, or any Go value that encodes to JSON. Input that does not fit
// the tool is an [ErrInvalidArguments] whose Data holds the "issues", as no
// verdict is ever given on it; a value that does not encode is an
// [ErrNonSerializable]; a nil tool is an [ErrConfig]. A nil chain denies.
func EvaluatePermission(ctx context.Context, chain *PermissionChain, tool *Tool, input any) (Evaluation, error) {
	const op = "EvaluatePermission"
	if tool == nil {
		return Evaluation{}, errs.New(errs.Config, op, "", "the tool is nil")
	}
	raw, err := inputText(op, tool.cfg.Name, input)
	if err != nil {
		return Evaluation{}, err
	}
	in, issues := tool.intake(raw)
	if issues != nil {
		return Evaluation{}, invalidInput(op, tool.cfg.Name, issues)
	}
	call := Call{Tool: tool.cfg.Name, Risk: tool.cfg.Risk, NeedsApproval: tool.cfg.NeedsApproval}
	return dryRun(ctx, chain, tool, call, in), nil
}

// EvaluatePermissionByName is [EvaluatePermission] for a tool of which only the
// name is known. It declares no risk, needs no approval and has no schema, so
// rules on undeclared risk match. A name that no tool can have is an
// [ErrConfig].
func EvaluatePermissionByName(ctx context.Context, chain *PermissionChain, name string, input any) (Evaluation, error) {
	const op = "EvaluatePermissionByName"
	if !toolNamePattern.MatchString(name) {
		return Evaluation{}, errs.New(errs.Config, op, toolPath(name), "no tool can have this name")
	}
	raw, err := inputText(op, name, input)
	if err != nil {
		return Evaluation{}, err
	}
	in, issues := intakeUntyped(raw)
	if issues != nil {
		return Evaluation{}, invalidInput(op, name, issues)
	}
	return dryRun(ctx, chain, nil, Call{Tool: name}, in), nil
}

func dryRun(ctx context.Context, chain *PermissionChain, tool *Tool, call Call, in takenInput) Evaluation {
	if ctx == nil {
		ctx = context.Background()
	}
	call.Input, call.given = in.effective, in.given
	e := evaluator{
		chain: chain, tool: tool, call: call, tracing: true,
		tc: &ToolContext{Context: ctx, tool: call.Tool},
	}
	e.run(true)
	return e.out
}

// inputText is the JSON text of a dry run's input.
func inputText(op, name string, input any) ([]byte, error) {
	if raw, ok := input.(json.RawMessage); ok {
		return raw, nil
	}
	raw, err := marshalGuarded(input)
	if err != nil {
		return nil, errs.Wrap(errs.NonSerializable, op, toolPath(name), "the input cannot be written as JSON", err)
	}
	return raw, nil
}

// marshalGuarded makes an error of a marshaler's panic.
func marshalGuarded(v any) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			raw, err = nil, fmt.Errorf("its marshaler panicked: %v", p)
		}
	}()
	return jcs.Marshal(v)
}

func invalidInput(op, name string, issues []string) error {
	e := errs.New(errs.InvalidArguments, op, toolPath(name), "the input does not fit: "+strings.Join(issues, "; "))
	e.Data = map[string]any{"issues": issues}
	return e
}
