package modelwire

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Secrets takes keys out of texts that a person, a log or a journal may see.
// It is a function so that printing what holds it shows no key.
type Secrets func(text string) string

const hidden = "[secret]"

// Shapes of keys and of what carries them.
var secretShapes = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:sk|pk|rk)-[A-Za-z0-9_*-]{8,}`),
	regexp.MustCompile(`(?i)\bbearer\s+[^\s"',;]{8,}`),
	regexp.MustCompile(`(?i)\b(?:x-)?(?:api[-_]?key|authorization)["']?\s*[:=]\s*["']?[^\s"',;]+`),
}

// HideShapes takes out of a text what looks like a key.
func HideShapes(text string) string {
	for _, shape := range secretShapes {
		text = shape.ReplaceAllString(text, hidden)
	}
	return text
}

// maxFaultText bounds what a service may add to an error of ours, in bytes.
const maxFaultText = 1000

// HideSecrets returns a [Secrets] that also knows the given keys themselves,
// and cuts long texts.
func HideSecrets(keys ...string) Secrets {
	var pairs []string
	for _, k := range keys {
		if k != "" {
			pairs = append(pairs, k, hidden)
		}
	}
	literal := strings.NewReplacer(pairs...)
	return func(text string) string {
		text = HideShapes(literal.Replace(text))
		text = strings.ToValidUTF8(text, "\uFFFD")
		if len(text) > maxFaultText {
			end := maxFaultText
			for !utf8.RuneStart(text[end]) {
				end--
			}
			text = text[:end] + " …"
		}
		return text
	}
}
