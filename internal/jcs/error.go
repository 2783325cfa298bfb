package jcs

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind says why a text or a value was refused. A Kind is itself an error, so
// errors.Is(err, ErrDuplicate) asks for it.
type Kind string

// Error returns the kind in words.
func (k Kind) Error() string { return string(k) }

// The kinds of a [SyntaxError].
const (
	// ErrSyntax is text that is not one JSON value.
	ErrSyntax Kind = "not JSON"
	// ErrUTF8 is text or a string that is not valid UTF-8.
	ErrUTF8 Kind = "not valid UTF-8"
	// ErrSurrogate is an escape for half of a surrogate pair.
	ErrSurrogate Kind = "lone surrogate"
	// ErrNonFinite is a number that no float64 reaches, or a NaN.
	ErrNonFinite Kind = "number out of range"
	// ErrDuplicate is a second member with the same name.
	ErrDuplicate Kind = "duplicate member name"
	// ErrInexact is an integer that would be written as another number.
	ErrInexact Kind = "integer changes as a float64"
	// ErrDepth is nesting beyond [MaxDepth].
	ErrDepth Kind = "nested too deeply"
	// ErrType is a Go value that is not part of a tree.
	ErrType Kind = "not a JSON value"
)

// SyntaxError is the error of every refusal in this package.
type SyntaxError struct {
	// Offset is the place in the text, in bytes from its start; -1 where a
	// Go value and no text was read.
	Offset int
	// Path is the JSON pointer (RFC 6901) of the value: "" for the whole,
	// "/tools/0/name". For a duplicate it names the member that came twice.
	Path string
	// Msg says what is wrong and, where it can, what to do.
	Msg string
	// Kind is one of the Err constants.
	Kind Kind

	// segments are the steps of Path, innermost first, while the error
	// travels up to the value that was asked for.
	segments []string
}

// Error returns the message and the place. A very long path is cut in the
// middle, since the text may go to a model or into a log.
func (e *SyntaxError) Error() string {
	var place []string
	if e.Path != "" {
		place = append(place, "at "+clip(e.Path, 200))
	}
	if e.Offset >= 0 {
		place = append(place, "byte "+strconv.Itoa(e.Offset))
	}
	if len(place) == 0 {
		return e.Msg
	}
	return e.Msg + " (" + strings.Join(place, ", ") + ")"
}

// Unwrap returns the kind.
func (e *SyntaxError) Unwrap() error { return e.Kind }

// refuse returns an error at the given place of the text.
func refuse(kind Kind, offset int, format string, args ...any) *SyntaxError {
	return &SyntaxError{Offset: offset, Msg: fmt.Sprintf(format, args...), Kind: kind}
}

// under records that the failing value stood under the member or element
// named by segment. Segments are only collected here and joined once, so that
// a deep path costs no more than its length.
func (e *SyntaxError) under(segment string) *SyntaxError {
	e.segments = append(e.segments, strings.Clone(segment))
	return e
}

// located joins the collected segments into Path. It is called once, where the
// error leaves the package.
func (e *SyntaxError) located() *SyntaxError {
	var b strings.Builder
	for i := len(e.segments) - 1; i >= 0; i-- {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(e.segments[i]))
	}
	e.Path, e.segments = b.String(), nil
	return e
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// clip returns s, or its two ends where it is longer than limit bytes, cut at
// rune boundaries.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head, tail := limit/2, len(s)-limit/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + "…" + s[tail:]
}
