package jcs

import (
	"bytes"
	"strings"
)

// Repair makes the one bounded attempt at near-JSON that a model wrote where a
// JSON object was asked for: it drops the opening line of one markdown fence,
// cuts to the first balanced object, and escapes raw control characters inside
// that object's strings.
//
//	Here you go:
//	```json
//	{"path":"a.txt"}        ->   {"path":"a.txt"}
//	```
//
// ok is false where there is no such object (also where the text is cut off
// inside it, or is an array or a string that holds one) and where nothing but
// blanks around it would change. Nothing is guessed: no quotes, commas or
// brackets are added, and an object inside another is never taken for it. The
// candidate need not be JSON; the caller reads it with [ParseStrict] and takes
// it only if it is valid arguments. Takes time in proportion to the text, and
// never more room than six times as much.
func Repair(text string) (candidate string, ok bool) {
	body := afterFence(text)
	trimmed := strings.TrimLeft(body, " \t\r\n")
	if trimmed == "" || trimmed[0] == '[' || trimmed[0] == '"' {
		return "", false
	}
	start := strings.IndexByte(body, '{')
	if start < 0 {
		return "", false
	}
	candidate, ok = firstObject(body[start:])
	if !ok || candidate == strings.Trim(text, " \t\r\n") {
		return "", false
	}
	return candidate, true
}

const fence = "```"

// afterFence returns the text behind a fence that opens before the first
// brace, and behind its info string; or the whole text. On one line with the
// fence a brace may begin the object, or attributes as in "```{.json}": only
// an object goes on with a name or closes at once.
func afterFence(text string) string {
	before, rest, found := strings.Cut(text, fence)
	if !found || strings.ContainsRune(before, '{') {
		return text
	}
	info, body, lines := strings.Cut(rest, "\n")
	brace := strings.IndexByte(info, '{')
	if brace < 0 && lines {
		return body
	}
	if brace >= 0 && lines {
		next := strings.TrimLeft(info[brace+1:], " \t\r")
		if next != "" && next[0] != '"' && next[0] != '}' {
			return body
		}
	}
	return strings.TrimLeft(rest, "`~abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_.")
}

// firstObject returns the object that text begins with, up to the brace that
// balances its first, with the control characters in its strings escaped. ok
// is false where no brace does.
func firstObject(text string) (object string, ok bool) {
	var out bytes.Buffer // of what was escaped so far, up to done
	done, depth, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++ // a control character behind a backslash is beyond repair
		case c == '"':
			quoted = !quoted
		case quoted && c < ' ':
			out.WriteString(text[done:i])
			out.Write(appendEscaped(out.AvailableBuffer(), rune(c)))
			done = i + 1
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			depth--
			if depth == 0 {
				out.WriteString(text[done : i+1])
				return out.String(), true
			}
		}
	}
	return "", false
}
