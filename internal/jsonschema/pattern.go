package jsonschema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxPattern is the longest pattern, in bytes.
	maxPattern = 10_000
	// maxRepeat is the largest count of a quantifier.
	maxRepeat = 1000
	// maxGroups is how many groups may stand inside each other.
	maxGroups = 100
)

// pattern is a compiled regular expression of a schema: the ECMAScript source
// and the RE2 program that matches the same texts.
type pattern struct {
	re     *regexp.Regexp
	source string
}

// MatchString reports whether the pattern matches anywhere in s.
func (p *pattern) MatchString(s string) bool { return p.re.MatchString(s) }

// String returns the source.
func (p *pattern) String() string { return p.source }

// patternError says why a pattern cannot be used. One that is valid ECMAScript
// and only beyond RE2 is unsupported.
type patternError struct {
	msg         string
	unsupported bool
}

func (e *patternError) Error() string { return e.msg }

func invalid(format string, args ...any) *patternError {
	return &patternError{msg: fmt.Sprintf(format, args...)}
}

func beyond(format string, args ...any) *patternError {
	return &patternError{msg: fmt.Sprintf(format, args...), unsupported: true}
}

// compilePattern translates an ECMAScript regular expression (flag u, as JSON
// Schema has it) into RE2, which matches in time linear to the text. The
// translation is exact or it is an error:
//
//	.  ^  $          not a line terminator (four of them), start, end of text
//	\d \w \b         ASCII, in both
//	\s \S            the white space of ECMAScript
//	\cA \xhh \uhhhh \u{h} \0 \t \n \v \f \r    characters
//	\/ \. \( ...     the syntax characters; in a class also \- and \b
//	\p{L} \p{Script=Greek} ...                 categories and scripts
//	[]  [^]          nothing, anything
//	(...) (?<n>...)  groups; what they capture is of no use here
//
// Refused as beyond RE2: look-around, back references, other properties, lone
// surrogates, counts above 1000. Refused because the flag u refuses them: all
// other escapes (\- outside a class, \A, \_), lone brackets, and a class such
// as \w at the end of a range.
func compilePattern(source string) (*pattern, *patternError) {
	if len(source) > maxPattern {
		return nil, beyond("longer than %d bytes", maxPattern)
	}
	if !utf8.ValidString(source) {
		return nil, invalid("not valid UTF-8")
	}
	r := patternReader{src: source, names: map[string]bool{}}
	if err := r.read(); err != nil {
		return nil, err
	}
	if r.unsupported != nil {
		return nil, r.unsupported
	}
	re, err := regexp.Compile(r.out.String())
	if err != nil {
		return nil, beyond("too large a program, or repetitions multiply beyond %d", maxRepeat)
	}
	return &pattern{re: re, source: source}, nil
}

// validPattern reports whether source is a regular expression of ECMAScript,
// also one that compilePattern cannot translate.
func validPattern(source string) error {
	if _, err := compilePattern(source); err != nil && !err.unsupported {
		return err
	}
	return nil
}

// patternReader reads a pattern from left to right and writes RE2.
type patternReader struct {
	src string
	pos int
	out strings.Builder

	groups      int             // capturing groups so far
	names       map[string]bool // of groups
	open        []bool          // the groups that are open; true: look-around
	refs        []string        // names of back references
	highest     int             // largest number of a back reference
	unsupported *patternError   // the first thing that RE2 cannot do
}

// lacks notes something valid that RE2 cannot do, and reads on: the rest of the
// pattern decides whether it is valid at all.
func (r *patternReader) lacks(format string, args ...any) {
	if r.unsupported == nil {
		r.unsupported = beyond(format, args...)
	}
}

func (r *patternReader) more() bool { return r.pos < len(r.src) }

// peek returns the next byte, or 0 at the end.
func (r *patternReader) peek() byte {
	if r.more() {
		return r.src[r.pos]
	}
	return 0
}

// take reads the text s if it comes next.
func (r *patternReader) take(s string) bool {
	if strings.HasPrefix(r.src[r.pos:], s) {
		r.pos += len(s)
		return true
	}
	return false
}

func (r *patternReader) rune() rune {
	c, n := utf8.DecodeRuneInString(r.src[r.pos:])
	r.pos += n
	return c
}

func (r *patternReader) read() *patternError {
	for r.more() {
		if err := r.term(); err != nil {
			return err
		}
	}
	if len(r.open) > 0 {
		return invalid("a group is not closed")
	}
	for _, name := range r.refs {
		if !r.names[name] {
			return invalid("\\k<%s> names no group", clip(name, 40))
		}
	}
	if r.highest > r.groups {
		return invalid("\\%d refers to no group", r.highest)
	}
	return nil
}

