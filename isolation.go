package rulvar

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// IsolationKind names the environment that an agent's tools see.
type IsolationKind string

// The isolation kinds. None is the host's working directory. Readonly is the
// same directory with a deny rule for tools that declare risk write or
// destructive: a smaller blast radius, not containment. Worktree is a git
// worktree of the agent's own.
const (
	IsolationNone     IsolationKind = "none"
	IsolationReadonly IsolationKind = "readonly"
	IsolationWorktree IsolationKind = "worktree"
)

// Isolation is the environment that a spawn asks for. It enters the identity
// of the agent. The zero value is none. Make a worktree with [Worktree].
type Isolation struct {
	kind   IsolationKind
	ref    string
	hasRef bool
}

// Readonly is the isolation of an agent that must not change anything.
func Readonly() Isolation { return Isolation{kind: IsolationReadonly} }

// Worktree is the isolation of an agent that works in its own git worktree,
// made from ref, or from HEAD where no ref is given.
func Worktree(ref ...string) Isolation {
	i := Isolation{kind: IsolationWorktree}
	if len(ref) > 0 {
		i.ref, i.hasRef = ref[0], true
	}
	return i
}

// Kind returns the kind; none for the zero value.
func (i Isolation) Kind() IsolationKind {
	if i.kind == "" {
		return IsolationNone
	}
	return i.kind
}

// Ref returns the git ref of a worktree, and whether one was given.
func (i Isolation) Ref() (string, bool) { return i.ref, i.hasRef }

// MarshalJSON writes "none", "readonly" or {"kind":"worktree","ref":…}: the
// form that enters the content key.
func (i Isolation) MarshalJSON() ([]byte, error) {
	if i.Kind() != IsolationWorktree {
		return json.Marshal(string(i.Kind()))
	}
	if !i.hasRef {
		return []byte(`{"kind":"worktree"}`), nil
	}
	return json.Marshal(struct {
		Kind IsolationKind `json:"kind"`
		Ref  string        `json:"ref"`
	}{i.kind, i.ref})
}

// UnmarshalJSON reads what [Isolation.MarshalJSON] writes and refuses the rest.
func (i *Isolation) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil {
		switch IsolationKind(word) {
		case IsolationNone, IsolationReadonly:
			*i = Isolation{kind: IsolationKind(word)}
			return nil
		}
		return errs.New(errs.Config, "isolation", "", fmt.Sprintf("unknown isolation %q", word))
	}
	var form struct {
		Kind IsolationKind `json:"kind"`
		Ref  *string       `json:"ref"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&form); err != nil || form.Kind != IsolationWorktree {
		return errs.New(errs.Config, "isolation", "", `want "none", "readonly" or {"kind":"worktree","ref":…}`)
	}
	*i = Isolation{kind: form.Kind}
	if form.Ref != nil {
		i.ref, i.hasRef = *form.Ref, true
	}
	return nil
}
