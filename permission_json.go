package rulvar

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// The declarative part of a policy layer is a JSON object:
//
//	{
//	  "deny": [rule, …],                  see Rule
//	  "ask": [rule, …],
//	  "hookAllow": "decisive" | "advisory",
//	  "strictApprovals": true | false,
//	  "approvalDeadlineMs": 60000,        whole, 1 to 3155760000000
//	  "preset": "strict" | "standard" | "open",       a profile's layer only
//	  "inheritPermissions": true | false              a profile's layer only
//	}
//
// Each member may be absent; none may be null or of another type, and no other
// member is allowed. Closures are not part of it.

// MarshalJSON writes the declarative part of the layer. A layer with closures
// is an [ErrConfig], as what it wrote would be a weaker policy; so is a layer
// that does not compile.
func (c PermissionConfig) MarshalJSON() ([]byte, error) {
	view, err := c.view(LayerEngine)
	if err != nil {
		return nil, err
	}
	return json.Marshal(view)
}

// MarshalJSON writes the declarative part of the layer, as
// [PermissionConfig.MarshalJSON] does.
func (p AgentProfilePermissions) MarshalJSON() ([]byte, error) {
	view, err := p.view(LayerProfile)
	if err != nil {
		return nil, err
	}
	if p.Preset != "" && !p.Preset.known() {
		return nil, configFault(opMarshal, "profile.preset", "%s", unknownPreset(string(p.Preset)))
	}
	view.Preset, view.Inherit = p.Preset, p.InheritPermissions
	return json.Marshal(view)
}

// UnmarshalJSON reads a layer. Members that the text does not have stay as
// they are, closures always do. Anything wrong is an [ErrConfig] whose Path
// names the place, such as "engine.deny[2].argv"; c is then unchanged.
func (c *PermissionConfig) UnmarshalJSON(data []byte) error {
	next := AgentProfilePermissions{PermissionConfig: *c}
	if err := next.read(data, LayerEngine); err != nil {
		return err
	}
	*c = next.PermissionConfig
	return nil
}

// UnmarshalJSON reads a profile's layer, as [PermissionConfig.UnmarshalJSON]
// does.
func (p *AgentProfilePermissions) UnmarshalJSON(data []byte) error {
	next := *p
	if err := next.read(data, LayerProfile); err != nil {
		return err
	}
	*p = next
	return nil
}

const (
	opMarshal   = "marshal permissions"
	opUnmarshal = "unmarshal permissions"
)

// layerView is a layer as it is written.
type layerView struct {
	Deny       []Rule        `json:"deny,omitempty"`
	Ask        []Rule        `json:"ask,omitempty"`
	HookAllow  HookAllowMode `json:"hookAllow,omitempty"`
	Strict     bool          `json:"strictApprovals,omitempty"`
	DeadlineMs int64         `json:"approvalDeadlineMs,omitempty"`
	Preset     Preset        `json:"preset,omitempty"`
	Inherit    bool          `json:"inheritPermissions,omitempty"`
}

func (c *PermissionConfig) view(layer Layer) (layerView, error) {
	if len(c.Hooks) > 0 {
		return layerView{}, configFault(opMarshal, string(layer)+".hooks", "hooks are closures and cannot be written")
	}
	if c.CanUseTool != nil {
		return layerView{}, configFault(opMarshal, string(layer)+".canUseTool", "CanUseTool is a closure and cannot be written")
	}
	var compiled layerSet
	if err := compiled.add(opMarshal, c, layer); err != nil {
		return layerView{}, err
	}
	return layerView{
		Deny: c.Deny, Ask: c.Ask, HookAllow: c.HookAllow, Strict: c.StrictApprovals,
		DeadlineMs: c.ApprovalDeadline.Milliseconds(),
	}, nil
}

func (p Preset) known() bool { return p == PresetStrict || p == PresetStandard || p == PresetOpen }

// read sets the members that data holds.
func (p *AgentProfilePermissions) read(data []byte, layer Layer) error {
	members, why := strictMembers(data)
	if why != "" {
		return configFault(opUnmarshal, string(layer), "%s", why)
	}
	for _, key := range sortedKeys(members) {
		if err := p.readMember(layer, key, members[key]); err != nil {
			return err
		}
	}
	return nil
}

func (p *AgentProfilePermissions) readMember(layer Layer, key string, raw json.RawMessage) (err error) {
	path := string(layer) + "." + key
	why := ""
	switch key {
	case "deny":
		p.Deny, err = readRules(path, raw)
	case "ask":
		p.Ask, err = readRules(path, raw)
	case "hookAllow":
		var word string
		word, why = readWord(raw)
		if p.HookAllow = HookAllowMode(word); why == "" && (word == "" || p.HookAllow.problem() != "") {
			why = fmt.Sprintf("unknown mode %q: use decisive or advisory", word)
		}
	case "strictApprovals":
		p.StrictApprovals, why = readBool(raw)
	case "approvalDeadlineMs":
		p.ApprovalDeadline, why = readMilliseconds(raw)
	case "allow":
		why = "rules never allow: what none of them denies or asks for is left to canUseTool and the default; use deny and ask"
	case "hooks", "canUseTool":
		why = "closures cannot be written in JSON: set them in code"
	case "preset", "inheritPermissions":
		if layer != LayerProfile {
			why = "only an agent profile has this member"
			break
		}
		why = p.readProfileMember(key, raw)
	default:
		why = "unknown member: use deny, ask, hookAllow, strictApprovals or approvalDeadlineMs"
		if layer == LayerProfile {
			why += ", preset or inheritPermissions"
		}
	}
	if why != "" {
		return configFault(opUnmarshal, path, "%s", why)
	}
	return err
}

func (p *AgentProfilePermissions) readProfileMember(key string, raw json.RawMessage) (why string) {
	if key == "inheritPermissions" {
		p.InheritPermissions, why = readBool(raw)
		return why
	}
	word, why := readWord(raw)
	if p.Preset = Preset(word); why == "" && !p.Preset.known() {
		why = unknownPreset(word)
	}
	return why
}

func readRules(path string, raw json.RawMessage) ([]Rule, error) {
	var elements []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &elements) != nil {
		return nil, configFault(opUnmarshal, path, "want an array of rules")
	}
	rules := make([]Rule, 0, len(elements))
	for i, e := range elements {
		r, fault := readRule(e)
		if fault != nil {
			return nil, fault.at(opUnmarshal, fmt.Sprintf("%s[%d]", path, i))
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func readWord(raw json.RawMessage) (word, why string) {
	if raw[0] != '"' || json.Unmarshal(raw, &word) != nil {
		return "", "want a string"
	}
	return word, ""
}

func readBool(raw json.RawMessage) (value bool, why string) {
	switch string(raw) {
	case "true":
		return true, ""
	case "false":
		return false, ""
	}
	return false, "want true or false"
}

func readMilliseconds(raw json.RawMessage) (time.Duration, string) {
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n < 1 || n > float64(maxApprovalDeadline/time.Millisecond) {
		return 0, fmt.Sprintf("want a whole number of milliseconds from 1 to %d", maxApprovalDeadline/time.Millisecond)
	}
	return time.Duration(n) * time.Millisecond, ""
}
