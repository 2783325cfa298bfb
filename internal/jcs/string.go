package jcs

import (
	"math/bits"
	"unicode/utf8"
)

// Strings are searched eight bytes at a time. stops marks, in the top bit of
// its byte, what needs a closer look: quotes, backslashes, control characters
// and everything beyond ASCII. Bits above the lowest may be set wrongly (a
// borrow runs upwards), so only the lowest is used.
const (
	everyByte   = 0x0101010101010101
	topBits     = 0x80 * everyByte
	eightSpaces = ' ' * everyByte
)

func stops(w uint64) uint64 {
	quote := w ^ '"'*everyByte
	slash := w ^ '\\'*everyByte
	return ((w-' '*everyByte)&^w | (quote-everyByte)&^quote | (slash-everyByte)&^slash | w) & topBits
}

// load64 returns the eight bytes at s[i:], the first as the lowest.
func load64(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// plain returns the first place in s at or after i that is a quote, a
// backslash, a control character or beyond ASCII, or len(s).
func plain(s string, i int) int {
	for i+8 <= len(s) {
		if m := stops(load64(s, i)); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
		i++
	}
	return i
}

// text reads the string whose opening quote is at pos.
func (s *scanner) text() *SyntaxError {
	start := s.pos + 1
	i := start
	var flags nodeFlags
	for {
		i = plain(s.src, i)
		if i >= len(s.src) {
			return refuse(ErrSyntax, len(s.src), "the text ends inside a string")
		}
		switch c := s.src[i]; {
		case c == '"':
			s.leaf(kindText, start, i, flags)
			s.pos = i + 1
			return nil
		case c == '\\':
			n, f, err := s.escape(i)
			if err != nil {
				return err
			}
			i, flags = i+n, flags|f
		case c < ' ':
			return refuse(ErrSyntax, i, "control character 0x%02x inside a string; escape it", c)
		default:
			r, n := utf8.DecodeRuneInString(s.src[i:])
			if r == utf8.RuneError && n == 1 {
				return refuse(ErrUTF8, i, "byte 0x%02x inside a string is not valid UTF-8", c)
			}
			i += n
		}
	}
}

// escape checks the escape at i and returns its length.
func (s *scanner) escape(i int) (int, nodeFlags, *SyntaxError) {
	if i+1 >= len(s.src) {
		return 0, 0, refuse(ErrSyntax, len(s.src), "the text ends inside a string")
	}
	switch s.src[i+1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2, escaped, nil
	case '/':
		return 2, escaped | rewrite, nil
	case 'u':
	default:
		return 0, 0, refuse(ErrSyntax, i, "unknown escape in a string")
	}
	unit, ok := hexUnit(s.src, i)
	if !ok {
		return 0, 0, refuse(ErrSyntax, i, `\u needs four hexadecimal digits`)
	}
	if unit < 0xd800 || unit > 0xdfff {
		return 6, escaped | rewrite, nil
	}
	if low, ok := hexUnit(s.src, i+6); ok && unit < 0xdc00 && 0xdc00 <= low && low <= 0xdfff {
		return 12, escaped | rewrite, nil
	}
	return 0, 0, refuse(ErrSurrogate, i, "%s stands for half of a surrogate pair, which is not text", s.src[i:i+6])
}

// hexUnit reads the \uXXXX at i.
func hexUnit(s string, i int) (rune, bool) {
	if i+6 > len(s) || s[i] != '\\' || s[i+1] != 'u' {
		return 0, false
	}
	var unit rune
	for _, c := range []byte(s[i+2 : i+6]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}

// decodeEscape returns the character of a checked escape at i, and its length.
func decodeEscape(s string, i int) (rune, int) {
	switch c := s[i+1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		unit, _ := hexUnit(s, i)
		if unit < 0xd800 || unit > 0xdfff {
			return unit, 6
		}
		low, _ := hexUnit(s, i+6)
		return 0x10000 + (unit-0xd800)<<10 + (low - 0xdc00), 12
	default:
		return rune(c), 2
	}
}

// appendDecoded appends the value of the checked string body raw.
func appendDecoded(dst []byte, raw string) []byte {
	return eachSpan(dst, raw, utf8.AppendRune)
}

// appendRewritten appends the checked string body raw with its escapes spelled
// as the canonical form spells them.
func appendRewritten(dst []byte, raw string) []byte {
	return eachSpan(dst, raw, appendEscaped)
}

// eachSpan appends raw, with put for every escaped character.
func eachSpan(dst []byte, raw string, put func([]byte, rune) []byte) []byte {
	start := 0
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			i++
			continue
		}
		dst = append(dst, raw[start:i]...)
		r, n := decodeEscape(raw, i)
		dst = put(dst, r)
		i += n
		start = i
	}
	return append(dst, raw[start:]...)
}

// appendEscaped appends r as it stands inside a canonical string.
func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	if r < ' ' {
		const hexDigits = "0123456789abcdef"
		return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(dst, r)
}

// AppendString appends s as a canonical JSON string, with its quotes. A byte
// that is not part of valid UTF-8 becomes U+FFFD; callers that must not lose
// it use [AppendTree], which refuses.
func AppendString(dst []byte, s string) []byte {
	dst, _ = appendString(dst, s)
	return dst
}

// appendString is [AppendString] and reports the first byte that is not valid
// UTF-8, or -1.
func appendString(dst []byte, s string) ([]byte, int) {
	bad := -1
	dst = append(dst, '"')
	start := 0
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		if s[i] >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n != 1 {
				i += n
				continue
			}
			if bad < 0 {
				bad = i
			}
			dst = append(append(dst, s[start:i]...), "\ufffd"...)
		} else {
			dst = appendEscaped(append(dst, s[start:i]...), rune(s[i]))
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"'), bad
}
