package jcs

import (
	"math"
	"strconv"
)

// exactDigits is how many decimal digits every float64 keeps: two different
// numbers of that many digits are never the same float64, so such a number is
// its own shortest spelling.
const exactDigits = 15

// number reads the number at pos.
func (s *scanner) number() *SyntaxError {
	n, flags, ok := scanNumber(s.src[s.pos:])
	if !ok {
		s.pos += n
		return s.unexpected("inside a number")
	}
	start, end := s.pos, s.pos+n
	text := s.src[start:end]
	if flags&overflow != 0 {
		s.overflows = true
		if s.rules&finite != 0 {
			return outOfRange(start, text)
		}
	} else if flags&settled == 0 && s.rules&exact != 0 && !survives(text) {
		return refuse(ErrInexact, start, "integer %s does not fit a float64 and would become %s; send it as a string",
			clip(text, 40), appendNumberText(nil, text))
	}
	s.leaf(kindNumber, start, end, flags)
	s.pos = end
	return nil
}

// outOfRange reports the number text at offset.
func outOfRange(offset int, text string) *SyntaxError {
	return refuse(ErrNonFinite, offset, "number %s is out of the range of a float64; send it as a string", clip(text, 40))
}

// scanNumber returns the length of the JSON number that s starts with. Where
// there is none it returns the place of the offending byte and false.
func scanNumber(s string) (int, nodeFlags, bool) {
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	whole := i
	i = digits(s, i)
	if i == whole {
		return i, 0, false
	}
	if s[whole] == '0' && i > whole+1 {
		return whole + 1, 0, false
	}
	count := i - whole
	zero := s[whole] == '0'
	plain := !zero || whole == 0 // "-0" is written "0"
	if i < len(s) && s[i] == '.' {
		point := i + 1
		i = digits(s, point)
		if i == point {
			return i, 0, false
		}
		count += i - point
		// A last zero is dropped, and small numbers get an exponent.
		plain = s[i-1] != '0' && (!zero || leadingZeros(s[point:i]) < 6)
	}
	mantissa := i
	if i < len(s) && s[i]|0x20 == 'e' {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		power := i
		if i = digits(s, power); i == power {
			return i, 0, false
		}
		plain = false
	}
	if plain && count <= exactDigits {
		return i, settled, true
	}
	if i > mantissa || count > 300 {
		if _, err := strconv.ParseFloat(s[:i], 64); err != nil {
			return i, overflow, true
		}
	}
	return i, 0, true
}

// digits returns the end of the run of digits at i.
func digits(s string, i int) int {
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return i
}

// leadingZeros counts the zeros that s starts with.
func leadingZeros(s string) int {
	n := 0
	for n < len(s) && s[n] == '0' {
		n++
	}
	return n
}

// appendNumberText appends the canonical form of a number that scanNumber
// accepted and did not mark with overflow.
func appendNumberText(dst []byte, text string) []byte {
	f, _ := strconv.ParseFloat(text, 64)
	return appendFloat(dst, f)
}

// appendFloat appends a finite f as ECMAScript prints it.
func appendFloat(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // also for -0
	}
	if abs := math.Abs(f); 1e-6 <= abs && abs < 1e21 {
		if abs < 1e15 && f == math.Trunc(f) {
			return strconv.AppendInt(dst, int64(f), 10)
		}
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two digits of exponent, ECMAScript one.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// survives reports whether the canonical form of a number in range still
// denotes the number that text spells, where that is an integer. Fractions
// round, as they do in every JSON reader, and always survive.
//
// The measure is the text and not whether a float64 holds the value: 2^60 has
// an exact float64, yet its canonical form 1152921504606847000 is another
// integer, and that form is what gets judged, stored and decoded.
func survives(text string) bool {
	d, ok := decimalOf(text)
	if d.exponent < 0 || d.count <= exactDigits && ok {
		return true
	}
	if !ok {
		return false
	}
	f, _ := strconv.ParseFloat(text, 64)
	var buf [32]byte
	written, _ := decimalOf(string(strconv.AppendFloat(buf[:0], f, 'e', -1, 64)))
	return written == d
}

// decimal is a number as digits × 10^exponent, without zeros at either end of
// the digits. Zero has no digits. The sign is left out.
type decimal struct {
	digits   [17]byte
	count    int
	exponent int64
}

// decimalOf takes a JSON number apart. ok is false where it has more digits
// than a float64 can need; exponent is right even then.
func decimalOf(text string) (d decimal, ok bool) {
	ok = true
	zeros, fraction := 0, 0 // zeros so far behind the last digit kept
	point := false
	i := 0
	for ; i < len(text) && text[i]|0x20 != 'e'; i++ {
		c := text[i]
		if c == '.' {
			point = true
		}
		if c < '0' {
			continue
		}
		if point {
			fraction++
		}
		if c == '0' {
			zeros++
			continue
		}
		if d.count == 0 {
			zeros = 0
		}
		if d.count+zeros >= len(d.digits) {
			ok, zeros = false, 0
			continue
		}
		for ; zeros > 0; zeros-- {
			d.digits[d.count] = '0'
			d.count++
		}
		d.digits[d.count] = c
		d.count++
	}
	if d.count == 0 {
		return decimal{}, true
	}
	d.exponent = int64(zeros) - int64(fraction)
	if i < len(text) {
		d.exponent += exponent(text[i+1:])
	}
	return d, ok
}

// exponent reads an exponent with its sign; far beyond what any text of
// permitted length can balance it stops counting.
func exponent(s string) int64 {
	n := int64(0)
	for i := range len(s) {
		if c := s[i]; '0' <= c && c <= '9' && n < 1<<40 {
			n = n*10 + int64(c-'0')
		}
	}
	if s[0] == '-' {
		return -n
	}
	return n
}
