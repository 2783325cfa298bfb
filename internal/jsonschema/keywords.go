package jsonschema

// role is what the canonical form does with a keyword's value.
type role uint8

const (
	roleCopy   role = iota // also every unknown keyword
	roleDrop               // says nothing about validity, or was inlined
	roleSchema             // a schema
	roleMap                // an object of schemas
	roleList               // an array of schemas
)

// canonicalRoles is part of the hash: a keyword that moves to another role
// changes the hash of every schema that uses it.
var canonicalRoles = map[string]role{
	"title": roleDrop, "description": roleDrop, "default": roleDrop,
	"deprecated": roleDrop, "readOnly": roleDrop, "writeOnly": roleDrop,
	"examples": roleDrop, "$comment": roleDrop,
	"$defs": roleDrop, "definitions": roleDrop, "$anchor": roleDrop,

	"additionalProperties": roleSchema, "items": roleSchema,
	"contains": roleSchema, "not": roleSchema, "if": roleSchema,
	"then": roleSchema, "else": roleSchema, "propertyNames": roleSchema,
	"unevaluatedItems": roleSchema, "unevaluatedProperties": roleSchema,
	"contentSchema": roleSchema,

	"properties": roleMap, "patternProperties": roleMap, "dependentSchemas": roleMap,

	"allOf": roleList, "anyOf": roleList, "oneOf": roleList, "prefixItems": roleList,
}

// planner writes one keyword into the plan of a schema, or refuses its value.
// Keywords that have none are left out of the plan: annotations, and words that
// this package does not know.
type planner func(p *plan, out map[string]any, word string, v any, at *place, depth int) error

// planners names every keyword that takes part in validation.
var planners map[string]planner

func init() { // the planners refer to each other
	planners = map[string]planner{
		"type": planType, "enum": planEnum, "const": planValue, "default": planValue,

		"multipleOf": planDivisor, "minimum": planNumber, "maximum": planNumber,
		"exclusiveMinimum": planNumber, "exclusiveMaximum": planNumber,

		"minLength": planCount, "maxLength": planCount,
		"minItems": planCount, "maxItems": planCount,
		"minProperties": planCount, "maxProperties": planCount,
		"minContains": planCount, "maxContains": planCount,
		"uniqueItems": planBool,

		"pattern": planPattern, "format": planFormat,

		"required": planNames, "dependentRequired": planDependentNames,
		"dependencies": planDependencies,

		"items": planItems, "prefixItems": planList, "additionalItems": planAdditionalItems,
		"contains": planSchema, "unevaluatedItems": planSchema,

		"properties": planMap, "patternProperties": planPatternMap,
		"additionalProperties": planSchema, "propertyNames": planPropertyNames,
		"unevaluatedProperties": planSchema, "dependentSchemas": planMap,

		"allOf": planList, "anyOf": planList, "oneOf": planList,
		"not": planSchema, "if": planSchema, "then": planSchema, "else": planSchema,
	}
}
