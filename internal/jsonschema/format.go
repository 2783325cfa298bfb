package jsonschema

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// formatPrefix marks our formats in a plan, so that none of the validator's own
// can answer to the name.
const formatPrefix = "rulvar-"

// formats are the formats that are asserted. Those of draft 2020-12 follow the
// documents that it names; "url" and "json-pointer-uri-fragment" are not in it,
// and are the wide-spread extras that the reference asserts too. Any other
// format, idn-* and iri* among them, is an annotation.
var formats = map[string]func(string) error{
	"date":                      checkDate,
	"time":                      checkTime,
	"date-time":                 checkDateTime,
	"duration":                  checkDuration,
	"email":                     checkEmail,
	"hostname":                  checkHostname,
	"ipv4":                      checkIPv4,
	"ipv6":                      checkIPv6,
	"uri":                       checkURI,
	"uri-reference":             checkURIReference,
	"uri-template":              checkURITemplate,
	"url":                       checkURL,
	"uuid":                      checkUUID,
	"regex":                     validPattern,
	"json-pointer":              checkPointer,
	"json-pointer-uri-fragment": checkPointerFragment,
	"relative-json-pointer":     checkRelativePointer,
}

// errFormat is the error of every check that has nothing more to say.
var errFormat = errors.New("not in that format")

func verdict(ok bool) error {
	if ok {
		return nil
	}
	return errFormat
}

// checkDate accepts full-date of RFC 3339.
func checkDate(s string) error {
	if len(s) != len("2006-01-02") {
		return errFormat
	}
	_, err := time.Parse("2006-01-02", s)
	return err
}

// checkTime accepts full-time of RFC 3339: an offset is required, and second 60
// stands only at the end of a day in UTC.
//
//	hh:mm:ss[.f+](Z|(+|-)hh:mm)
func checkTime(s string) error {
	h, m, sec, ok := clock(s)
	if !ok {
		return errFormat
	}
	s = s[8:]
	if strings.HasPrefix(s, ".") {
		rest := strings.TrimLeft(s[1:], "0123456789")
		if len(rest) == len(s)-1 {
			return errFormat
		}
		s = rest
	}
	minutes := h*60 + m
	switch {
	case s == "Z", s == "z":
	case len(s) == 6 && (s[0] == '+' || s[0] == '-'):
		oh, om, _, ok := clock(s[1:] + ":00")
		if !ok {
			return errFormat
		}
		if s[0] == '+' {
			minutes -= oh*60 + om
		} else {
			minutes += oh*60 + om
		}
	default:
		return errFormat
	}
	const day = 24 * 60
	return verdict(sec < 60 || (minutes+day)%day == day-1)
}

// clock reads "hh:mm:ss" at the start of s.
func clock(s string) (h, m, sec int, ok bool) {
	if len(s) < 8 || s[2] != ':' || s[5] != ':' {
		return 0, 0, 0, false
	}
	two := func(i int) int {
		a, b := s[i]-'0', s[i+1]-'0'
		if a > 9 || b > 9 {
			return 99
		}
		return int(a)*10 + int(b)
	}
	h, m, sec = two(0), two(3), two(6)
	return h, m, sec, h < 24 && m < 60 && sec <= 60
}

// checkDateTime accepts date-time of RFC 3339; the letter between is T or t.
func checkDateTime(s string) error {
	if len(s) < 11 || s[10]|0x20 != 't' {
		return errFormat
	}
	if err := checkDate(s[:10]); err != nil {
		return err
	}
	return checkTime(s[11:])
}

// checkDuration accepts duration of RFC 3339, appendix A: whole numbers, and
// units that follow each other without a gap.
//
//	P(nW | [date]T[time] | date)    date: nYnMnD   time: nHnMnS
func checkDuration(s string) error {
	s, ok := strings.CutPrefix(s, "P")
	if !ok {
		return errFormat
	}
	if n, ok := strings.CutSuffix(s, "W"); ok {
		return verdict(n != "" && strings.Trim(n, "0123456789") == "")
	}
	date, clock, timed := strings.Cut(s, "T")
	if date == "" && !timed || timed && clock == "" {
		return errFormat
	}
	return verdict(units(date, "YMD") && units(clock, "HMS"))
}

