package rulvar

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/argv"
	"github.com/rulvar/rulvar-go/internal/errs"
)

// Rule is one line of a deny or an ask table: data, never a closure. It matches
// by tool name ([ToolRule]), by declared risk ([RiskRule]), by the argv of a
// shell tool's command ([ArgvRule]) or by network domain ([DomainRule]). A rule
// never allows anything.
//
// A Rule is immutable and may be used in any number of tables and goroutines.
// The constructors do not fail: a rule that is wrong or could never match (an
// empty list, a name that no tool can have, an unknown risk, a pattern that
// does not compile) is an [ErrConfig] where it is unmarshalled, marshalled or
// compiled into a chain. So is the zero Rule.
type Rule struct{ spec *ruleSpec }

// ruleKind is the shape of a rule.
type ruleKind uint8

const (
	ruleMalformed ruleKind = iota
	ruleTool
	ruleRisk
	ruleArgv
	ruleDomains
)

// ruleSpec is what a Rule points to: the rule as written, and what was made of
// it once, when it was declared.
type ruleSpec struct {
	kind                      ruleKind
	tool, risk, argv, domains wordList
	fault                     *ruleFault      // nil: the rule is good
	text                      string          // the rule as JSON
	risks                     [riskCount]bool // which risks a risk rule matches
	patterns                  []*argv.Pattern
	hosts                     []hostPattern
}

// wordList is a member that JSON writes as one string or as an array. Which of
// the two it was is kept, so that a rule is echoed as it was written.
type wordList struct {
	words []string
	array bool
}

// ruleFault says what is wrong with a rule, and in which of its members.
type ruleFault struct{ key, msg string }

// riskWordUndeclared is how a rule spells [RiskUndeclared].
const riskWordUndeclared = "undeclared"

// ToolRule matches calls of the tools with exactly these names. There are no
// wildcards.
func ToolRule(names ...string) Rule {
	return newRule(&ruleSpec{kind: ruleTool, tool: words(names)})
}

// RiskRule matches calls of tools that declare one of these risks.
// [RiskUndeclared] matches the tools that declare none; in JSON it is written
// "undeclared".
func RiskRule(risks ...Risk) Rule {
	names := make([]string, len(risks))
	for i, r := range risks {
		names[i] = string(r)
		if r == RiskUndeclared {
			names[i] = riskWordUndeclared
		}
	}
	return newRule(&ruleSpec{kind: ruleRisk, risk: words(names)})
}

// ArgvRule matches commands of the named tool: a literal word of a pattern is
// one identical word of the command, * is exactly one word, ** at the end is
// all the remaining words. The command is the tool's input itself where that
// is a string, otherwise its string member "command". One matching segment of
// the command is enough, one matching pattern too.
func ArgvRule(tool string, patterns ...string) Rule {
	return newRule(&ruleSpec{kind: ruleArgv, tool: words([]string{tool}), argv: words(patterns)})
}

// DomainRule names network hosts for a tool: an exact host, *.host for its
// subdomains (not host itself), or *, each with an optional :port. For a tool
// that declares its hosts ([ToolConfig.Hosts]), as the one of package fetch
// does, it denies or asks like any other rule, and once more before each
// connection. For every other tool it decides nothing and is listed in
// [Evaluation.Advisory] for every call: only a tool that asks about each host
// before it connects can enforce it.
func DomainRule(tool string, domains ...string) Rule {
	list := words(domains)
	list.array = true
	return newRule(&ruleSpec{kind: ruleDomains, tool: words([]string{tool}), domains: list})
}

func words(w []string) wordList {
	return wordList{words: slices.Clone(w), array: len(w) != 1}
}

// newRule compiles what was written. spec must not be changed afterwards.
func newRule(spec *ruleSpec) Rule {
	spec.fault = spec.prepare()
	spec.text = string(spec.appendJSON(nil))
	return Rule{spec}
}

// String returns the rule as JSON. The zero Rule is "{}".
func (r Rule) String() string {
	if r.spec == nil {
		return "{}"
	}
	return r.spec.text
}

// IsZero reports whether r is the zero Rule: where a verdict names the rule
// that decided, no rule did.
func (r Rule) IsZero() bool { return r.spec == nil }

// problem returns what is wrong with the rule, or nil.
func (r Rule) problem() *ruleFault {
	if r.spec == nil {
		return &ruleFault{"", "the rule is empty: make it with ToolRule, RiskRule, ArgvRule or DomainRule"}
	}
	return r.spec.fault
}

