package jsonschema

import (
	"strconv"
	"strings"
	"unicode"
)

// White space of ECMAScript (\s) and everything else, as members of a class.
const (
	spaceRanges = `\t-\r\x{20}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}`
	otherRanges = `\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}` +
		`\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}`
	anyRange = `\x{0}-\x{10FFFF}`
)

// escape reads what follows a backslash outside a class. It reports whether it
// was an assertion.
func (r *patternReader) escape() (assertion bool, err *patternError) {
	switch c := r.peek(); {
	case c == 'b', c == 'B':
		r.pos++
		r.out.WriteByte('\\')
		r.out.WriteByte(c)
		return true, nil
	case '1' <= c && c <= '9':
		n, _ := r.number()
		r.highest = max(r.highest, n)
		r.lacks("back references are not supported")
		return false, nil
	case c == 'k':
		r.pos++
		if !r.take("<") {
			return false, invalid("\\k needs a group name")
		}
		name, err := r.name()
		r.refs = append(r.refs, name)
		r.lacks("back references are not supported")
		return false, err
	}
	set, char, err := r.classEscape(false)
	if err != nil {
		return false, err
	}
	if set != "" {
		r.out.WriteString("[" + set + "]")
	} else {
		writeRune(&r.out, char)
	}
	return false, nil
}

// class reads a class after its opening bracket.
func (r *patternReader) class() *patternError {
	negated := r.take("^")
	var members strings.Builder
	for !r.take("]") {
		if !r.more() {
			return invalid("a [ is not closed")
		}
		set, low, err := r.classAtom()
		if err != nil {
			return err
		}
		if r.peek() != '-' || strings.HasPrefix(r.src[r.pos:], "-]") || r.pos+1 == len(r.src) {
			if set == "" {
				writeRune(&members, low)
			}
			members.WriteString(set)
			continue
		}
		r.pos++
		second, high, err := r.classAtom()
		if err != nil {
			return err
		}
		if set != "" || second != "" {
			return invalid("a class such as \\w cannot be the end of a range; write the - last")
		}
		if high < low {
			return invalid("a range runs backwards")
		}
		writeRune(&members, low)
		members.WriteByte('-')
		writeRune(&members, high)
	}
	switch {
	case members.Len() > 0 && negated:
		r.out.WriteString("[^" + members.String() + "]")
	case members.Len() > 0:
		r.out.WriteString("[" + members.String() + "]")
	case negated:
		r.out.WriteString("[" + anyRange + "]")
	default:
		r.out.WriteString("[^" + anyRange + "]")
	}
	return nil
}

// classAtom reads one member of a class: a set in RE2 spelling, or a character.
func (r *patternReader) classAtom() (set string, char rune, err *patternError) {
	if !r.take("\\") {
		return "", r.rune(), nil
	}
	switch {
	case r.take("b"):
		return "", '\b', nil
	case r.take("-"):
		return "", '-', nil
	}
	return r.classEscape(true)
}

