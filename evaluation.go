package rulvar

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Evaluation is what a chain answers for one call.
type Evaluation struct {
	// Verdict is allow, deny or ask; nothing else.
	Verdict Verdict `json:"verdict"`
	// DecidedBy is the step that decided.
	DecidedBy DecidedBy `json:"decidedBy"`
	// Layer is where the deciding hook, rule or CanUseTool came from; "" for
	// the default and for an ask without a rule.
	Layer Layer `json:"layer,omitempty"`
	// Rule is the deciding rule, as it was written. An ask by [DecidedByAskRule]
	// without a rule means that argv rules speak of the tool and its command
	// could not be judged, or may match one of them.
	Rule Rule `json:"rule,omitzero"`
	// Reason says why, in words that may be shown to the model and to an
	// approver: a closure's own reason, or the place of the deciding rule, such
	// as "engine.deny[2] matches". It is "policy-error" where a closure failed.
	Reason string `json:"reason,omitempty"`
	// Input is exactly what would be executed: after hooks and CanUseTool,
	// with the schema's defaults, in canonical JSON.
	Input json.RawMessage `json:"input,omitempty"`
	// Given is the same input before the schema's defaults: what the approval
	// key is made of.
	Given json.RawMessage `json:"given,omitempty"`
	// Advisory lists the domain rules that name the tool. They decided nothing.
	// A tool that declares its hosts ([ToolConfig.Hosts]) has none: its domain
	// rules are enforced.
	Advisory []Rule `json:"advisory,omitempty"`
	// Trace lists the steps in order; only a dry run has one.
	Trace []TraceStep `json:"trace,omitempty"`
}

// reasonPolicyError is the reason of every deny that a failing closure causes.
// What failed goes to the log, not to the model.
const reasonPolicyError = "policy-error"

// reasonNeedsApproval is the reason of an ask by the terminal default.
const reasonNeedsApproval = "the tool needs approval"

// TraceStep is one step of a dry run.
type TraceStep struct {
	// Step is the part of the chain: "hook", "deny-rule", "ask-rule", "argv",
	// "hosts", "canUseTool" or "default".
	Step string `json:"step"`
	// Layer and Index say which of them: the second hook of the profile is
	// profile, 1.
	Layer Layer `json:"layer,omitempty"`
	Index int   `json:"index"`
	// Outcome is what came of it: a verdict, "no opinion", "modified",
	// "held", "falls through", "no match", "maybe", "advisory",
	// "policy-error".
	Outcome string `json:"outcome"`
	// Detail explains the outcome: the rule, the reason, the failure.
	Detail string `json:"detail,omitempty"`
	// Input is what a closure was shown; absent for rules.
	Input json.RawMessage `json:"input,omitempty"`
}

// The words of [TraceStep.Outcome] that are not verdicts.
const (
	outcomeNoOpinion    = "no opinion"
	outcomeModified     = "modified"
	outcomeHeld         = "held"
	outcomeFallsThrough = "falls through"
	outcomeNoMatch      = "no match"
	outcomeMaybe        = "maybe"
	outcomeAdvisory     = "advisory"
)

// stepArgv is the step that asks where a command cannot be judged, and
// stepHosts the one that judges the hosts that the input names.
const (
	stepArgv  = "argv"
	stepHosts = "hosts"
)

// String says what was decided and why, with the trace, if there is one,
// below it.
func (e Evaluation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s by %s", e.Verdict, e.DecidedBy)
	if !e.Rule.IsZero() {
		fmt.Fprintf(&b, " %s", e.Rule)
	}
	if e.Layer != "" {
		fmt.Fprintf(&b, " (%s)", e.Layer)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	for i, s := range e.Trace {
		fmt.Fprintf(&b, "\n%3d. %s", i+1, s)
	}
	return b.String()
}

// String is the step on one line.
func (s TraceStep) String() string {
	var b strings.Builder
	b.WriteString(s.Step)
	if s.Layer != "" {
		fmt.Fprintf(&b, " %s[%d]", s.Layer, s.Index)
	}
	fmt.Fprintf(&b, ": %s", s.Outcome)
	if s.Detail != "" {
		fmt.Fprintf(&b, ": %s", s.Detail)
	}
	if s.Input != nil {
		fmt.Fprintf(&b, " (saw %s)", s.Input)
	}
	return b.String()
}
