package argv

import (
	"strings"
	"unicode/utf8"
)

// decodeANSI decodes the body of $'...' as Bash does. It is not ok for a text
// whose meaning depends on more than itself: one that holds a NUL, where a shell
// cuts it, or an escape that is none.
//
//	\a \b \e \E \f \n \r \t \v \\ \' \" \?   one character
//	\nnn (1-3 octal)  \xHH (1-2 hexadecimal)  one byte
//	\uHHHH  \UHHHHHHHH                        one character by its code point
//	\cx                                       control-x
func decodeANSI(s string) (text string, ok bool) {
	var out []byte
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			i++
			continue
		}
		c := s[i+1]
		i += 2
		if k := strings.IndexByte("abeEfnrtv\\'\"?", c); k >= 0 {
			out = append(out, "\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[k])
			continue
		}
		var value, n int
		switch {
		case c >= '0' && c <= '7':
			i--
			value, n = digits(s[i:], 3, 8)
		case c == 'x':
			value, n = digits(s[i:], 2, 16)
		case c == 'u':
			value, n = digits(s[i:], 4, 16)
		case c == 'U':
			value, n = digits(s[i:], 8, 16)
		case c == 'c' && i < len(s) && s[i] != '\\':
			value, n = int(s[i])&0x1f, 1
		}
		if n == 0 || value == 0 || (c == 'u' || c == 'U') && !utf8.ValidRune(rune(value)) {
			return "", false
		}
		i += n
		if c == 'u' || c == 'U' {
			out = utf8.AppendRune(out, rune(value))
		} else {
			out = append(out, byte(value))
		}
	}
	return string(out), true
}

// digits reads up to limit digits of the given base.
func digits(s string, limit, base int) (value, n int) {
	for n < limit && n < len(s) {
		d := strings.IndexByte("0123456789abcdef", s[n]|0x20&^0)
		if s[n] >= '0' && s[n] <= '9' {
			d = int(s[n] - '0')
		}
		if d < 0 || d >= base {
			break
		}
		value = value*base + d
		n++
	}
	return value, n
}
