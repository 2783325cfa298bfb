package rulvar

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// ToolsetAttestation pins a toolset: what its tools are (contracts) and what
// they may do (authority). A profile that carries one refuses, at spawn, any
// toolset that differs. It is made by [AttestToolset] and travels as JSON.
type ToolsetAttestation struct {
	// Hash is the toolset hash.
	Hash string
	// Tools maps a tool's name to its contract hash. It serves the message of
	// a refusal; Hash decides.
	Tools map[string]string
	// AuthorityHash is the sha256 over the sorted authority records. Empty
	// skips the authority check. The records themselves stand in the JSON, for the
	// message of a refusal and for who reviews a pin.
	AuthorityHash string

	// authority maps a tool's name to its record, for the message.
	authority map[string]toolAuthority
}

// attestationJSON is an attestation as it travels.
type attestationJSON struct {
	Hash          string                   `json:"hash"`
	Tools         map[string]string        `json:"tools,omitempty"`
	AuthorityHash string                   `json:"authorityHash,omitempty"`
	Authority     map[string]toolAuthority `json:"authority,omitempty"`
}

// toolAuthority is what a tool may do.
type toolAuthority struct {
	Contract      string       `json:"contract"`
	NeedsApproval bool         `json:"needsApproval"`
	Executor      ExecutorKind `json:"executor"`
	Risk          Risk         `json:"risk,omitempty"`
	// ExecutorSpec is the sha256 of the canonical executor spec.
	ExecutorSpec string `json:"executorSpec,omitempty"`
}

// AttestToolset records what tools are and may do.
func AttestToolset(tools []*Tool) ToolsetAttestation {
	a := ToolsetAttestation{
		Hash:      ToolsetHash(tools),
		Tools:     make(map[string]string, len(tools)),
		authority: make(map[string]toolAuthority, len(tools)),
	}
	for _, t := range tools {
		a.Tools[t.cfg.Name] = t.hash
		a.authority[t.cfg.Name] = t.authority()
	}
	a.AuthorityHash = jcs.Sum(appendAuthority(nil, tools))
	return a
}

func (t *Tool) authority() toolAuthority {
	r := toolAuthority{Contract: t.hash, NeedsApproval: t.cfg.NeedsApproval, Executor: t.cfg.Executor, Risk: t.cfg.Risk}
	if t.cfg.ExecutorSpec != nil {
		r.ExecutorSpec = jcs.Sum(t.cfg.ExecutorSpec)
	}
	return r
}