// term reads one term with its quantifier, or a bar or a bracket of a group.
func (r *patternReader) term() *patternError {
	switch c := r.rune(); c {
	case '|':
		r.out.WriteByte('|')
		return nil
	case '(':
		return r.group()
	case ')':
		if len(r.open) == 0 {
			return invalid("a ) closes nothing")
		}
		around := r.open[len(r.open)-1]
		r.open = r.open[:len(r.open)-1]
		r.out.WriteByte(')')
		if around {
			return r.noQuantifier()
		}
		return r.quantifier()
	case '^':
		r.out.WriteString(`\A`)
		return r.noQuantifier()
	case '$':
		r.out.WriteString(`\z`)
		return r.noQuantifier()
	case '.':
		r.out.WriteString(`[^\n\r\x{2028}\x{2029}]`)
	case '[':
		if err := r.class(); err != nil {
			return err
		}
	case '\\':
		assertion, err := r.escape()
		if err != nil {
			return err
		}
		if assertion {
			return r.noQuantifier()
		}
	case '*', '+', '?', '{':
		return invalid("%c has nothing to repeat", c)
	case '}', ']':
		return invalid("a lone %c has to be written \\%c", c, c)
	default:
		writeRune(&r.out, c)
	}
	return r.quantifier()
}

// group reads what follows an opening bracket.
func (r *patternReader) group() *patternError {
	around := false
	switch {
	case r.take("?:"):
	case r.take("?="), r.take("?!"), r.take("?<="), r.take("?<!"):
		around = true
		r.lacks("look-around is not supported")
	case r.take("?<"):
		name, err := r.name()
		if err != nil {
			return err
		}
		if r.names[name] {
			return invalid("two groups are named %s", clip(name, 40))
		}
		r.names[name] = true
		r.groups++
	case r.peek() == '?':
		return invalid("(? starts no group that is known")
	default:
		r.groups++
	}
	if len(r.open) >= maxGroups {
		return beyond("more than %d groups inside each other", maxGroups)
	}
	r.open = append(r.open, around)
	r.out.WriteString("(?:")
	return nil
}

// name reads the rest of a group name.
func (r *patternReader) name() (string, *patternError) {
	end := strings.IndexByte(r.src[r.pos:], '>')
	if end <= 0 {
		return "", invalid("a group name is not closed")
	}
	name := r.src[r.pos : r.pos+end]
	for i, c := range name {
		if !(c == '_' || c == '$' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			if c < utf8.RuneSelf && c != '\\' {
				return "", invalid("%q is no group name", clip(name, 40))
			}
			r.lacks("group names in other letters than a-z are not supported")
		}
	}
	r.pos += end + 1
	return name, nil
}

func (r *patternReader) noQuantifier() *patternError {
	switch c := r.peek(); c {
	case '*', '+', '?', '{':
		return invalid("%c follows an assertion, which cannot be repeated", c)
	}
	return nil
}

// quantifier reads a quantifier if one comes next.
func (r *patternReader) quantifier() *patternError {
	switch c := r.peek(); c {
	case '*', '+', '?':
		r.pos++
		r.out.WriteByte(c)
	case '{':
		r.pos++
		if err := r.counts(); err != nil {
			return err
		}
	default:
		return nil
	}
	if r.take("?") {
		r.out.WriteByte('?')
	}
	switch c := r.peek(); c {
	case '*', '+', '?', '{':
		return invalid("%c has nothing to repeat", c)
	}
	return nil
}

// counts reads "n}", "n,}" or "n,m}".
func (r *patternReader) counts() *patternError {
	low, ok := r.number()
	high := low
	most := true
	if ok && r.take(",") {
		if high, most = r.number(); !most {
			high = low
		}
	}
	if !ok || !r.take("}") {
		return invalid("{ starts no count; a literal one is written \\{")
	}
	if high < low {
		return invalid("a count runs from %d down to %d", low, high)
	}
	if high > maxRepeat {
		r.lacks("a count above %d is not supported", maxRepeat)
		return nil
	}
	fmt.Fprintf(&r.out, "{%d", low)
	if !most {
		r.out.WriteByte(',')
	} else if high != low {
		fmt.Fprintf(&r.out, ",%d", high)
	}
	r.out.WriteByte('}')
	return nil
}

// number reads decimal digits; anything huge comes out as a huge number.
func (r *patternReader) number() (int, bool) {
	start := r.pos
	for c := r.peek(); '0' <= c && c <= '9'; c = r.peek() {
		r.pos++
	}
	n, err := strconv.ParseInt(r.src[start:r.pos], 10, 32)
	if err != nil && r.pos > start {
		n = 1<<31 - 1
	}
	return int(n), r.pos > start
}

// writeRune writes a character that stands for itself, inside or outside a
// class.
func writeRune(out *strings.Builder, c rune) {
	if c == '_' || c < utf8.RuneSelf && isAlnum(byte(c)) {
		out.WriteRune(c)
		return
	}
	fmt.Fprintf(out, `\x{%X}`, c)
}
