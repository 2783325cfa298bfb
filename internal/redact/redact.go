// Package redact takes secrets out of text that leaves the process as
// telemetry. It knows the shapes of common credentials; it is a net, not a
// proof: text that looks like nothing in particular passes.
package redact

import (
	"regexp"
	"strings"
)

// Masked stands where a secret stood.
const Masked = "[masked-secret]"

// shapes are the credentials that are masked. A literal that must occur is
// looked for first, because most text holds none.
var shapes = []struct {
	hint string
	re   *regexp.Regexp
}{
	{"sk-", regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{16,}`)},
	{"AKIA", regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`)},
	{"ASIA", regexp.MustCompile(`\bASIA[0-9A-Z]{16}\b`)},
	{"_", regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{20,}`)},
	{"github_pat_", regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{20,}`)},
	{"xox", regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`)},
	{"AIza", regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{30,}`)},
	{"eyJ", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}`)},
	{"-----BEGIN", regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)},
}

var bearer = regexp.MustCompile(`(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{12,}`)

// Text returns s with its secrets masked. It may be called from any goroutine.
func Text(s string) string {
	for _, shape := range shapes {
		if strings.Contains(s, shape.hint) {
			s = shape.re.ReplaceAllString(s, Masked)
		}
	}
	if len(s) > 18 && (strings.Contains(s, "earer") || strings.Contains(s, "EARER")) {
		s = bearer.ReplaceAllString(s, "${1}"+Masked)
	}
	return s
}

// Value masks the strings of a JSON-like tree: maps with string keys, slices
// and strings. Other values are returned as they are. The input is not changed.
func Value(v any) any {
	switch v := v.(type) {
	case string:
		return Text(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[Text(k)] = Value(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = Value(x)
		}
		return out
	}
	return v
}
