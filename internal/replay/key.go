package replay

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// A content key says what a call asks for, independent of where it stands:
//
//	key = lowercase hex of sha256 over the RFC 8785 text of
//
//	agent     {"agentType","isolation","kind":"agent","modelSpec","prompt","schemaHash","toolsetHash"}
//	step      {"deps","key","kind":"step"}
//	child     {"args","kind":"child","workflow"}
//	external  {"key","kind":"external"}
//	approval  {"input","kind":"approval","toolName"}
//	rand      {"key"?,"kind":"rand","subtype"}
//
// These texts are shared with the reference byte for byte. Hash version 1
// differs in one place: it left the effort out of an agent's model.

// SettleKey is the key of a decision of type run_settle: the hash of
// {"kind":"run-settle"}.
const SettleKey = "3fd93855d26018a9c623181740c4b1aa968db68b3d192fe4a02d9c5a2c88e657"

// opKey names this work in errors.
const opKey = "content key"

// Keys gives the content key of one call under a hash version, or "" for a
// version it cannot derive. "" never matches an operation.
type Keys func(hashVersion int) string

// SameKey is the Keys of a call whose key does not depend on the version,
// which is every kind but agent.
func SameKey(key string) Keys {
	return func(v int) string {
		if v < MinHashVersion || v > MaxHashVersion {
			return ""
		}
		return key
	}
}

// AgentIdentity is what distinguishes one agent call from another. Labels,
// limits, permissions and retry rules are policy and no part of it.
type AgentIdentity struct {
	// AgentType is the profile's name, "" when none was asked for.
	AgentType string
	// ModelSpec is the model that was asked for, before anything the provider
	// does not support is taken out: {"kind":"model","model","effort"?} or
	// {"kind":"ladder","ladder"}. See [ModelSpec]. Other members do not count.
	ModelSpec json.RawMessage
	// Prompt is the prompt text, or the explicit key of the call, which stands
	// in for it.
	Prompt string
	// SchemaHash is the hash of the canonical output schema; that of true when
	// there is none.
	SchemaHash string
	// ToolsetHash is the hash of the canonical tool contracts; that of [] when
	// there are none.
	ToolsetHash string
	// Isolation is "none", "readonly" or {"kind":"worktree","ref"?} as JSON;
	// nil means "none".
	Isolation json.RawMessage
}

// ModelSpec returns the model member of an [AgentIdentity] for a plain model
// reference. An empty effort means that none was asked for.
func ModelSpec(model, effort string) json.RawMessage {
	spec := struct {
		Kind   string `json:"kind"`
		Model  string `json:"model"`
		Effort string `json:"effort,omitempty"`
	}{"model", model, effort}
	b, err := json.Marshal(spec)
	if err != nil { // three strings always encode
		return nil
	}
	return b
}

// Key returns the key under the current hash version. The error has code
// [errs.NonSerializable] for text that has no canonical form (invalid UTF-8,
// a lone surrogate) and [errs.Config] for a model of unknown shape.
func (a AgentIdentity) Key() (string, error) {
	return a.key(journalVersion)
}

// KeyV1 returns the key under hash version 1. Errors as for Key.
func (a AgentIdentity) KeyV1() (string, error) {
	return a.key(1)
}

// Keys returns the key under every supported version. Errors as for Key.
func (a AgentIdentity) Keys() (Keys, error) {
	v2, err := a.Key()
	if err != nil {
		return nil, err
	}
	v1, err := a.KeyV1()
	if err != nil {
		return nil, err
	}
	return func(v int) string {
		switch v {
		case 1:
			return v1
		case journalVersion:
			return v2
		}
		return ""
	}, nil
}

