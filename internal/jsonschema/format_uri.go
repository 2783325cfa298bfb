package jsonschema

import (
	"net/url"
	"strings"
)

// The characters of RFC 3986 besides letters, digits and percent escapes.
const (
	uriUnreserved = "-._~"
	uriSubDelims  = "!$&'()*+,;="
	uriPath       = uriUnreserved + uriSubDelims + ":@/"
)

// uriText reports whether s holds only letters, digits, whole percent escapes
// and the given characters.
func uriText(s, extra string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isAlnum(c):
		case c == '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return false
			}
			i += 2
		case strings.IndexByte(extra, c) < 0:
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// scheme returns the length of the scheme that s starts with, colon included,
// or 0.
func scheme(s string) int {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			return i + 1
		default:
			return 0
		}
	}
	return 0
}

// checkURI accepts URI of RFC 3986.
func checkURI(s string) error {
	n := scheme(s)
	return verdict(n > 0 && relative(s[n:]))
}

// checkURIReference accepts URI-reference of RFC 3986.
func checkURIReference(s string) error {
	if n := scheme(s); n > 0 {
		return verdict(relative(s[n:]))
	}
	// Without a scheme the first segment of a path holds no colon.
	first, _, _ := strings.Cut(s, "/")
	first, _, _ = strings.Cut(first, "?")
	first, _, _ = strings.Cut(first, "#")
	return verdict(!strings.Contains(first, ":") && relative(s))
}

// relative reports whether s is what follows a scheme:
//
//	["//" authority] path ["?" query] ["#" fragment]
func relative(s string) bool {
	s, fragment, _ := strings.Cut(s, "#")
	s, query, _ := strings.Cut(s, "?")
	if !uriText(fragment, uriPath+"?") || !uriText(query, uriPath+"?") {
		return false
	}
	if rest, ok := strings.CutPrefix(s, "//"); ok {
		authority := rest
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			authority, rest = rest[:i], rest[i:]
		} else {
			rest = ""
		}
		if !isAuthority(authority) {
			return false
		}
		s = rest
	}
	return uriText(s, uriPath)
}

// isAuthority reports whether s is [userinfo "@"] host [":" port].
func isAuthority(s string) bool {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		if !uriText(s[:i], uriUnreserved+uriSubDelims+":") {
			return false
		}
		s = s[i+1:]
	}
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return false
		}
		if !ipLiteral(s[1:end]) {
			return false
		}
		host, port = "", s[end+1:]
		if port != "" && port[0] != ':' {
			return false
		}
		port = strings.TrimPrefix(port, ":")
	} else if i := strings.LastIndexByte(s, ':'); i >= 0 {
		host, port = s[:i], s[i+1:]
	}
	return uriText(host, uriUnreserved+uriSubDelims) && strings.Trim(port, "0123456789") == ""
}

// ipLiteral reports whether s may stand in the brackets of a host.
func ipLiteral(s string) bool {
	if len(s) > 3 && s[0]|0x20 == 'v' {
		version, address, ok := strings.Cut(s[1:], ".")
		return ok && version != "" && strings.Trim(version, "0123456789abcdefABCDEF") == "" &&
			address != "" && uriText(address, uriUnreserved+uriSubDelims+":") && !strings.Contains(address, "%")
	}
	return checkIPv6(s) == nil
}

// checkURL accepts an absolute http, https or ftp address with a host.
func checkURL(s string) error {
	if checkURI(s) != nil {
		return errFormat
	}
	u, err := url.Parse(s)
	if err != nil {
		return errFormat
	}
	switch u.Scheme {
	case "http", "https", "ftp":
		return verdict(u.Hostname() != "")
	}
	return errFormat
}

// checkURITemplate accepts URI-Template of RFC 6570.
func checkURITemplate(s string) error {
	for s != "" {
		i := strings.IndexByte(s, '{')
		literal := s
		if i >= 0 {
			literal = s[:i]
		}
		if !templateLiteral(literal) {
			return errFormat
		}
		if i < 0 {
			return nil
		}
		end := strings.IndexByte(s, '}')
		if end < i || !templateExpression(s[i+1:end]) {
			return errFormat
		}
		s = s[end+1:]
	}
	return nil
}

// templateLiteral reports whether s may stand outside the braces: no control
// character, blank, quote or any of %<>\^`{|} except in a percent escape.
func templateLiteral(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return false
			}
			i += 2
		case c <= ' ', c == 0x7f, strings.IndexByte("\"'<>\\^`{|}", c) >= 0:
			return false
		}
	}
	return true
}

// templateExpression reports whether s is an operator and a list of variables.
func templateExpression(s string) bool {
	if s != "" && strings.IndexByte("+#./;?&=,!@|", s[0]) >= 0 {
		s = s[1:]
	}
	for spec := range strings.SplitSeq(s, ",") {
		name, length, prefix := strings.Cut(strings.TrimSuffix(spec, "*"), ":")
		if prefix && (length == "" || len(length) > 4 || length[0] == '0' || strings.Trim(length, "0123456789") != "" || strings.HasSuffix(spec, "*")) {
			return false
		}
		if name == "" || name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..") || !uriText(name, "_.") {
			return false
		}
	}
	return true
}
