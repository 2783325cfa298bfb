package jsonschema

import (
	"cmp"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	// MaxIssues is how many issues are reported at most.
	MaxIssues = 16
	// maxLocation is the longest location of an issue, in bytes.
	maxLocation = 300
)

// Issue is one thing that is wrong with a value.
type Issue struct {
	// Location is the place in the value as a URI fragment, "#/a/0". A very
	// long one is cut.
	Location string
	// Keyword is the word of the schema that is not met: "type", "required".
	// It is "false" where nothing at all is allowed at the place, and "" where
	// the value is not JSON or a number out of range.
	Keyword string
	// Message says what is wrong, in words for a model. Names and values from
	// the schema or the value are quoted, escaped and cut.
	Message string
}

// failure is one finding of the validator, before it is put into words.
type failure struct {
	toks    []string
	keyword string
	message string
}

// issues puts a failed validation into words.
func issues(err *jsonschema.ValidationError) []Issue {
	found := failures(err)
	all := make([]Issue, len(found))
	for i, f := range found {
		all[i] = Issue{clip(fragment(f.toks), maxLocation), f.keyword, f.message}
	}
	slices.SortFunc(all, func(a, b Issue) int {
		return cmp.Or(cmp.Compare(a.Location, b.Location), cmp.Compare(a.Keyword, b.Keyword), cmp.Compare(a.Message, b.Message))
	})
	all = slices.Compact(all)
	return all[:min(len(all), MaxIssues):min(len(all), MaxIssues)]
}

// locations returns the places of the findings and all that they stand in.
func locations(found []failure) []string {
	set := map[string]bool{}
	for _, f := range found {
		for n := range len(f.toks) + 1 {
			set[fragment(f.toks[:n])] = true
		}
	}
	return sortedKeys(set)
}

func failures(err *jsonschema.ValidationError) []failure {
	var all []failure
	collect(err, &all)
	return all
}

// collect walks the tree of errors, in which a group has no meaning of its own
// and alternatives are reported together with why each of them failed.
func collect(err *jsonschema.ValidationError, all *[]failure) {
	here := func(keyword, message string, more ...string) {
		*all = append(*all, failure{slices.Concat(err.InstanceLocation, more), keyword, message})
	}
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			here("required", "the member "+quote(name, maxQuoted)+" is missing")
		}
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			here("dependentRequired", needed(k.Prop, name))
		}
	case *kind.Dependency:
		for _, name := range k.Missing {
			here("dependencies", needed(k.Prop, name))
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			here("additionalProperties", "this member is not allowed", name)
		}
	case *badName:
		here("propertyNames", "the member name is not allowed: "+why(k.why), k.name)
	case *kind.FalseSchema:
		here("false", "nothing is allowed here")
	case *kind.AnyOf:
		here("anyOf", "fits none of the alternatives")
		each(err.Causes, all)
	case *kind.OneOf:
		here("oneOf", oneOf(k))
		each(err.Causes, all)
	case *kind.Contains, *kind.MinContains:
		here(keyword(err.ErrorKind), sentence(err.ErrorKind)) // which elements do not count is no help
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		each(err.Causes, all)
	case nil: // inside "not" and "if" errors are only counted
	default:
		here(keyword(k), sentence(k))
		each(err.Causes, all)
	}
}

func each(causes []*jsonschema.ValidationError, all *[]failure) {
	for _, cause := range causes {
		collect(cause, all)
	}
}

// keyword returns the word of the schema that a kind stands for.
func keyword(k jsonschema.ErrorKind) string {
	switch k.(type) {
	case *kind.Not:
		return "not"
	case *kind.RefCycle:
		return "$ref"
	}
	if path := k.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	return ""
}

// why returns the first reason why a name does not fit.
func why(err *jsonschema.ValidationError) string {
	if err == nil {
		return "it does not fit"
	}
	if list := issues(err); len(list) > 0 {
		return list[0].Message
	}
	return "it does not fit"
}