func (a AgentIdentity) key(version int) (string, error) {
	members := map[string]json.RawMessage{"modelSpec": a.ModelSpec, "isolation": a.Isolation}
	if a.Isolation == nil {
		members["isolation"] = json.RawMessage(`"none"`)
	}
	for _, m := range []struct{ name, text string }{
		{"agentType", a.AgentType},
		{"prompt", a.Prompt},
		{"schemaHash", a.SchemaHash},
		{"toolsetHash", a.ToolsetHash},
	} {
		q, err := quote(m.name, m.text)
		if err != nil {
			return "", err
		}
		members[m.name] = q
	}
	text, err := agentText(members, version)
	if err != nil {
		return "", err
	}
	return jcs.Sum(text), nil
}

// StepKey returns the key of a step: its explicit key or else its label, and
// its dependencies, a JSON array; nil means [].
func StepKey(label string, deps json.RawMessage) (string, error) {
	if deps == nil {
		deps = json.RawMessage(`[]`)
	}
	return objectKey(raw("deps", deps), text("key", label), text("kind", "step"))
}

// ChildKey returns the key of a call of the workflow registered under that
// name. Args are the arguments, or the explicit key of the call as a JSON
// string; nil means null.
func ChildKey(workflow string, args json.RawMessage) (string, error) {
	if args == nil {
		args = json.RawMessage(`null`)
	}
	return objectKey(raw("args", args), text("kind", "child"), text("workflow", workflow))
}

// ExternalKey returns the key of a wait for an external value.
func ExternalKey(key string) (string, error) {
	return objectKey(text("key", key), text("kind", "external"))
}

// ApprovalKey returns the key of the approval of one tool call. Input is what
// hooks left of the model's arguments, before schema defaults.
func ApprovalKey(toolName string, input json.RawMessage) (string, error) {
	return objectKey(raw("input", input), text("kind", "approval"), text("toolName", toolName))
}

// RandKey returns the key of a recorded clock reading ("now"), random number
// ("random") or identifier ("uuid"). Only "random" takes a key of the caller;
// nil means none, which differs from "".
func RandKey(subtype string, key *string) (string, error) {
	if key == nil {
		return objectKey(text("kind", "rand"), text("subtype", subtype))
	}
	return objectKey(text("key", *key), text("kind", "rand"), text("subtype", subtype))
}

// InputHash returns the hash of the canonical form of a tool call's effective
// input, which an approval records as inputHash.
func InputHash(effective json.RawMessage) (string, error) {
	b, err := canonical(nil, "input", effective)
	if err != nil {
		return "", err
	}
	return jcs.Sum(b), nil
}

// member is one member of an object under construction, already JSON.
type member struct {
	name  string
	json  json.RawMessage
	canon bool // json is in canonical form
	err   error
}

func raw(name string, v json.RawMessage) member { return member{name: name, json: v} }

func text(name, s string) member {
	q, err := quote(name, s)
	return member{name, q, true, err}
}

// objectKey hashes an object. The members come in canonical order, with plain
// ASCII names.
func objectKey(members ...member) (string, error) {
	b, err := objectText(members...)
	if err != nil {
		return "", err
	}
	return jcs.Sum(b), nil
}

func objectText(members ...member) ([]byte, error) {
	b := []byte{'{'}
	for i, m := range members {
		if m.err != nil {
			return nil, m.err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, m.name)
		b = append(b, ':')
		if m.canon {
			b = append(b, m.json...)
			continue
		}
		var err error
		if b, err = canonical(b, m.name, m.json); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// canonical appends the canonical form of a JSON text.
func canonical(dst []byte, name string, src json.RawMessage) ([]byte, error) {
	b, err := jcs.Append(dst, src)
	if err != nil {
		return nil, errs.Wrap(errs.NonSerializable, opKey, name,
			"the value has no canonical JSON form; send text that is valid JSON in valid UTF-8", err)
	}
	return b, nil
}

// quote turns a Go string into a canonical JSON string. Invalid bytes are an
// error: with U+FFFD in their place two different texts would share a key.
func quote(name, s string) (json.RawMessage, error) {
	if !utf8.ValidString(s) {
		return nil, errs.New(errs.NonSerializable, opKey, name, "the text is not valid UTF-8")
	}
	return jcs.AppendString(nil, s), nil
}
