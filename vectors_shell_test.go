package rulvar_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/argv"
)

// shellVector is a case of shell_match.json: a command and patterns.
type shellVector struct {
	Command  string
	Patterns rulvar.ShellRules
	Expect   struct{ Verdict string }

	refused bool // the patterns do not compile
	got     string
}

var shellMatchVectors = newVectorSuite("shell_match", (*shellVector).compare, shellRules())

// shellRules are the rules of rows for shell_match.json. Where the answer here
// is to allow, it has to be that of the text without the part that does not
// matter.
func shellRules() map[string]func(*shellVector) bool {
	rules := map[string]func(*shellVector) bool{
		"pattern-refused": func(v *shellVector) bool { return v.refused },
		"pattern-words": func(v *shellVector) bool {
			return slices.ContainsFunc(v.patterns(), func(p string) bool { return !plainPattern(p) })
		},
		"assignment":           func(v *shellVector) bool { return v.got == "ask" && assignment.MatchString(v.Command) },
		"comment":              func(v *shellVector) bool { return v.without(commentText, "$1") },
		"harmless-redirection": func(v *shellVector) bool { return v.without(harmlessRedirection, "") },
		"reserved-words":       func(v *shellVector) bool { return v.without(reservedWords, "$1$3") },
		"line-continuation":    func(v *shellVector) bool { return v.without(lineContinuation, "") },
		"quoted-assignment":    func(v *shellVector) bool { return quotedAssignment.MatchString(v.Command) },
	}
	for name, holds := range commandRules {
		rules["command-"+name] = func(v *shellVector) bool { return v.got != "allow" && holds(v.Command, v.patterns()) }
	}
	return rules
}

var (
	lineContinuation    = regexp.MustCompile("\\\\\n")
	arithmetic          = regexp.MustCompile(`\$\(\([^()]*\)\)`)
	arrayAssignment     = regexp.MustCompile(`\+?=\([^()]*\)`)
	reservedWords       = regexp.MustCompile(`(^|[\s;&|])(if|then|else|elif|fi|while|until|do|done|for|in|case|esac|select|function|time|coproc|[{}!()]+)($|[\s;&|])`)
	commentText         = regexp.MustCompile(`(^|[ \t\n;&|()])#[^\n]*`)
	harmlessRedirection = regexp.MustCompile(`[0-9]*[<>]&[ \t]*([0-9]+|-)|(&|[0-9]*)>>?[ \t]*/dev/null|<[ \t]*/dev/null`)
)

// without reports whether the answer is what the command gets without the parts
// that re finds: they do not matter.
func (v *shellVector) without(re *regexp.Regexp, keep string) bool {
	rest := re.ReplaceAllString(v.Command, keep)
	return rest != v.Command && v.got == string(rulvar.MatchShellCommand(rest, v.Patterns))
}

func (v *shellVector) patterns() []string {
	return slices.Concat(v.Patterns.Deny, v.Patterns.Ask, v.Patterns.Allow)
}

func (v *shellVector) compare(*testing.T) (direction, string) {
	matcher, err := rulvar.CompileShellRules(v.Patterns)
	if err != nil {
		v.refused = true
		return stricter, err.Error()
	}
	v.got = string(matcher.Match(v.Command))
	detail := "here " + v.got + ", recorded " + v.Expect.Verdict
	switch here, recorded := shellStrictness[v.got], shellStrictness[v.Expect.Verdict]; {
	case here > recorded:
		return stricter, detail
	case here < recorded:
		return looser, detail
	}
	return same, ""
}

// shellLexVector is a case of shell_lex.json: a text and the segments that the
// reference's lexer makes of it.
type shellLexVector struct {
	Command string
	Expect  struct {
		Segments []struct {
			Argv        []string
			Unmatchable bool
		}
	}

	understood bool
}

// shellLexVectors only inform: the strict reader refuses most of what the
// recorded lexer mistakes, and the words of a refused text mean nothing.
var shellLexVectors = func() vectorSuite {
	rules := map[string]func(*shellLexVector) bool{
		"not-understood":    func(v *shellLexVector) bool { return !v.understood },
		"quoted-assignment": func(v *shellLexVector) bool { return quotedAssignment.MatchString(v.Command) },
		"line-continuation": func(v *shellLexVector) bool { return lineContinuation.MatchString(v.Command) },
	}
	for _, name := range []string{"redirection", "comment", "backslash-in-quotes"} {
		rules["command-"+name] = func(v *shellLexVector) bool { return commandRules[name](v.Command, nil) }
	}
	s := newVectorSuite("shell_lex", (*shellLexVector).compare, rules)
	s.informs = true
	return s
}()

func (v *shellLexVector) compare(*testing.T) (direction, string) {
	c := argv.Read(v.Command)
	var why string
	if why, v.understood = c.Complete(); !v.understood {
		return stricter, why
	}
	var here, recorded [][]string
	for _, s := range c.Segments() {
		words := []string{}
		for _, w := range s.Words {
			words = append(words, w.Text)
		}
		here = append(here, words)
	}
	unmatchable := false
	for _, s := range v.Expect.Segments {
		recorded = append(recorded, s.Argv)
		unmatchable = unmatchable || s.Unmatchable
	}
	switch {
	case unmatchable:
		return looser, fmt.Sprintf("here %q, recorded as unmatchable", here)
	case !slices.EqualFunc(here, recorded, slices.Equal[[]string]):
		return other, fmt.Sprintf("here %q, recorded %q", here, recorded)
	}
	return same, ""
}
