package rulvar_test

import (
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// canonicalRules are the rules of rows for schema_canonical.json.
var canonicalRules = map[string]func(*schemaVector) bool{
	"error-order":          (*schemaVector).manyReferences,
	"lone-surrogate":       func(v *schemaVector) bool { return v.unread(jcs.ErrSurrogate) },
	"number-overflow":      func(v *schemaVector) bool { return v.unread(jcs.ErrNonFinite) },
	"proto-member":         (*schemaVector).namesProto,
	"array-index-spelling": (*schemaVector).oddIndex,
	"anchor-order":         (*schemaVector).repeatsAnchor,
	"null-target":          (*schemaVector).leadsNowhere,
	"root-not-a-schema":    (*schemaVector).oddRoot,
}

// walk calls see with every value of a tree and the member name it stands under.
func walk(name string, v any, see func(name string, v any)) {
	see(name, v)
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walk("", e, see)
		}
	case map[string]any:
		for k, e := range v {
			walk(k, e, see)
		}
	}
}

// members returns the values under a name, wherever it stands in the schema.
func (v *schemaVector) members(name string) (values []any) {
	walk("", v.schema, func(n string, value any) {
		if n == name {
			values = append(values, value)
		}
	})
	return values
}

// has reports whether a member of one of the names stands anywhere in the schema.
func (v *schemaVector) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return v.members(name) != nil })
}

// unread: the schema is no text that package jcs reads, for this reason.
func (v *schemaVector) unread(why jcs.Kind) bool {
	_, err := jcs.Parse(spelled(v.Schema, v.SchemaText))
	return v.ours.refusal == notJSON && jcsKind(err) == why
}

// manyReferences: a tree has no order of members, so of several wrong
// references the first by name is reported.
func (v *schemaVector) manyReferences() bool {
	refs := 0
	for _, name := range []string{"$ref", "$dynamicRef", "$dynamicAnchor"} {
		refs += len(v.members(name))
	}
	return refs > 1 && v.ours.refusal != "" && v.theirs.refusal != "" && v.theirs.refusal != "internal"
}

func (v *schemaVector) namesProto() bool {
	return v.has("__proto__") || slices.ContainsFunc(v.members("$ref"), func(ref any) bool {
		text, _ := ref.(string)
		return strings.Contains(text, "__proto__")
	})
}

// oddIndex: an index in a pointer is decimal digits without leading zeros, and
// nothing else.
func (v *schemaVector) oddIndex() bool {
	return v.ours.refusal == jsonschema.KindUnresolved && slices.ContainsFunc(v.members("$ref"), func(ref any) bool {
		text, _ := ref.(string)
		return strings.HasPrefix(text, "#/") && slices.ContainsFunc(strings.Split(text, "/"), func(token string) bool {
			return token == "" || token[0] == '0' && token != "0" || strings.ContainsAny(token, "xXeE.+- \t\n")
		})
	})
}

func (v *schemaVector) repeatsAnchor() bool {
	seen := map[string]bool{}
	return slices.ContainsFunc(v.members("$anchor"), func(anchor any) bool {
		name, ok := anchor.(string)
		again := ok && seen[name]
		seen[name] = true
		return again
	})
}

// leadsNowhere: a reference to null, or to what is no schema.
func (v *schemaVector) leadsNowhere() bool {
	return v.theirs.refusal == "internal" && v.ours.refusal == jsonschema.KindUnresolved
}

func (v *schemaVector) oddRoot() bool {
	switch v.schema.(type) {
	case bool, map[string]any:
		return false
	}
	return v.ours.refusal == jsonschema.KindMalformed && v.theirs.refusal == "internal"
}
