package jsonschema

import (
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/message"
)

// The validator's own propertyNames reports its errors with a location that is
// overwritten later, when the same array is reused for a sibling. So a plan
// spells the keyword "rulvar-propertyNames", and this vocabulary does its work:
// every name of an object has to fit the schema that the keyword refers to.
var namesVocabulary = &jsonschema.Vocabulary{
	URL:     "urn:rulvar:names",
	Compile: compileNames,
}

func compileNames(ctx *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
	ref, ok := obj[namesWord].(string)
	if !ok {
		return nil, nil
	}
	schema, err := ctx.EnqueueRef(ref)
	if err != nil {
		return nil, err
	}
	return namesCheck{schema}, nil
}

type namesCheck struct{ schema *jsonschema.Schema }

// Validate reports each member whose name does not fit.
func (c namesCheck) Validate(ctx *jsonschema.ValidatorContext, v any) {
	obj, ok := v.(map[string]any)
	if !ok {
		return
	}
	for name := range obj {
		err := c.schema.Validate(name)
		if err == nil {
			continue
		}
		bad := badName{name: name}
		errors.As(err, &bad.why)
		ctx.AddError(&bad)
	}
}

// badName is the failure of one name.
type badName struct {
	name string
	why  *jsonschema.ValidationError
}

// KeywordPath names the keyword.
func (*badName) KeywordPath() []string { return []string{"propertyNames"} }

// LocalizedString is never shown; issues have their own words.
func (*badName) LocalizedString(*message.Printer) string { return "invalid property name" }