// classEscape reads an escape that may stand inside and outside a class.
func (r *patternReader) classEscape(inside bool) (set string, char rune, err *patternError) {
	if !r.more() {
		return "", 0, invalid("a \\ ends the pattern")
	}
	switch c := r.rune(); c {
	case 'd', 'D', 'w', 'W':
		return `\` + string(c), 0, nil
	case 's':
		return spaceRanges, 0, nil
	case 'S':
		return otherRanges, 0, nil
	case 'p', 'P':
		set, err := r.property(byte(c))
		return set, 0, err
	case 't':
		return "", '\t', nil
	case 'n':
		return "", '\n', nil
	case 'v':
		return "", '\v', nil
	case 'f':
		return "", '\f', nil
	case 'r':
		return "", '\r', nil
	case '0':
		if next := r.peek(); '0' <= next && next <= '9' {
			return "", 0, invalid("octal escapes are not allowed")
		}
		return "", 0, nil
	case 'c':
		next := r.peek()
		if !isAlnum(next) || next <= '9' {
			return "", 0, invalid("\\c needs a letter")
		}
		r.pos++
		return "", rune(next & 31), nil
	case 'x':
		n, ok := r.hex(2)
		if !ok {
			return "", 0, invalid("\\x needs two hexadecimal digits")
		}
		return "", n, nil
	case 'u':
		return r.unicodeEscape()
	default:
		if strings.ContainsRune(`^$\.*+?()[]{}|/`, c) {
			return "", c, nil
		}
		hint := ""
		if c == '-' && !inside {
			hint = "; a - needs no escape there"
		}
		return "", 0, invalid("\\%s is no escape of ECMAScript with the flag u%s", quoteRune(c), hint)
	}
}

func quoteRune(c rune) string {
	s := strconv.QuoteRune(c)
	return s[1 : len(s)-1]
}

// hex reads exactly n hexadecimal digits.
func (r *patternReader) hex(n int) (rune, bool) {
	if r.pos+n > len(r.src) {
		return 0, false
	}
	v, err := strconv.ParseUint(r.src[r.pos:r.pos+n], 16, 32)
	if err != nil {
		return 0, false
	}
	r.pos += n
	return rune(v), true
}

// unicodeEscape reads the rest of \uhhhh, \uhhhh\uhhhh (a surrogate pair) or
// \u{h...}.
func (r *patternReader) unicodeEscape() (set string, char rune, err *patternError) {
	if r.take("{") {
		end := strings.IndexByte(r.src[r.pos:], '}')
		if end < 1 {
			return "", 0, invalid("\\u{ needs hexadecimal digits and a }")
		}
		n, perr := strconv.ParseUint(r.src[r.pos:r.pos+end], 16, 64)
		if perr != nil || n > unicode.MaxRune {
			return "", 0, invalid("\\u{%s} is no character", quoteText(r.src[r.pos:r.pos+end]))
		}
		r.pos += end + 1
		return r.surrogate(rune(n))
	}
	high, ok := r.hex(4)
	if !ok {
		return "", 0, invalid("\\u needs four hexadecimal digits")
	}
	if 0xD800 <= high && high < 0xDC00 {
		mark := r.pos
		if r.take(`\u`) {
			if low, ok := r.hex(4); ok && 0xDC00 <= low && low < 0xE000 {
				return "", (high-0xD800)<<10 + (low - 0xDC00) + 0x10000, nil
			}
		}
		r.pos = mark
	}
	return r.surrogate(high)
}

// surrogate refuses half of a surrogate pair: no text here can hold one.
func (r *patternReader) surrogate(c rune) (string, rune, *patternError) {
	if 0xD800 <= c && c < 0xE000 {
		r.lacks("lone surrogates are not supported")
		return "", ' ', nil
	}
	return "", c, nil
}

func quoteText(s string) string {
	q := strconv.Quote(clip(s, 20))
	return q[1 : len(q)-1]
}

// property reads {name} or {name=value} after \p or \P.
func (r *patternReader) property(letter byte) (string, *patternError) {
	end := strings.IndexByte(r.src[r.pos:], '}')
	if !r.take("{") || end < 2 {
		return "", invalid("\\%c needs a property in braces", letter)
	}
	text := r.src[r.pos : r.pos+end-1]
	r.pos += end
	name, value, pair := strings.Cut(text, "=")
	found := ""
	switch {
	case pair && (name == "General_Category" || name == "gc"):
		found = category(value)
	case pair && (name == "Script" || name == "sc"):
		if _, ok := unicode.Scripts[value]; ok {
			found = value
		}
	case pair:
	case name == "Any" || name == "ASCII" || name == "Assigned":
		found = name
	default:
		found = category(name)
	}
	if found == "" || found == "Cs" {
		// The short names of scripts and most binary properties exist in
		// ECMAScript too; whether this is one of them is not worth a table.
		r.lacks("the property %s is not supported", clip(quoteText(text), 60))
		return `\d`, nil
	}
	return `\` + string(letter) + "{" + found + "}", nil
}

// category returns the short name of a general category.
func category(name string) string {
	if short, ok := unicode.CategoryAliases[name]; ok {
		return short
	}
	if _, ok := unicode.Categories[name]; ok {
		return name
	}
	return ""
}
