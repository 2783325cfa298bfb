// Package jcs reads JSON text and writes canonical JSON (RFC 8785, the JSON
// Canonicalization Scheme): the form in which a value has exactly one text, so
// that its hash can stand for it.
//
//	members    sorted by the UTF-16 code units of their names, no blanks
//	strings    raw UTF-8; \" \\ \b \t \n \f \r and \u00xx (lower case) where
//	           JSON demands an escape, nowhere else
//	numbers    as ECMAScript prints a float64: the shortest digits that read
//	           back, plain from 1e-6 up to 1e21, else 1.5e-7, 1e+21; -0 is 0
//
// There are two rules of reading. [Parse], [Append] and [Canonical] read
// foreign text, such as a journal or a schema, and treat it as the reference
// does: of two members with one name the last counts. [ParseStrict] reads
// text that a model wrote and refuses everything that two readers could
// understand differently. Neither accepts a lone surrogate, which has no UTF-8
// and so no canonical form.
//
// A tree, here, is nil, bool, string, [json.Number], []any or map[string]any.
//
// No input makes this package panic or overflow a stack, and every function
// takes time in proportion to its input (times a logarithm for sorting).
// Everything here is pure and may be called from several goroutines.
package jcs

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"unsafe"
)

// MaxDepth is how many arrays and objects may stand inside each other. Deeper
// text or trees are refused with [ErrDepth].
const MaxDepth = 1000

// maxText is the longest text that is read, in bytes; positions are kept in 32
// bits.
const maxText = 1 << 30

// Append appends the canonical form of the JSON text src to dst, under the
// rules of [Parse]. The error is a *[SyntaxError]; dst is then returned with
// its old length. src and the free room of dst must not overlap. With room
// enough in dst nothing is allocated.
func Append(dst, src []byte) ([]byte, error) {
	out, err := appendText(dst, view(src), 0, lenient)
	if err != nil {
		return dst, err.located()
	}
	return out, nil
}

// Canonical returns the canonical form of the JSON text src, as [Append] does,
// in a slice of its own.
func Canonical(src []byte) ([]byte, error) {
	out, err := Append(make([]byte, 0, len(src)), src)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Sum returns the SHA-256 of canonical in lower-case hexadecimal, 64 letters:
// the form of every content hash in the journal. It does not look at what the
// bytes are.
func Sum(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// Hash returns the [Sum] of the canonical form of tree, with the errors of
// [AppendTree].
func Hash(tree any) (string, error) {
	buf := buffers.Get().(*[]byte)
	defer keepBuffer(buf)
	out, err := AppendTree((*buf)[:0], tree)
	if err != nil {
		return "", err
	}
	*buf = out
	return Sum(out), nil
}

// buffers holds room for canonical bytes that are only hashed.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// keepBuffer gives buf back, unless one large value made it so big that
// keeping it would hold memory for nothing.
func keepBuffer(buf *[]byte) {
	if cap(*buf) <= 1<<20 {
		buffers.Put(buf)
	}
}

// view returns the bytes of b as a string without copying them. The string
// must not outlive the call that b was given to, and nothing writes to b
// meanwhile.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
