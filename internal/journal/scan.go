package journal

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// maxDepth bounds the nesting of a value, as encoding/json does.
const maxDepth = 10000

// maxSafe is the largest integer that the format's numbers hold exactly.
const maxSafe = 1<<53 - 1

// scanner walks JSON text once, checking its grammar. It decodes nothing but
// what it is asked for, so a payload costs one look at each byte. Bytes above
// 0x7f are taken as they come: whoever scans checks the encoding of the text,
// once, if there are any.
type scanner struct {
	b    []byte
	i    int
	fail *scanError
	// high has its highs set if a string may hold bytes above 0x7f. Outside of
	// strings the grammar has none.
	high uint64
	// breaks is set if line breaks stand between the tokens.
	breaks bool
}

// badUTF8 is [badUTF8] for a text that was scanned to its end.
func (s *scanner) badUTF8() int {
	if s.high&highs == 0 {
		return -1
	}
	return badUTF8(s.b)
}

// scanError says where a text stops being what it should.
type scanError struct {
	off   int
	msg   string
	short bool // the text is a proper beginning: only its end is missing
}

// stop records the first failure, here; it returns false for its callers to
// return.
func (s *scanner) stop(msg string) bool {
	if s.fail == nil {
		short := s.i >= len(s.b)
		if short {
			msg = "the text ends before the value does"
		}
		s.fail = &scanError{off: min(s.i, len(s.b)), msg: msg, short: short}
	}
	return false
}

// stopAt is stop for a failure that is one wherever the text ends.
func (s *scanner) stopAt(off int, msg string) bool {
	if s.fail == nil {
		s.fail = &scanError{off: off, msg: msg}
	}
	return false
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t':
			s.i++
		case '\r', '\n':
			s.i++
			s.breaks = true
		default:
			return
		}
	}
}

// byte passes over c.
func (s *scanner) byte(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return s.stop("expected " + string(rune(c)))
}

// at reports whether the next byte is c.
func (s *scanner) at(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has a high set if one of the eight bytes is a quote, a backslash, a
// control character or above 0x7f.
func special(w uint64) uint64 {
	return w | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones) | (w - ones*0x20)
}

// str passes over a string and returns what stands between its quotes.
// Plain text is looked at 32 bytes together, then eight until one of them is a
// quote, a backslash or a control character.
func (s *scanner) str() (body []byte, escaped, ok bool) {
	if !s.byte('"') {
		return nil, false, false
	}
	start, b, i, high := s.i, s.b, s.i, s.high
	for i+32 <= len(b) {
		p := (*[32]byte)(b[i:])
		if (special(binary.LittleEndian.Uint64(p[:8]))|special(binary.LittleEndian.Uint64(p[8:16]))|
			special(binary.LittleEndian.Uint64(p[16:24]))|special(binary.LittleEndian.Uint64(p[24:])))&highs != 0 {
			break
		}
		i += 32
	}
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			high |= w // also of the bytes behind the string: a false alarm costs a look
			q, e := w^(ones*'"'), w^(ones*'\\')
			m := ((q-ones)&^q | (e-ones)&^e | (w-ones*0x20)&^w) & highs
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			s.i = i
			return nil, false, s.stop("unterminated string")
		}
		high |= uint64(b[i])
		switch c := b[i]; {
		case c == '"':
			s.i, s.high = i+1, high
			return b[start:i:i], escaped, true
		case c == '\\':
			escaped = true
			s.i = i
			if !s.escape() {
				return nil, false, false
			}
			i = s.i
		case c < 0x20:
			return nil, false, s.stopAt(i, "a control character stands bare in a string")
		default:
			i++
		}
	}
}

// escape passes over one escape.
func (s *scanner) escape() bool {
	s.i++
	if s.i >= len(s.b) {
		return s.stop("")
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return true
	case 'u':
		s.i++
		for range 4 {
			if s.i >= len(s.b) || hexDigit(s.b[s.i]) < 0 {
				return s.stop("bad \\u escape")
			}
			s.i++
		}
		return true
	}
	return s.stop("bad escape")
}

func hexDigit(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}

