package replay

import (
	"encoding/json"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// maxTagLen is the length that an approach tag is cut to.
const maxTagLen = 32

// ApproachTag normalises the tag that tells apart several ways of doing one
// task: composed, lower case, every run of characters outside a-z and 0-9 one
// hyphen, at most 32 characters, "default" when nothing was given. Hyphens at
// the ends stay.
func ApproachTag(raw string) string {
	composed := norm.NFC.String(raw)
	// Full case mapping, which package strings leaves out: this letter becomes
	// an i and a combining dot.
	composed = strings.ReplaceAll(composed, "\u0130", "i\u0307")
	var b strings.Builder
	inRun := false
	for _, r := range strings.ToLower(composed) {
		if b.Len() == maxTagLen {
			break
		}
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
			inRun = false
		} else if !inRun {
			b.WriteByte('-')
			inRun = true
		}
	}
	if b.Len() == 0 {
		return "default"
	}
	return b.String()
}

// Approach is what the reference groups attempts at one task by.
type Approach struct {
	AgentType, ToolsetHash, SchemaHash string
	// Isolation as in [AgentIdentity]; the ref of a worktree does not count.
	Isolation json.RawMessage
	// Tag is the caller's tag, not yet normalised.
	Tag string
}

// ApproachSignature is the hashed form of an [Approach].
type ApproachSignature struct {
	Tag          string // normalised
	IsolationTag string // none, readonly or worktree
	Coarse       string // hash without the tag
	Signature    string // hash with the tag
}

// Signature hashes the approach. Errors as for [AgentIdentity.Key].
func (a Approach) Signature() (ApproachSignature, error) {
	iso, err := isolationTag(a.Isolation)
	if err != nil {
		return ApproachSignature{}, err
	}
	one := raw("sigVersion", json.RawMessage("1"))
	coarse, err := objectKey(text("agentType", a.AgentType), text("isolation", iso),
		text("schemaHash", a.SchemaHash), one, text("toolsetHash", a.ToolsetHash))
	if err != nil {
		return ApproachSignature{}, err
	}
	tag := ApproachTag(a.Tag)
	sig, err := objectKey(text("approachTag", tag), text("coarse", coarse), one)
	if err != nil {
		return ApproachSignature{}, err
	}
	return ApproachSignature{tag, iso, coarse, sig}, nil
}

func isolationTag(isolation json.RawMessage) (string, error) {
	if isolation == nil {
		return "none", nil
	}
	var tag string
	if json.Unmarshal(isolation, &tag) == nil && tag != "" {
		return tag, nil
	}
	members, err := objectMembers(isolation, "isolation")
	if err != nil {
		return "", err
	}
	if kind, _ := stringMember(members, "kind"); kind != "worktree" {
		return "", errs.New(errs.Config, opKey, "isolation.kind", strconv.Quote(kind)+" is not worktree")
	}
	return "worktree", nil
}

// ExecCall is one executed tool call, as an executor outside the process is
// told about it.
type ExecCall struct {
	// Genesis distinguishes a run from an earlier one under the same id. It is
	// part of version 2 alone.
	Genesis  string
	RunID    string
	AgentSeq int64 // sequence number of the agent's running entry
	Ordinal  int64 // how many calls the agent has executed, this one included
	Tool     string
	Args     json.RawMessage // nil means null
}

// Key returns the idempotency key of the call under derivation 1 or 2. A
// retry of the same call has the same key. Errors as for [AgentIdentity.Key].
func (c ExecCall) Key(derivation int) (string, error) {
	args := c.Args
	if args == nil {
		args = json.RawMessage("null")
	}
	agentSeq, ordinal := number("agentSeq", c.AgentSeq), number("ordinal", c.Ordinal)
	switch derivation {
	case 1:
		return objectKey(agentSeq, raw("args", args), ordinal, text("runId", c.RunID), text("tool", c.Tool))
	case 2:
		return objectKey(agentSeq, raw("args", args), number("derivation", 2), text("genesis", c.Genesis),
			ordinal, text("runId", c.RunID), text("tool", c.Tool))
	}
	return "", errs.New(errs.Config, opKey, "derivation", strconv.Itoa(derivation)+" is neither 1 nor 2")
}

func number(name string, n int64) member {
	return raw(name, json.RawMessage(strconv.FormatInt(n, 10)))
}
