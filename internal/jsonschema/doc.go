// Package jsonschema is what the library knows about JSON Schema: the canonical
// form that is hashed, the check of a definition, the validation of values,
// defaults, reflection of Go types, and decoding of validated values into Go.
//
// # Trees
//
// Schemas and values are trees of package jcs: nil, bool, string, [json.Number],
// []any and map[string]any. No function here changes a tree that it was given;
// results may share parts with their input, so treat both as read-only.
//
// # What a schema means
//
// Every schema is read as draft 2020-12. A "$schema" of draft 2019-09 or
// draft-07 is understood, and then an array under "items" is the tuple of those
// drafts; keywords beside a "$ref" always apply. References are resolved here,
// in one way, for the hash and for validation alike, and only within the
// document: nothing is ever loaded. A number means its canonical text (package
// jcs), in the schema as in the value.
//
// # The way of a definition and of a value
//
//	definition  Reflect -> Check -> Hash, Compile           refused with *RefError
//	value       FoldConflict -> Validate -> ApplyDefaults -> DecodeInto
//
// FoldConflict comes first because it asks what other readers of the same text
// would see; defaults come after validation because they are known to fit.
//
// # Bounds
//
// No input makes this package panic. What a schema or a value may cost is
// bounded by constants: [MaxCanonicalSize], [MaxSubschemas], [MaxExpanded],
// [MaxDefaults], [MaxIssues], 500 levels of schema and jcs.MaxDepth of value.
// Patterns run in time linear to the text. Nothing is ever read from a network
// or a disk.
package jsonschema
