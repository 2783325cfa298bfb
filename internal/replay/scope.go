package replay

import (
	"strconv"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// A scope path names the place of a call in the workflow. The root body is
// the empty path; every nesting adds one segment after a slash:
//
//	par:<site>:<branch>    branch of a parallel call; site counts the parallel
//	                       calls of the enclosing scope in execution order
//	pipe:<stage>:<item>    stage of a pipeline for one item; no site number
//	wf:<name>:<ordinal>    body of a child workflow; the ordinal counts the
//	                       calls of that name in the enclosing scope. The name
//	                       may hold colons, so the ordinal is the last field
//	agent:<seq>            what an agent owns (approvals, children); seq is the
//	                       sequence number of its running entry
//	plan/<id>              node of a plan of the reference; 26 characters 0-9A-Z
//
// Numbers are decimal without sign or leading zero. A number that a JSON
// reader with double precision would round is refused.

// maxExactInt is the largest integer that every reader of the format holds
// exactly.
const maxExactInt = 1<<53 - 1

// planIDLen is the length of a plan node id.
const planIDLen = 26

// Segment is one step of a scope path: [BranchSegment], [StageSegment],
// [ChildSegment], [AgentSegment] or [PlanSegment]. String gives its text.
type Segment interface {
	String() string
	segment()
}

// BranchSegment is one branch of a parallel call.
type BranchSegment struct{ Site, Branch int64 }

// StageSegment is one stage of a pipeline for the item at that index of the
// original list.
type StageSegment struct{ Stage, Item int64 }

// ChildSegment is the body of a child workflow.
type ChildSegment struct {
	Name    string
	Ordinal int64
}

// AgentSegment is the inside of the agent whose running entry has this
// sequence number.
type AgentSegment struct{ Seq int64 }

// PlanSegment is a node of a plan. This library writes none; a foreign journal
// may hold them.
type PlanSegment struct{ NodeID string }

func (BranchSegment) segment() {}
func (StageSegment) segment()  {}
func (ChildSegment) segment()  {}
func (AgentSegment) segment()  {}
func (PlanSegment) segment()   {}

// String returns "par:<site>:<branch>".
func (s BranchSegment) String() string { return pair("par:", s.Site, s.Branch) }

// String returns "pipe:<stage>:<item>".
func (s StageSegment) String() string { return pair("pipe:", s.Stage, s.Item) }

// String returns "wf:<name>:<ordinal>".
func (s ChildSegment) String() string {
	return "wf:" + s.Name + ":" + strconv.FormatInt(s.Ordinal, 10)
}

// String returns "agent:<seq>".
func (s AgentSegment) String() string { return "agent:" + strconv.FormatInt(s.Seq, 10) }

// String returns "plan/<id>".
func (s PlanSegment) String() string { return "plan/" + s.NodeID }

func pair(prefix string, a, b int64) string {
	return prefix + strconv.FormatInt(a, 10) + ":" + strconv.FormatInt(b, 10)
}

// Branch returns the scope of one branch of the site-th parallel call in
// parent. Site and branch count from 0.
func Branch(parent string, site, branch int64) string {
	return join(parent, BranchSegment{site, branch})
}

// Stage returns the scope of a pipeline stage in parent. Item is the index in
// the list that the pipeline was given, also when earlier items were dropped.
func Stage(parent string, stage, item int64) string {
	return join(parent, StageSegment{stage, item})
}

// Child returns the scope of the body of a child workflow called in parent;
// ordinal counts the calls of that name in parent from 0. The name must hold
// no slash, which the definition of a workflow checks.
func Child(parent, name string, ordinal int64) string {
	return join(parent, ChildSegment{name, ordinal})
}

// AgentScope returns the scope of what an agent called in parent owns; seq is
// the sequence number of the agent's running entry.
func AgentScope(parent string, seq int64) string {
	return join(parent, AgentSegment{seq})
}

func join(parent string, s Segment) string {
	if parent == "" {
		return s.String()
	}
	return parent + "/" + s.String()
}

// ParseScope splits a path into its segments; the empty path has none.
// [Format] of the result is the path again. The error has code
// [errs.JournalOrder], because only a damaged entry holds such a path.
func ParseScope(path string) ([]Segment, error) {
	if path == "" {
		return []Segment{}, nil
	}
	parts := strings.Split(path, "/")
	segs := make([]Segment, 0, len(parts))
	for i := 0; i < len(parts); i++ {
		text := parts[i]
		if text == "plan" && i+1 < len(parts) {
			// The one segment with a slash of its own.
			i++
			text += "/" + parts[i]
		}
		s, ok := parseSegment(text)
		if !ok {
			return nil, errs.New(errs.JournalOrder, "parse scope", strconv.Quote(path),
				"segment "+strconv.Quote(text)+" is none of par:<n>:<n>, pipe:<n>:<n>, wf:<name>:<n>, agent:<n>, plan/<id>")
		}
		segs = append(segs, s)
	}
	return segs, nil
}

// Format joins segments into a path; no segments give the root path "".
func Format(segs []Segment) string {
	texts := make([]string, len(segs))
	for i, s := range segs {
		texts[i] = s.String()
	}
	return strings.Join(texts, "/")
}

func parseSegment(text string) (Segment, bool) {
	if id, ok := strings.CutPrefix(text, "plan/"); ok {
		return PlanSegment{id}, isPlanID(id)
	}
	word, rest, ok := strings.Cut(text, ":")
	if !ok {
		return nil, false
	}
	switch word {
	case "par":
		a, b, ok := parsePair(rest)
		return BranchSegment{a, b}, ok
	case "pipe":
		a, b, ok := parsePair(rest)
		return StageSegment{a, b}, ok
	case "wf":
		cut := strings.LastIndexByte(rest, ':')
		if cut <= 0 {
			return nil, false
		}
		n, ok := parseNatural(rest[cut+1:])
		return ChildSegment{rest[:cut], n}, ok
	case "agent":
		n, ok := parseNatural(rest)
		return AgentSegment{n}, ok
	}
	return nil, false
}

func parsePair(text string) (int64, int64, bool) {
	first, second, ok := strings.Cut(text, ":")
	if !ok {
		return 0, 0, false
	}
	a, okA := parseNatural(first)
	b, okB := parseNatural(second)
	return a, b, okA && okB
}

// parseNatural accepts the one spelling that formatting would give back.
func parseNatural(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxExactInt || strconv.FormatInt(n, 10) != text {
		return 0, false
	}
	return n, true
}

func isPlanID(id string) bool {
	if len(id) != planIDLen {
		return false
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