// appendAuthority writes the canonical array of authority records, each
// {"contract","executor","executorSpec"?,"name","needsApproval","risk"?},
// sorted by name.
func appendAuthority(dst []byte, tools []*Tool) []byte {
	dst = append(dst, '[')
	for i, t := range sortTools(slices.Clone(tools)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		a := t.authority()
		dst = append(dst, `{"contract":"`+a.Contract+`","executor":"`+string(a.Executor)+`"`...)
		if a.ExecutorSpec != "" {
			dst = append(dst, `,"executorSpec":"`+a.ExecutorSpec+`"`...)
		}
		dst = append(dst, `,"name":"`+t.cfg.Name+`","needsApproval":`...)
		dst = fmt.Append(dst, a.NeedsApproval)
		if a.Risk != "" {
			dst = append(dst, `,"risk":"`+string(a.Risk)+`"`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Validate checks the shape of an attestation that came from outside.
func (a *ToolsetAttestation) Validate() error {
	refuse := func(path, msg string) error { return errs.New(errs.Config, "attestation", path, msg) }
	if !sha256Pattern.MatchString(a.Hash) {
		return refuse("hash", "want 64 lower-case hex digits")
	}
	if a.AuthorityHash != "" && !sha256Pattern.MatchString(a.AuthorityHash) {
		return refuse("authorityHash", "want 64 lower-case hex digits")
	}
	for name, hash := range a.Tools {
		if !toolNamePattern.MatchString(name) || !sha256Pattern.MatchString(hash) {
			return refuse("tools."+name, "want a tool name and 64 lower-case hex digits")
		}
	}
	for name, r := range a.authority {
		switch {
		case !toolNamePattern.MatchString(name):
			return refuse("authority."+name, "not a tool name")
		case !sha256Pattern.MatchString(r.Contract):
			return refuse("authority."+name+".contract", "want 64 lower-case hex digits")
		case r.Executor == "":
			return refuse("authority."+name+".executor", "missing")
		case r.ExecutorSpec != "" && !sha256Pattern.MatchString(r.ExecutorSpec):
			return refuse("authority."+name+".executorSpec", "want 64 lower-case hex digits")
		}
	}
	return nil
}

// MarshalJSON writes the attestation with the authority records of its tools:
//
//	{"hash":…,"tools":{…},"authorityHash":…,"authority":{"deploy":{"contract":…,"needsApproval":true,"executor":"inprocess","risk":"execute"}}}
func (a ToolsetAttestation) MarshalJSON() ([]byte, error) {
	return json.Marshal(attestationJSON{a.Hash, a.Tools, a.AuthorityHash, a.authority})
}

// UnmarshalJSON reads an attestation and refuses one whose shape is wrong.
func (a *ToolsetAttestation) UnmarshalJSON(data []byte) error {
	if err := checkAttestationMembers(data); err != nil {
		return err
	}
	var p attestationJSON
	if err := json.Unmarshal(data, &p); err != nil {
		return errs.Wrap(errs.Config, "attestation", "", "wrong shape", err)
	}
	*a = ToolsetAttestation{p.Hash, p.Tools, p.AuthorityHash, p.Authority}
	return a.Validate()
}

// checkAttestationMembers refuses what Go's decoder would let pass as absent:
// a member that is null or empty where a text must stand, and a record without
// its needsApproval.
func checkAttestationMembers(data []byte) error {
	refuse := func(path string) error {
		return errs.New(errs.Config, "attestation", path, "wrong shape")
	}
	tree, err := jcs.Parse(data)
	if err != nil {
		return errs.Wrap(errs.Config, "attestation", "", "not JSON", err)
	}
	m, ok := tree.(map[string]any)
	if !ok {
		return refuse("")
	}
	if v, has := m["authorityHash"]; has && (v == nil || v == "") {
		return refuse("authorityHash")
	}
	for _, name := range []string{"tools", "authority"} {
		if v, has := m[name]; has {
			if _, ok := v.(map[string]any); !ok {
				return refuse(name)
			}
		}
	}
	records, _ := m["authority"].(map[string]any)
	for name, r := range records {
		rec, ok := r.(map[string]any)
		if !ok {
			return refuse("authority." + name)
		}
		if _, ok := rec["needsApproval"].(bool); !ok {
			return refuse("authority." + name + ".needsApproval")
		}
		for _, opt := range []string{"risk", "executorSpec"} {
			if v, has := rec[opt]; has && (v == nil || v == "") {
				return refuse("authority." + name + "." + opt)
			}
		}
	}
	return nil
}

// Enforce compares tools with the pin. A difference is an [ErrConfig] that
// names what changed, what is missing and what was not expected.
func (a *ToolsetAttestation) Enforce(tools []*Tool) error {
	if err := a.Validate(); err != nil {
		return err
	}
	now := AttestToolset(tools)
	if now.Hash != a.Hash {
		return errs.New(errs.Config, "attestation", "contract", "the toolset is not the attested one"+a.contractDiff(now))
	}
	if a.AuthorityHash != "" && now.AuthorityHash != a.AuthorityHash {
		return errs.New(errs.Config, "attestation", "authority", "the tools may do other things than attested"+a.authorityDiff(now))
	}
	return nil
}

func (a *ToolsetAttestation) contractDiff(now ToolsetAttestation) string {
	if len(a.Tools) == 0 {
		return ""
	}
	return diffText(a.Tools, now.Tools, func(name string) string { return name })
}

func (a *ToolsetAttestation) authorityDiff(now ToolsetAttestation) string {
	if len(a.authority) == 0 {
		return ""
	}
	return diffText(a.authority, now.authority, func(name string) string {
		was, is := a.authority[name], now.authority[name]
		var fields []string
		for _, f := range []struct {
			name string
			same bool
		}{
			{"contract", was.Contract == is.Contract},
			{"needsApproval", was.NeedsApproval == is.NeedsApproval},
			{"executor", was.Executor == is.Executor},
			{"risk", was.Risk == is.Risk},
			{"executorSpec", was.ExecutorSpec == is.ExecutorSpec},
		} {
			if !f.same {
				fields = append(fields, f.name)
			}
		}
		return name + " (" + strings.Join(fields, ", ") + ")"
	})
}

// diffText renders "; changed: …; missing: …; unexpected: …".
func diffText[V comparable](was, is map[string]V, label func(string) string) string {
	var changed, missing, unexpected []string
	for name, w := range was {
		if v, ok := is[name]; !ok {
			missing = append(missing, name)
		} else if v != w {
			changed = append(changed, label(name))
		}
	}
	for name := range is {
		if _, ok := was[name]; !ok {
			unexpected = append(unexpected, name)
		}
	}
	var b strings.Builder
	for _, part := range []struct {
		word  string
		names []string
	}{{"changed", changed}, {"missing", missing}, {"unexpected", unexpected}} {
		if len(part.names) > 0 {
			slices.Sort(part.names)
			fmt.Fprintf(&b, "; %s: %s", part.word, strings.Join(part.names, ", "))
		}
	}
	return b.String()
}
