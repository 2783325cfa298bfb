package jsonschema

import (
	"strconv"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// The kinds of a [RefError].
const (
	// KindRemote is a "$ref" that leaves the document.
	KindRemote = "remote-ref"
	// KindRecursive is a "$ref" that leads back to a schema it stands in.
	KindRecursive = "recursive-ref"
	// KindDynamic is a "$dynamicRef", "$dynamicAnchor" or "$recursiveRef".
	KindDynamic = "dynamic-ref"
	// KindUnresolved is a "$ref" to nothing, or to something that is no schema.
	KindUnresolved = "unresolved-ref"
	// KindTooLarge is a schema beyond the bounds of this package.
	KindTooLarge = "too-large"
	// KindPattern is a regular expression that cannot be used.
	KindPattern = "pattern"
	// KindMalformed is a keyword with a value it cannot have.
	KindMalformed = "malformed"
	// KindRebase is an "$id" below the root: from there on, two readers may
	// look for a reference in two places.
	KindRebase = "rebase"
	// KindDialect is a "$schema" that this package does not know.
	KindDialect = "dialect"
)

// RefError says that a schema is refused, and where. It unwraps to an
// [errs.Error] with code [errs.Config], so errors.Is(err, errs.Config) holds.
type RefError struct {
	// Kind is one of the Kind constants.
	Kind string
	// Pointer is the place in the schema as given, as a URI fragment:
	// "#/properties/a". It names the schema that holds the offending keyword.
	Pointer string
	// Ref is the offending text, cut to 200 bytes: the reference, the
	// pattern, or the keyword.
	Ref string
	// Msg says what is wrong and what to do.
	Msg string
}

// Error renders "schema #/properties/a: message".
func (e *RefError) Error() string { return "schema " + e.Pointer + ": " + e.Msg }

// Unwrap returns the same refusal as an [errs.Error] with code [errs.Config].
func (e *RefError) Unwrap() error { return errs.New(errs.Config, "schema", e.Pointer, e.Msg) }

// refuse returns a RefError at the given place.
func refuse(kind string, at *place, ref, msg string) *RefError {
	return &RefError{Kind: kind, Pointer: clip(at.String(), 300), Ref: clip(ref, 200), Msg: msg}
}

// quote returns s in double quotes with everything unprintable escaped (also
// the marks that change the direction of writing), cut to limit runes.
func quote(s string, limit int) string {
	cut := false
	n := 0
	for i := range s {
		if n == limit {
			s, cut = s[:i], true
			break
		}
		n++
	}
	if cut {
		return strconv.Quote(s + "…")
	}
	return strconv.Quote(s)
}

// clip cuts s to at most limit bytes at a rune boundary and marks the cut.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
