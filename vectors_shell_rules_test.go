package rulvar_test

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// commandRules are the rules of rows about command texts. Each says of a text,
// and of the patterns that it is held against, that it holds something which
// the reference's lexer reads otherwise than a shell does, or that a deny may
// not overlook.
var commandRules = map[string]func(text string, patterns []string) bool{
	"empty":        func(text string, _ []string) bool { return !anyWord.MatchString(text) },
	"see-through":  func(text string, _ []string) bool { return !plainCommand(text) },
	"wrapped":      wrapped,
	"same-program": sameProgram,
	"comment":      func(text string, _ []string) bool { return comment.MatchString(text) },
	"redirection":  func(text string, _ []string) bool { return strings.ContainsAny(text, "<>") },
	"substitution": func(text string, _ []string) bool { return substitution.MatchString(text) },
	"expansion":    func(text string, _ []string) bool { return strings.Contains(text, "${") },
	"backslash-in-quotes": func(text string, _ []string) bool {
		return backslashInQuotes.MatchString(text)
	},
	"reserved-words": func(text string, _ []string) bool {
		return strings.ContainsAny(text, "(){}!") || opener.MatchString(text)
	},
	"no-shell-text": func(text string, _ []string) bool { return noShellText(text) },
}

var (
	anyWord           = regexp.MustCompile(`[^\s;&|]`)
	comment           = regexp.MustCompile(`(^|[\s;&|()])#`)
	substitution      = regexp.MustCompile("\\$\\(|`|<<|[<>]\\(")
	quotedAssignment  = regexp.MustCompile(`(^|[;&|\n])[ \t]*[A-Za-z_]*["'\\]["'\\A-Za-z_0-9]*=|(^|[;&|\n])[ \t]*[A-Za-z_][A-Za-z_0-9]*["'\\]+=`)
	backslashInQuotes = regexp.MustCompile("\"[^\"]*\\\\[^$\"`\\\\\n]")

	plainText = regexp.MustCompile(`^[A-Za-z0-9_.,:@%+= \t;&|\n-]*$`)
	// keywords and the programs in front of which a command stands as words or
	// as text of its own.
	opener = regexp.MustCompile(`(^|[\s;&|])(if|then|else|elif|while|until|do|for|case|select|function|coproc|in|fi|done|esac|time|env|command|exec|` +
		`eval|trap|source|\.|xargs|find|parallel|watch|script|ssh|su|sudo|doas|sh|bash|dash|zsh|export|declare|typeset|readonly|local|let|alias|bind|compgen|complete|enable|fc|mapfile|readarray)([\s;&|]|$)`)
	assignment = regexp.MustCompile(`(^|[;&|\n])[ \t]*[A-Za-z_][A-Za-z0-9_]*\+?=`)
)

// plainCommand reports whether a text is only words and separators, so that
// every reader of shell text finds the same commands in it.
func plainCommand(text string) bool {
	return plainText.MatchString(text) && !opener.MatchString(text) && !assignment.MatchString(text)
}

// plainPattern reports whether a pattern is the same words however it is
// split. Here it is split as a shell splits, and may name redirections; the
// reference splits at spaces alone.
func plainPattern(pattern string) bool {
	if strings.ContainsAny(pattern, "\t\r\n'\"\\<>&|;#$`{}()") || assignment.MatchString(pattern) {
		return false
	}
	return !slices.ContainsFunc(strings.Fields(pattern), func(word string) bool {
		return strings.Contains(word, "*") && word != "*" && word != "**"
	})
}

// wrapped: the words of a pattern stand in a segment in their order, but not at
// their places: others in front or between, such as sudo or an option, may take
// them together.
func wrapped(text string, patterns []string) bool {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";&|\n", r) }) {
		words := strings.Fields(part)
		if slices.ContainsFunc(patterns, func(pattern string) bool { return displaced(strings.Fields(pattern), words) }) {
			return true
		}
	}
	return false
}

// displaced reports whether the literal words of a pattern stand among words in
// their order and one of them is behind its place.
func displaced(pattern, words []string) bool {
	from, moved := 0, false
	for place, word := range pattern {
		if word == "*" || word == "**" {
			continue
		}
		at := slices.Index(words[from:], word)
		if at < 0 {
			return false
		}
		from += at + 1
		moved = moved || from-1 > place
	}
	return moved
}

// sameProgram: a word of the text names the program of a pattern in another
// directory, or in other letters where file names have no case.
func sameProgram(text string, patterns []string) bool {
	for _, pattern := range patterns {
		first, _, _ := strings.Cut(strings.TrimSpace(pattern), " ")
		if slices.ContainsFunc(strings.Fields(text), func(word string) bool {
			return word != first && strings.EqualFold(path.Base(word), path.Base(first))
		}) {
			return true
		}
	}
	return false
}

// noShellText: neither dialect of an independent parser takes the text, so that
// no shell runs it as a whole.
func noShellText(text string) bool {
	for _, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
		if _, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), ""); err == nil {
			return false
		}
	}
	return true
}
