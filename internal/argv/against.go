package argv

// Against matches p for a deny or ask table: the strongest answer over every
// command that the readers found, wherever it stands. Assignments in front of a
// command do not matter unless p spells them; redirections are left out, and
// also tried as words; a command behind a wrapper and a name that differs in its
// path or its case are a maybe.
func (c *Command) Against(p *Pattern) Match {
	c.analyse()
	m := No
	if c.look.hidden != "" {
		m = Maybe
	}
	var buf []Match
	for i := range c.look.views {
		if m = max(m, p.view(&c.look.views[i], &buf)); m == Yes {
			break
		}
	}
	return m
}

// AgainstSegment is [Command.Against] for one of [Command.Segments], and says
// which wrapper stood between the segment and what matched.
func (c *Command) AgainstSegment(i int, p *Pattern) (m Match, via string) {
	c.analyse()
	var buf []Match
	for k := c.views[i]; k < c.views[i+1]; k++ {
		v := &c.look.views[k]
		if found := p.view(v, &buf); found > m {
			m, via = found, v.via
		}
	}
	return m, via
}

// view matches p against one view.
func (p *Pattern) view(v *view, buf *[]Match) Match {
	m := p.against(v.words, buf)
	if m == Yes && len(p.assigns)+len(p.redirects) == 0 {
		return v.cap
	}
	if len(p.redirects) > 0 {
		m = min(m, p.redirected(v.seg.Redirects))
	} else if m != Yes && v.via == "" && len(v.seg.Redirects) > 0 {
		m = max(m, p.against(v.seg.tokens(), buf))
	}
	for k := range p.assigns {
		found := No
		for i := range v.seg.Assigns {
			if a := &v.seg.Assigns[i]; a.Name == p.assigns[k].Name {
				found = max(found, p.assigns[k].value(a))
			}
		}
		m = min(m, found)
	}
	return min(m, v.cap)
}

// value compares the value that a pattern spells with that of a command.
func (a *Assign) value(b *Assign) Match {
	if b.odd || !b.Value.IsStatic() {
		return Maybe
	}
	if b.Value.Text == a.Value.Text {
		return Yes
	}
	return No
}

// Allows tells whether p, as a pattern of an allow table, covers the segment:
// its words as they stand, every assignment either spelled by p or named in env,
// and every redirection to a file spelled by p. It is false for a segment with a
// Problem.
func (s *Segment) Allows(p *Pattern, env map[string]bool) bool {
	return s.Problem == "" && len(s.Words) > 0 && p.covers(s.Words) && p.spelled(s.Redirects) && p.assigned(s.Assigns, env)
}

// assigned tells whether an allow may pass over the assignments.
func (p *Pattern) assigned(assigns []Assign, env map[string]bool) bool {
	for k := range p.assigns {
		found := false
		for i := range assigns {
			found = found || p.assigns[k].spells(&assigns[i])
		}
		if !found {
			return false
		}
	}
	for i := range assigns {
		if !p.passes(&assigns[i], env) {
			return false
		}
	}
	return true
}

// passes tells whether an allow by p may pass over one assignment.
func (p *Pattern) passes(a *Assign, env map[string]bool) bool {
	found := env[a.Name] && !a.odd
	for k := range p.assigns {
		found = found || p.assigns[k].spells(a)
	}
	return found
}

func (a *Assign) spells(b *Assign) bool {
	return a.Name == b.Name && !b.odd && b.Value.IsStatic() && a.Value.Text == b.Value.Text
}
