package rulvar

import (
	"encoding/json"
	"time"
)

// Verdict is an answer of the permission chain, or of a closure inside it. The
// zero value is no opinion and never allows anything.
type Verdict string

// The verdicts. The chain itself answers allow, deny or ask; the others are
// words for closures.
const (
	VerdictNone   Verdict = ""
	VerdictAllow  Verdict = "allow"
	VerdictDeny   Verdict = "deny"
	VerdictAsk    Verdict = "ask"
	VerdictModify Verdict = "modify"
	VerdictPass   Verdict = "pass"
)

// Decision is what a [PermissionHook] or a [CanUseTool] answers. Make it with
// [Allow], [Deny], [Ask], [ModifyInput] or [Pass]. The zero Decision is no
// opinion from a hook and a deny from CanUseTool. An Input beside any verdict
// but modify, and an unknown verdict, are errors of the closure and deny.
type Decision struct {
	Verdict Verdict
	// Reason is shown to the model with a deny and to the approver with an ask.
	Reason string
	// Input replaces the call's input under [VerdictModify].
	Input json.RawMessage
}

// Allow lets the call run.
func Allow() Decision { return Decision{Verdict: VerdictAllow} }

// Deny refuses the call; the model sees the reason.
func Deny(reason string) Decision { return Decision{Verdict: VerdictDeny, Reason: reason} }

// Ask suspends the call until somebody approves it.
func Ask(reason string) Decision { return Decision{Verdict: VerdictAsk, Reason: reason} }

// ModifyInput replaces the input and lets the chain go on with it.
func ModifyInput(input json.RawMessage) Decision {
	return Decision{Verdict: VerdictModify, Input: input}
}

// Pass has no opinion. From CanUseTool it falls through to the default.
func Pass() Decision { return Decision{Verdict: VerdictPass} }

// Call is a tool call as the chain's closures see it.
type Call struct {
	// ID is the call id in the agent's history; empty in a dry run.
	ID string
	// Tool is the final name of the tool.
	Tool string
	// Risk is the declared risk.
	Risk Risk
	// NeedsApproval is the tool's own flag.
	NeedsApproval bool
	// Input is the judged input, validated and with defaults applied, in
	// canonical JSON. It must not be changed in place.
	Input json.RawMessage

	// given is the input before defaults, which an approval's key is made of;
	// nil where it is the same as Input.
	given json.RawMessage
}

// PermissionHook is a closure of the chain's first step. Hooks run in
// registration order; allow, deny and ask decide, [ModifyInput] goes on with
// other input, no opinion goes on. A panic, an error or a malformed Decision
// denies with the reason "policy-error". It may be called by several agents at
// once.
type PermissionHook func(*ToolContext, Call) (Decision, error)

// CanUseTool is the closure that decides what no rule decided. An allow is
// decisive even for a tool that needs approval, unless StrictApprovals is set.
// The zero Decision denies: to fall through, answer [Pass].
type CanUseTool func(*ToolContext, Call) (Decision, error)

// HookAllowMode says what a hook's allow is worth against the deny rules.
type HookAllowMode string

// The modes. Decisive is the documented order and the default: a hook's allow
// decides before the deny rules are read. Under advisory it is held while they
// are read, and a match denies.
const (
	HookAllowDecisive HookAllowMode = "decisive"
	HookAllowAdvisory HookAllowMode = "advisory"
)

// PermissionConfig is one layer of policy: the engine's.
type PermissionConfig struct {
	// Hooks run first, in order.
	Hooks []PermissionHook
	// Deny rules deny, Ask rules ask. Their order does not matter.
	Deny, Ask []Rule
	// CanUseTool decides what is left. One slot: the profile's wins over the
	// engine's, beside which an inherited one may still deny or ask.
	CanUseTool CanUseTool
	// HookAllow: "" and decisive are the default; any layer arms advisory.
	HookAllow HookAllowMode
	// StrictApprovals makes an allow over a tool that needs approval fall
	// through. Any layer arms it.
	StrictApprovals bool
	// ApprovalDeadline denies an approval that nobody answered in time. Zero
	// means none; at least a millisecond, at most a hundred years. The most
	// specific layer that sets it wins.
	ApprovalDeadline time.Duration
}

// Preset is a named set of rules over declared risk.
type Preset string

// The presets. Strict denies destructive and asks on write, network, execute
// and undeclared. Standard asks on network, execute, destructive and
// undeclared. Open has no rules.
const (
	PresetStrict   Preset = "strict"
	PresetStandard Preset = "standard"
	PresetOpen     Preset = "open"
)

// AgentProfilePermissions is the policy layer of an agent profile.
type AgentProfilePermissions struct {
	PermissionConfig
	// Preset adds its rules after the profile's own. "" means none.
	Preset Preset
	// InheritPermissions puts the spawning agent's layer (its chain above the
	// engine's) ahead of this one, where it can only make answers stricter. Of
	// a call that an inherited closure rewrites, the child's own chain is asked
	// too what it was and what it has become: its closures run again.
	// Default false: nothing is inherited.
	InheritPermissions bool
}

// DecidedBy names the step of the chain that decided.
type DecidedBy string

// The deciding steps.
const (
	DecidedByHook       DecidedBy = "hook"
	DecidedByDenyRule   DecidedBy = "deny-rule"
	DecidedByAskRule    DecidedBy = "ask-rule"
	DecidedByCanUseTool DecidedBy = "canUseTool"
	DecidedByDefault    DecidedBy = "default"
)

// Layer names where a hook, a rule or a closure came from.
type Layer string

// The layers, in evaluation order. Preset and isolation rules belong to the
// layer that asked for them but are named by their own word.
const (
	LayerEngine    Layer = "engine"
	LayerInherited Layer = "inherited"
	LayerProfile   Layer = "profile"
	LayerPreset    Layer = "preset"
	LayerIsolation Layer = "isolation"
)