// at makes a fault an error; place is the rule's own path, such as
// "engine.deny[2]".
func (f *ruleFault) at(op, place string) error {
	if f.key != "" {
		place = strings.TrimPrefix(place+"."+f.key, ".")
	}
	return errs.New(errs.Config, op, place, f.msg)
}

// prepare checks the lists and compiles the patterns.
func (s *ruleSpec) prepare() *ruleFault {
	if s.kind == ruleRisk {
		return s.prepareRisks()
	}
	if f := s.checkTools(); f != nil {
		return f
	}
	switch s.kind {
	case ruleTool:
		return nil
	case ruleArgv:
		return s.preparePatterns()
	case ruleDomains:
		return s.prepareHosts()
	}
	return &ruleFault{"", "the rule has no shape"}
}

func (s *ruleSpec) checkTools() *ruleFault {
	if len(s.tool.words) == 0 {
		return &ruleFault{"tool", "the list names no tool, so the rule could never match"}
	}
	for _, name := range s.tool.words {
		if !toolNamePattern.MatchString(name) {
			return &ruleFault{"tool", fmt.Sprintf("no tool can be called %q, so the rule could never match: names are 1 to 64 characters of a-z, A-Z, 0-9, _ and -, and are matched exactly", name)}
		}
	}
	return nil
}

func (s *ruleSpec) prepareRisks() *ruleFault {
	if len(s.risk.words) == 0 {
		return &ruleFault{"risk", "the list names no risk, so the rule could never match"}
	}
	for _, word := range s.risk.words {
		risk := Risk(word)
		if word == riskWordUndeclared {
			risk = RiskUndeclared
		} else if word == "" || !risk.known() {
			return &ruleFault{"risk", fmt.Sprintf("unknown risk %q: use read, write, network, execute, destructive or undeclared", word)}
		}
		s.risks[riskSlot(risk)] = true
	}
	return nil
}

func (s *ruleSpec) preparePatterns() *ruleFault {
	if len(s.argv.words) == 0 {
		return &ruleFault{"argv", "the list holds no pattern, so the rule could never match"}
	}
	for _, text := range s.argv.words {
		if !utf8.ValidString(text) {
			return &ruleFault{"argv", fmt.Sprintf("the pattern %q is not valid UTF-8", text)}
		}
		p, err := argv.CompilePattern(text)
		if err != nil {
			return &ruleFault{"argv", fmt.Sprintf("the pattern %q does not compile: %s", text, issueText(err))}
		}
		s.patterns = append(s.patterns, p)
	}
	return nil
}

func (s *ruleSpec) prepareHosts() *ruleFault {
	if len(s.domains.words) == 0 {
		return &ruleFault{"domains", "the list names no host, so the rule could never match"}
	}
	for _, text := range s.domains.words {
		p, why := parseHostPattern(text)
		if why != "" {
			return &ruleFault{"domains", fmt.Sprintf("the host pattern %q cannot match: %s", text, why)}
		}
		s.hosts = append(s.hosts, p)
	}
	return nil
}

// names reports whether the rule speaks of the tool called name. A risk rule
// speaks of every tool.
func (s *ruleSpec) names(name string) bool {
	return s.kind == ruleRisk || slices.Contains(s.tool.words, name)
}

// appliesTo reports whether a call of this tool could match the rule, whatever
// its input. Where it does not, the rule is not looked at again.
func (s *ruleSpec) appliesTo(name string, risk Risk) bool {
	if s.kind == ruleRisk {
		return s.risks[riskSlot(risk)]
	}
	return slices.Contains(s.tool.words, name)
}

// against matches a rule that applies to the call; command is nil where the
// rule needs none or the call has none. pattern is the place of the argv
// pattern that decided, or -1.
func (s *ruleSpec) against(command *argv.Command) (m argv.Match, pattern int) {
	switch {
	case s.kind == ruleTool || s.kind == ruleRisk:
		return argv.Yes, -1
	case s.kind != ruleArgv:
		return argv.No, -1
	case command == nil:
		return argv.Maybe, -1
	}
	m, pattern = argv.No, -1
	for i, p := range s.patterns {
		if got := command.Against(p); got > m {
			if m, pattern = got, i; m == argv.Yes {
				break
			}
		}
	}
	return m, pattern
}
