package jsonschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// Numbers are compared as exact decimals by the validator, which reads their
// text. What a number means, however, is its canonical text, the one that is
// hashed, journaled and executed: 9007199254740993 is written ...992 there, and
// 1e-400 is 0. settle puts that text in place of every other, so that both
// sides agree; it also keeps exponents away from the validator, whose exact
// decimals would grow by as many digits.

// plainDigits is the length up to which a number without an exponent can be its
// own canonical text: 15 digits, and a sign or a point.
const plainDigits = 16

// settleNumber returns the canonical text of a number. It is false for a text
// that is no number or out of the range of a float64.
func settleNumber(n json.Number) (json.Number, bool) {
	if isPlain(string(n)) {
		return n, true
	}
	var buf [40]byte
	text, err := jcs.AppendTree(buf[:0], n)
	if err != nil {
		return "", false
	}
	if string(text) == string(n) {
		return n, true
	}
	return json.Number(text), true
}

// isPlain reports whether s surely is a number in canonical text: an integer, or
// a fraction that neither ends with a zero nor is too small to be spelled so.
func isPlain(s string) bool {
	if len(s) == 0 || len(s) > plainDigits {
		return false
	}
	negative := s[0] == '-'
	if negative {
		s = s[1:]
	}
	point, digits := false, 0
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			digits++
		case c == '.' && !point && i > 0:
			point = true
		default:
			return false
		}
	}
	switch {
	case digits == 0, digits == plainDigits:
		return false
	case point:
		return s[len(s)-1] > '0' && (s[0] != '0' || s[1] == '.' && !strings.HasPrefix(s, "0.0000"))
	}
	return s[0] != '0' || len(s) == 1 && !negative
}

// badValue is a part of a value that is not JSON, or out of range.
type badValue struct {
	toks []string // the steps that lead to it, innermost first
	msg  string
}

func (b *badValue) under(tok string) *badValue {
	b.toks = append(b.toks, tok)
	return b
}

// path returns the steps that lead to the part, from the root.
func (b *badValue) path() []string {
	toks := slices.Clone(b.toks)
	slices.Reverse(toks)
	return toks
}

// location returns the place as a URI fragment.
func (b *badValue) location() string { return fragment(b.path()) }

// settle returns v with every number in canonical text, and whether that is
// another value than v.
func settle(v any, depth int) (any, bool, *badValue) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, false, nil
	case json.Number:
		plain, ok := settleNumber(v)
		if !ok {
			return nil, false, &badValue{msg: "the number " + clip(string(v), 40) + " is out of range; send it as a text"}
		}
		return plain, plain != v, nil
	case []any:
		return settleList(v, depth)
	case map[string]any:
		return settleObject(v, depth)
	default:
		return nil, false, &badValue{msg: fmt.Sprintf("a Go value of type %T is not a JSON value", v)}
	}
}

func settleList(list []any, depth int) (any, bool, *badValue) {
	if depth >= jcs.MaxDepth {
		return nil, false, &badValue{msg: "nested too deeply"}
	}
	out, copied := list, false
	for i, e := range list {
		if settled(e) {
			continue
		}
		plain, changed, bad := settle(e, depth+1)
		if bad != nil {
			return nil, false, bad.under(strconv.Itoa(i))
		}
		if changed {
			if !copied {
				out, copied = slices.Clone(list), true
			}
			out[i] = plain
		}
	}
	return out, copied, nil
}

func settleObject(obj map[string]any, depth int) (any, bool, *badValue) {
	if depth >= jcs.MaxDepth {
		return nil, false, &badValue{msg: "nested too deeply"}
	}
	out, copied := obj, false
	var worst *badValue
	for name, e := range obj {
		if settled(e) {
			continue
		}
		plain, changed, bad := settle(e, depth+1)
		if bad != nil {
			// The same member is named on every run: the first by name.
			if worst == nil || name < worst.toks[len(worst.toks)-1] {
				worst = bad.under(name)
			}
			continue
		}
		if changed {
			if !copied {
				out, copied = maps.Clone(obj), true
			}
			out[name] = plain
		}
	}
	if worst != nil {
		return nil, false, worst
	}
	return out, copied, nil
}

// settled reports whether v needs no look: it is a text, a boolean, null or a
// plain number.
func settled(v any) bool {
	switch v := v.(type) {
	case nil, bool, string:
		return true
	case json.Number:
		return isPlain(string(v))
	}
	return false
}