// unescape decodes the body of a string that str passed. A lone surrogate has
// no place in a Go string: it is refused, because two different texts would
// become one.
func unescape(body []byte) (string, bool) {
	out := make([]byte, 0, len(body))
	for i := 0; i < len(body); {
		c := body[i]
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		c = body[i+1]
		i += 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := hex4(body[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				if i+6 > len(body) || body[i] != '\\' || body[i+1] != 'u' {
					return "", false
				}
				if r = utf16.DecodeRune(r, hex4(body[i+2:])); r == utf8.RuneError {
					return "", false
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		out = append(out, c)
	}
	return string(out), true
}

func hex4(b []byte) rune {
	return hexDigit(b[0])<<12 | hexDigit(b[1])<<8 | hexDigit(b[2])<<4 | hexDigit(b[3])
}

// text passes over a string and decodes it. The string shares memory with the
// text where nothing in it is escaped.
func (s *scanner) text() (string, bool) {
	start := s.i
	body, escaped, ok := s.str()
	if !ok || !escaped {
		return unsafe.String(unsafe.SliceData(body), len(body)), ok
	}
	t, ok := unescape(body)
	if !ok {
		return "", s.stopAt(start, "a lone surrogate stands in a name or an envelope string")
	}
	return t, true
}

// integer passes over a whole number from 0 to maxSafe.
func (s *scanner) integer() (int64, bool) {
	start := s.i
	var v int64
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		if v = v*10 + int64(s.b[s.i]-'0'); v > maxSafe {
			return 0, s.stopAt(start, "the number is beyond 2^53-1")
		}
		s.i++
	}
	switch {
	case s.i == start:
		return 0, s.stop("expected a whole number that is not negative")
	case s.i-start > 1 && s.b[start] == '0':
		return 0, s.stopAt(start, "a number begins with 0")
	case s.at('.') || s.at('e') || s.at('E'):
		return 0, s.stop("expected a whole number without fraction or exponent")
	}
	return v, true
}

// number passes over any JSON number.
func (s *scanner) number() bool {
	if s.at('-') {
		s.i++
	}
	if s.at('0') {
		s.i++
	} else if !s.digits() {
		return false
	}
	if s.at('.') {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if s.at('e') || s.at('E') {
		s.i++
		if s.at('+') || s.at('-') {
			s.i++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	if s.i == start {
		return s.stop("expected a digit")
	}
	return true
}

// word passes over a literal word.
func (s *scanner) word(w string) bool {
	for j := range len(w) {
		if s.i >= len(s.b) || s.b[s.i] != w[j] {
			return s.stop("expected " + w)
		}
		s.i++
	}
	return true
}

// value passes over any value.
func (s *scanner) value(depth int) bool {
	if depth > maxDepth {
		return s.stopAt(s.i, "values are nested too deep")
	}
	if s.i >= len(s.b) {
		return s.stop("")
	}
	switch c := s.b[s.i]; c {
	case '"':
		_, _, ok := s.str()
		return ok
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		if c == '-' || c-'0' <= 9 {
			return s.number()
		}
		return s.stop("expected a value")
	}
}

func (s *scanner) object(depth int) bool {
	s.i++
	s.space()
	if s.at('}') {
		s.i++
		return true
	}
	for {
		if _, _, ok := s.str(); !ok || !s.colon() || !s.value(depth+1) {
			return false
		}
		if s.space(); s.at(',') {
			s.i++
			s.space()
			continue
		}
		return s.byte('}')
	}
}

func (s *scanner) array(depth int) bool {
	s.i++
	s.space()
	if s.at(']') {
		s.i++
		return true
	}
	for {
		if !s.value(depth + 1) {
			return false
		}
		if s.space(); s.at(',') {
			s.i++
			s.space()
			continue
		}
		return s.byte(']')
	}
}

// colon passes over the colon after a name, and the space around it.
func (s *scanner) colon() bool {
	s.space()
	if !s.byte(':') {
		return false
	}
	s.space()
	return true
}

// raw passes over a value and returns its text.
func (s *scanner) raw() (json.RawMessage, bool) {
	start := s.i
	if !s.value(1) {
		return nil, false
	}
	return json.RawMessage(s.b[start:s.i:s.i]), true
}

// members walks the object that starts here and hands each name, decoded, to
// f, which passes over the value. A name that stands twice is refused: readers
// disagree about which one counts.
func (s *scanner) members(f func(name string) bool) bool {
	if !s.byte('{') {
		return false
	}
	if s.space(); s.at('}') {
		s.i++
		return true
	}
	seen := make(map[string]bool)
	for {
		start := s.i
		name, ok := s.text()
		if !ok {
			return false
		}
		if seen[name] {
			return s.stopAt(start, "member "+name+" stands twice")
		}
		seen[name] = true
		if !s.colon() || !f(name) {
			return false
		}
		if s.space(); s.at(',') {
			s.i++
			s.space()
			continue
		}
		return s.byte('}')
	}
}

// badUTF8 returns the offset of the first byte of b that is not UTF-8, or -1.
func badUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
