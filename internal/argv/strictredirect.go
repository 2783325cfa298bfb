package argv

import "strings"

// redirect takes an operator at the current place and its target. fd is the
// word directly in front of it: digits, {name} or nothing.
func (r *strictReader) redirect(fd string) {
	op := r.operator()
	red := Redirect{FD: fd, Op: op, at: len(r.cur.Words)}
	switch op {
	case "<(", ">(":
		r.lose(whySubstitution)
		r.cur.unclear(whySubstitution)
		r.cur.capped = true
		r.end()
		return
	case "<<", "<<-":
		r.hereDoc(op)
		return
	}
	from := r.pos
	r.blanks()
	red.glued = r.pos == from
	w, ok := r.target()
	if op == "<<<" {
		r.cur.unclear(whyHereString)
		return
	}
	if !ok {
		r.lose(whyTarget)
		r.cur.unclear(whyTarget)
		return
	}
	red.Target = w
	if (op == ">&" || op == "<&") && !red.Harmless() && (op == "<&" || fd != "") {
		// 2>&word: shells differ, and may take it for a file.
		r.cur.problem(whyTarget)
	}
	r.cur.Redirects = append(r.cur.Redirects, red)
	r.ampersand = r.ampersand || op[0] == '&'
}

// operator takes the operator at the current place.
func (r *strictReader) operator() string {
	for _, op := range [...]string{"<<<", "<<-", "&>>", "<<", "<&", "<>", "<(", ">>", ">&", ">|", ">(", "&>", "<", ">"} {
		if strings.HasPrefix(r.src[r.pos:], op) {
			r.pos += len(op)
			return op
		}
	}
	r.pos++ // not reached: the caller has seen an operator
	return ""
}

// blanks passes over blanks and line continuations.
func (r *strictReader) blanks() {
	for r.pos < len(r.src) {
		switch {
		case isBlank(r.src[r.pos]):
			r.pos++
		case strings.HasPrefix(r.src[r.pos:], "\\\n"):
			r.pos += 2
		default:
			return
		}
	}
}

// target takes the word that an operator needs.
func (r *strictReader) target() (Word, bool) {
	if r.pos == len(r.src) || strings.IndexByte("\n;&|<>()#", r.src[r.pos]) >= 0 {
		return Word{}, false
	}
	from := r.pos
	w, _ := r.word()
	return w, r.pos > from
}

// hereDoc takes the delimiter of a here-document. Its body follows after the
// next newline.
func (r *strictReader) hereDoc(op string) {
	r.blanks()
	w, ok := r.target()
	r.cur.unclear(whyHereDoc)
	r.cur.capped = true
	r.lose(whyHereDoc)
	if ok && w.kind == fixed {
		r.pending = append(r.pending, hereDoc{delimiter: w.Text, tabs: op == "<<-"})
	}
}
