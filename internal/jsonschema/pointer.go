package jsonschema

import (
	"strconv"
	"strings"
)

// place is a location in a tree as a list from the leaf to the root; nil is the
// root. Text is made of it only where an error needs it.
type place struct {
	up  *place
	tok string
}

// under returns the place of the member or element tok.
func (p *place) under(tok string) *place { return &place{up: p, tok: tok} }

// at returns the place of the element i.
func (p *place) at(i int) *place { return &place{up: p, tok: strconv.Itoa(i)} }

// String returns the place as a URI fragment, "#/a/0".
func (p *place) String() string {
	var toks []string
	for ; p != nil; p = p.up {
		toks = append(toks, p.tok)
	}
	dst := []byte{'#'}
	for i := len(toks) - 1; i >= 0; i-- {
		dst = appendToken(dst, toks[i])
	}
	return string(dst)
}

// appendToken appends "/" and one step of a pointer in its URI form: "~" and
// "/" as RFC 6901 has them, and then everything percent-encoded that a URI
// cannot hold. "#" stays, as it does in encodeURI of ECMAScript, whose output
// the locations have to equal.
func appendToken(dst []byte, tok string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '/')
	for i := range len(tok) {
		switch c := tok[i]; {
		case c == '~':
			dst = append(dst, "~0"...)
		case c == '/':
			dst = append(dst, "~1"...)
		case isAlnum(c), strings.IndexByte(";,?:@&=+$-_.!*'()#", c) >= 0:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

// fragment returns the steps as one URI fragment.
func fragment(toks []string) string {
	dst := make([]byte, 0, 32)
	dst = append(dst, '#')
	for _, t := range toks {
		dst = appendToken(dst, t)
	}
	return string(dst)
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// unescaper reads one step of a pointer in a reference. Percent escapes stay
// as they are, and a stray "~" does too: that is how the hash has always read
// them.
var unescaper = strings.NewReplacer("~0", "~", "~1", "/")
