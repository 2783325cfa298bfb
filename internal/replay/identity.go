package replay

import (
	"encoding/json"
	"strconv"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// journalVersion is the hash version of new keys.
const journalVersion = journal.HashVersion

// Canonical is an identity in its hashed form, under both versions.
type Canonical struct {
	Text, Key     string // hash version 2
	TextV1, KeyV1 string // hash version 1
}

// CanonicalIdentity canonicalises an identity that comes as one JSON record
// with a kind, as tools and test vectors hold it. An agent record is reduced
// to the members that count; a record of another kind is hashed as it stands.
// Errors have code [errs.Config] for a record of unknown shape and
// [errs.NonSerializable] for one without a canonical form.
func CanonicalIdentity(record json.RawMessage) (Canonical, error) {
	members, err := objectMembers(record, "identity")
	if err != nil {
		return Canonical{}, err
	}
	kind, _ := stringMember(members, "kind")
	switch journal.Kind(kind) {
	case journal.KindAgent:
		v2, err := agentText(members, journalVersion)
		if err != nil {
			return Canonical{}, err
		}
		v1, err := agentText(members, 1)
		if err != nil {
			return Canonical{}, err
		}
		return Canonical{string(v2), jcs.Sum(v2), string(v1), jcs.Sum(v1)}, nil
	case journal.KindStep, journal.KindChild, journal.KindExternal, journal.KindApproval, journal.KindRand:
		b, err := canonical(nil, "identity", record)
		if err != nil {
			return Canonical{}, err
		}
		return Canonical{string(b), jcs.Sum(b), string(b), jcs.Sum(b)}, nil
	}
	return Canonical{}, errs.New(errs.Config, opKey, "identity.kind",
		strconv.Quote(kind)+" is none of agent, step, child, external, approval, rand")
}

// agentText is the hashed text of an agent: exactly the members that count,
// the model reduced to what was asked for.
func agentText(members map[string]json.RawMessage, version int) ([]byte, error) {
	for _, name := range []string{"agentType", "modelSpec", "prompt", "schemaHash", "toolsetHash", "isolation"} {
		if members[name] == nil {
			return nil, errs.New(errs.Config, opKey, name, "an agent identity needs this member")
		}
	}
	model, err := modelText(members["modelSpec"], version)
	if err != nil {
		return nil, err
	}
	return objectText(
		raw("agentType", members["agentType"]),
		raw("isolation", members["isolation"]),
		text("kind", "agent"),
		raw("modelSpec", model),
		raw("prompt", members["prompt"]),
		raw("schemaHash", members["schemaHash"]),
		raw("toolsetHash", members["toolsetHash"]),
	)
}

// modelText projects a model onto {"effort"?,"model"} or {"ladder"}. Version 1
// has no effort beside a model; efforts inside a ladder stay.
func modelText(spec json.RawMessage, version int) (json.RawMessage, error) {
	members, err := objectMembers(spec, "modelSpec")
	if err != nil {
		return nil, err
	}
	kind, given := stringMember(members, "kind")
	switch {
	case (kind == "model" || !given && members["kind"] == nil) && members["model"] != nil:
		effort := members["effort"]
		if effort == nil || version == 1 {
			return objectText(raw("model", members["model"]))
		}
		return objectText(raw("effort", effort), raw("model", members["model"]))
	case kind == "ladder" && members["ladder"] != nil:
		return objectText(raw("ladder", members["ladder"]))
	}
	return nil, errs.New(errs.Config, opKey, "modelSpec",
		`want {"kind":"model","model",…} or {"kind":"ladder","ladder":…}`)
}

// objectMembers splits a JSON object. The last of several members of one name
// counts, as in the reference; the values stay text, so that a lone surrogate
// is still there for the canonical form to refuse.
func objectMembers(src json.RawMessage, name string) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(src, &members); err != nil || members == nil {
		return nil, errs.Wrap(errs.Config, opKey, name, "want a JSON object", err)
	}
	return members, nil
}

// stringMember returns a member that is a JSON string.
func stringMember(members map[string]json.RawMessage, name string) (string, bool) {
	v := members[name]
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return "", false
	}
	return s, true
}
