package replay

import (
	"strings"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// An abandon covers the operation it names and, when that is an agent or a
// child workflow, everything in the scope that it owns: what nobody will run
// again asks nobody and is no orphan.

// Covered reports whether an abandon covers the entry: it names it, or an
// operation that owns the entry's scope. The number is that of the abandon.
func (f *Fold) Covered(e *journal.Entry) (int64, bool) {
	if by, ok := f.coveredSeqs[e.Seq]; ok {
		return by, true
	}
	if s := f.suspensions[e.Seq]; s != nil {
		return s.ClosedBy, s.State == Abandoned
	}
	return f.coveredScope(e.Scope)
}

func (f *Fold) coveredScope(scope string) (int64, bool) {
	if len(f.coveredScopes) == 0 {
		return 0, false
	}
	for end := 0; end < len(scope); end++ {
		cut := strings.IndexByte(scope[end:], '/')
		if cut < 0 {
			break
		}
		end += cut
		if by, ok := f.coveredScopes[scope[:end]]; ok {
			return by, true
		}
	}
	by, ok := f.coveredScopes[scope]
	return by, ok
}

// ownedScope is the scope of what happens inside a running agent or child.
func ownedScope(op *journal.Entry) string {
	switch op.Kind {
	case journal.KindAgent:
		return AgentScope(op.Scope, op.Seq)
	case journal.KindChild:
		if members, err := objectMembers(op.Value, "value"); err == nil {
			scope, _ := stringMember(members, "childScope")
			return scope
		}
	}
	return ""
}

func within(scope, owner string) bool {
	rest, ok := strings.CutPrefix(scope, owner)
	return ok && (rest == "" || rest[0] == '/')
}
