package argv

import "path"

// spelled answers for an allow table whether the redirections are exactly those
// that the pattern spells: each that names a file is one of them, and each of
// them is there.
func (p *Pattern) spelled(redirects []Redirect) bool {
	for i := range redirects {
		r := &redirects[i]
		if r.Harmless() {
			continue
		}
		found := false
		for k := range p.redirects {
			found = found || p.redirects[k].covers(r)
		}
		if !found {
			return false
		}
	}
	for k := range p.redirects {
		found := false
		for i := range redirects {
			found = found || !redirects[i].Harmless() && p.redirects[k].covers(&redirects[i])
		}
		if !found {
			return false
		}
	}
	return true
}

// covers answers for an allow: the same operator on the same descriptor.
func (t *redirectToken) covers(r *Redirect) bool {
	op := r.FD + r.Op
	switch op {
	case "1>":
		op = ">"
	case "1>>":
		op = ">>"
	case "0<":
		op = "<"
	}
	return op == t.op && t.target.covers(&r.Target)
}

// against answers for a deny or ask table. Here an operator stands for what it
// does: > for everything that makes or empties a file, >> for what appends to
// one, < for what reads.
func (t *redirectToken) against(r *Redirect) Match {
	if len(t.op) > 1 && t.op != ">>" && r.FD+">" != t.op {
		return No
	}
	reads, writes, appends := r.effect()
	switch {
	case t.op == "<" && !reads, t.op == ">>" && !appends:
		return No
	case t.op != "<" && t.op != ">>" && !writes:
		return No
	}
	m := t.target.holds(&r.Target, false)
	if m == No && t.target.kind == lit && r.Target.kind == fixed &&
		path.Clean(r.Target.Text) == path.Clean(t.target.text) {
		return Maybe
	}
	return m
}

func (r *Redirect) effect() (reads, writes, appends bool) {
	switch r.Op {
	case "<", "<&":
		return true, false, false
	case "<>":
		return true, true, false
	case ">>", "&>>":
		return false, false, true
	}
	return false, true, false // > >| >& &>
}

// redirected answers whether a command has every redirection that the pattern
// spells.
func (p *Pattern) redirected(redirects []Redirect) Match {
	m := Yes
	for k := range p.redirects {
		found := No
		for i := range redirects {
			if redirects[i].Harmless() {
				continue
			}
			found = max(found, p.redirects[k].against(&redirects[i]))
		}
		m = min(m, found)
	}
	return m
}

// MatchRedirect answers for a deny or ask table about one file that is about to
// be opened for a redirection, when the words of its command are no longer
// known: op is the operator with the number of the descriptor, if one was
// written (">", ">>", "<", "2>"), and target the name after all expansion. A
// pattern that spells no redirection answers no; one whose words are just **
// answers as its redirection does; for any other the answer is at most a maybe.
func (p *Pattern) MatchRedirect(op, target string) Match {
	i := 0
	for i < len(op) && op[i] >= '0' && op[i] <= '9' {
		i++
	}
	r := Redirect{FD: op[:i], Op: op[i:], Target: Static(target)}
	if r.Harmless() {
		return No
	}
	found := No
	for k := range p.redirects {
		found = max(found, p.redirects[k].against(&r))
	}
	if len(p.redirects) > 1 || len(p.words) != 1 || p.words[0].kind != rest || len(p.assigns) > 0 {
		return min(found, Maybe)
	}
	return found
}

// tokens returns the words of s with its redirections among them as tokens of
// their own, as a reader that knows no redirections would see them. A rule
// written for such a reader keeps its meaning that way. Redirections that name
// no file are left out.
func (s *Segment) tokens() []Word {
	var out []Word
	k := 0
	for i := 0; i <= len(s.Words); i++ {
		for ; k < len(s.Redirects) && s.Redirects[k].at <= i; k++ {
			r := &s.Redirects[k]
			switch {
			case r.Harmless():
			case r.glued && r.Target.IsStatic():
				out = append(out, Static(r.FD+r.Op+r.Target.Text))
			case r.glued:
				out = append(out, dynamic(r.FD+r.Op+r.Target.Text, r.FD+r.Op, ""))
			default:
				out = append(out, Static(r.FD+r.Op), r.Target)
			}
		}
		if i < len(s.Words) {
			out = append(out, s.Words[i])
		}
	}
	return out
}