// units reports whether s is empty or numbers with the given letters, in their
// order and without a gap between them.
func units(s, letters string) bool {
	last := -1
	for s != "" {
		rest := strings.TrimLeft(s, "0123456789")
		if len(rest) == len(s) || rest == "" {
			return false
		}
		i := strings.IndexByte(letters, rest[0])
		if i < 0 || last >= 0 && i != last+1 {
			return false
		}
		last, s = i, rest[1:]
	}
	return true
}

// checkEmail accepts Mailbox of RFC 5321 with an ASCII local part, quoted or
// not, and a host name or an address in brackets.
func checkEmail(s string) error {
	i := strings.LastIndexByte(s, '@')
	if i < 1 || i > 64 || len(s) > 254 {
		return errFormat
	}
	local, domain := s[:i], s[i+1:]
	if !localPart(local) {
		return errFormat
	}
	if inner, ok := strings.CutPrefix(domain, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return errFormat
		}
		if six, ok := strings.CutPrefix(inner, "IPv6:"); ok {
			return checkIPv6(six)
		}
		return checkIPv4(inner)
	}
	if strings.HasSuffix(domain, ".") {
		return errFormat
	}
	return checkHostname(domain)
}

func localPart(s string) bool {
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		inner := s[1 : len(s)-1]
		for i := 0; i < len(inner); i++ {
			c := inner[i]
			if c == '\\' {
				i++
				if i == len(inner) {
					return false
				}
				c = inner[i]
			} else if c == '"' {
				return false
			}
			if c < ' ' || c > '~' {
				return false
			}
		}
		return true
	}
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" {
			return false
		}
		for i := range len(atom) {
			if !isAlnum(atom[i]) && strings.IndexByte("!#$%&'*+-/=?^_`{|}~", atom[i]) < 0 {
				return false
			}
		}
	}
	return true
}

// checkHostname accepts a host name of RFC 1123; a last dot is allowed.
func checkHostname(s string) error {
	s = strings.TrimSuffix(s, ".")
	if len(s) > 253 {
		return errFormat
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return errFormat
		}
		for i := range len(label) {
			if !isAlnum(label[i]) && label[i] != '-' {
				return errFormat
			}
		}
	}
	return nil
}

// checkIPv4 accepts dotted-quad of RFC 2673: no leading zeros.
func checkIPv4(s string) error {
	addr, err := netip.ParseAddr(s)
	return verdict(err == nil && addr.Is4())
}

// checkIPv6 accepts an address of RFC 4291 without a zone.
func checkIPv6(s string) error {
	addr, err := netip.ParseAddr(s)
	return verdict(err == nil && addr.Is6() && addr.Zone() == "")
}

// checkUUID accepts RFC 4122 in either case.
func checkUUID(s string) error {
	if len(s) != 36 {
		return errFormat
	}
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case i == 8, i == 13, i == 18, i == 23:
			if s[i] != '-' {
				return errFormat
			}
		case '0' <= s[i] && s[i] <= '9', 'a' <= c && c <= 'f':
		default:
			return errFormat
		}
	}
	return nil
}

// checkPointer accepts a pointer of RFC 6901.
func checkPointer(s string) error {
	if s != "" && s[0] != '/' {
		return errFormat
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return errFormat
		}
	}
	return nil
}

// checkPointerFragment accepts the URI form of RFC 6901, section 6.
func checkPointerFragment(s string) error {
	s, ok := strings.CutPrefix(s, "#")
	if !ok || !uriText(s, uriPath+"?") {
		return errFormat
	}
	decoded, err := url.PathUnescape(s)
	if err != nil || !utf8.ValidString(decoded) {
		return errFormat
	}
	return checkPointer(decoded)
}

// checkRelativePointer accepts a number without leading zeros, and then "#" or
// a pointer.
func checkRelativePointer(s string) error {
	rest := strings.TrimLeft(s, "0123456789")
	n := len(s) - len(rest)
	if n == 0 || n > 1 && s[0] == '0' {
		return errFormat
	}
	if rest == "#" {
		return nil
	}
	return checkPointer(rest)
}
