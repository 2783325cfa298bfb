package argv

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// walker collects the simple commands of a syntax tree.
type walker struct {
	tree
	src    string
	capped int // how many substitutions we are in
	buf    []byte
	free   []*Segment
}

// add appends a segment. Inside a substitution a command asks, whatever the
// tables say.
func (w *walker) add(s *Segment) {
	if w.capped > 0 {
		s.capped = true
	}
	s.finish()
	w.segs = append(w.segs, *s)
}

// take returns an empty segment to fill, and release takes it back.
func (w *walker) take() *Segment {
	if n := len(w.free); n > 0 {
		s := w.free[n-1]
		w.free = w.free[:n-1]
		*s = Segment{}
		return s
	}
	return new(Segment)
}

func (w *walker) release(s *Segment) { w.free = append(w.free, s) }

// source returns the text of a node.
func (w *walker) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from < 0 || to > len(w.src) || from > to {
		return ""
	}
	return w.src[from:to]
}

func (w *walker) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		w.stmt(s)
	}
}

func (w *walker) stmt(s *syntax.Stmt) {
	if s == nil {
		return
	}
	seg := w.take()
	defer w.release(seg)
	var args []*syntax.Word
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		for _, a := range cmd.Assigns {
			w.assign(a, seg)
		}
		args = cmd.Args
		seg.Words = make([]Word, 0, len(args))
		for _, x := range args {
			seg.Words = append(seg.Words, w.word(x, seg))
		}
	case *syntax.DeclClause:
		w.onlyBash = true
		seg.Words = append(seg.Words, Static(cmd.Variant.Value))
		for _, a := range cmd.Args {
			w.declared(a, seg)
		}
	case *syntax.LetClause:
		w.onlyBash = true
		seg.Words = append(seg.Words, Static("let"))
		for _, x := range cmd.Exprs {
			w.arithm(x, seg)
			word := Static(w.source(x))
			if strings.ContainsAny(word.Text, "$`") {
				word = unknown(word.Text)
			}
			seg.Words = append(seg.Words, word)
		}
	case *syntax.ArithmCmd:
		w.onlyBash = true
		seg.Words = append(seg.Words, Static("(("), unknown(""))
		w.arithm(cmd.X, seg)
	case *syntax.TestClause:
		w.onlyBash = true
		seg.Words = append(seg.Words, Static("[["), unknown(""))
		w.test(cmd.X, seg)
	case nil:
	default:
		w.compound(cmd, seg)
		if len(s.Redirs) == 0 && seg.Problem == "" {
			return
		}
	}
	if !nests(s.Cmd) {
		// The end of a statement that holds others is found by asking each of
		// them in turn, at every level again.
		seg.Text = strings.TrimRight(w.source(s), " \t\n;&")
	}
	w.redirects(s.Redirs, args, seg)
	w.add(seg)
}

// nests tells whether a command holds other commands.
func nests(cmd syntax.Command) bool {
	switch cmd.(type) {
	case *syntax.CallExpr, *syntax.DeclClause, *syntax.LetClause, *syntax.ArithmCmd, *syntax.TestClause, nil:
		return false
	}
	return true
}

// compound walks a command that holds others. What it expands itself, such as
// the words of a loop, is noted in seg.
func (w *walker) compound(cmd syntax.Command, seg *Segment) {
	switch cmd := cmd.(type) {
	case *syntax.IfClause:
		for c := cmd; c != nil; c = c.Else {
			w.stmts(c.Cond)
			w.stmts(c.Then)
		}
	case *syntax.WhileClause:
		w.stmts(cmd.Cond)
		w.stmts(cmd.Do)
	case *syntax.ForClause:
		w.onlyBash = w.onlyBash || cmd.Select || cmd.Braces
		w.loop(cmd.Loop, seg)
		w.stmts(cmd.Do)
	case *syntax.CaseClause:
		w.visit(cmd.Word, seg)
		for _, item := range cmd.Items {
			for _, p := range item.Patterns {
				w.visit(p, seg)
			}
			w.onlyBash = w.onlyBash || item.Op != syntax.Break
			w.stmts(item.Stmts)
		}
	case *syntax.Block:
		w.stmts(cmd.Stmts)
	case *syntax.Subshell:
		w.stmts(cmd.Stmts)
	case *syntax.BinaryCmd:
		w.binary(cmd)
	case *syntax.FuncDecl:
		w.onlyBash = w.onlyBash || cmd.RsrvWord || cmd.Name == nil || !isName(cmd.Name.Value)
		w.stmt(cmd.Body)
	case *syntax.TimeClause:
		w.onlyBash = true
		if w.endsOptions(cmd.Stmt) {
			seg.unclear(whyTimed)
		}
		w.stmt(cmd.Stmt)
	case *syntax.CoprocClause:
		w.onlyBash = true
		if cmd.Name != nil {
			w.visit(cmd.Name, seg)
			if !takesName(cmd.Stmt) {
				seg.unclear(whyCoproc)
			}
		}
		w.stmt(cmd.Stmt)
	default:
		seg.unclear(whyCompound)
	}
}

// whyCoproc is why a command asks whose first word may be a name or a program.
const whyCoproc = "the word after \"coproc\" may be a name or a command"

// takesName tells whether bash lets the name of a coprocess stand before s: only
// before a compound command. Before anything else the word begins a command,
// where the grammar library may take it for the name.
func takesName(s *syntax.Stmt) bool {
	switch s.Cmd.(type) {
	case *syntax.Block, *syntax.Subshell, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.ArithmCmd, *syntax.TestClause:
		return true
	}
	return false
}

// whyTimed is why a command asks that bash times and reads anew.
const whyTimed = "after \"time --\" bash reads a command of its own"

// endsOptions tells whether a timed statement begins with a word that bash takes
// for the end of the options of time, and reads a whole command behind it, where
// the grammar library sees a command of that name. A quoted word is none, but
// nobody needs to write one.
func (w *walker) endsOptions(s *syntax.Stmt) bool {
	for s != nil {
		switch cmd := s.Cmd.(type) {
		case *syntax.BinaryCmd:
			s = cmd.X
			continue
		case *syntax.CallExpr:
			if len(cmd.Args) == 0 {
				return false
			}
			text := w.source(cmd.Args[0])
			return strings.Contains(text, "-") && strings.Trim(text, "-\\\r\n'\"$") == ""
		}
		return false
	}
	return false
}

// binary walks a chain such as a && b && c, which leans to the left, without
// calling itself for each link.
func (w *walker) binary(cmd *syntax.BinaryCmd) {
	var right []*syntax.Stmt
	x := cmd.X
	right = append(right, cmd.Y)
	w.onlyBash = w.onlyBash || cmd.Op == syntax.PipeAll
	for {
		next, ok := x.Cmd.(*syntax.BinaryCmd)
		if !ok || len(x.Redirs) > 0 {
			break
		}
		right = append(right, next.Y)
		w.onlyBash = w.onlyBash || next.Op == syntax.PipeAll
		x = next.X
	}
	w.stmt(x)
	for i := len(right) - 1; i >= 0; i-- {
		w.stmt(right[i])
	}
}

func (w *walker) loop(loop syntax.Loop, seg *Segment) {
	switch l := loop.(type) {
	case *syntax.WordIter:
		for _, x := range l.Items {
			w.visit(x, seg)
		}
	case *syntax.CStyleLoop:
		w.onlyBash = true
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			w.arithm(x, seg)
		}
	}
}

// visit looks at a word that is not part of a command for what it runs.
func (w *walker) visit(x *syntax.Word, seg *Segment) {
	if x != nil {
		w.word(x, seg)
	}
}

func (w *walker) assign(a *syntax.Assign, seg *Segment) {
	as := Assign{odd: a.Append || a.Index != nil || a.Array != nil}
	if a.Name != nil {
		as.Name = a.Name.Value
	}
	if as.odd {
		w.onlyBash = true
		seg.problem(whyAssign)
	}
	if !isName(as.Name) {
		// The library takes x-y=1 for an assignment; to a shell it is a command.
		w.onlyBash = true
		seg.unclear(whyAssign)
	}
	w.subscript(a.Index, seg)
	if a.Value != nil {
		as.Value = w.word(a.Value, seg)
	}
	if a.Array != nil {
		as.Value = unknown("")
		for _, e := range a.Array.Elems {
			w.subscript(e.Index, seg)
			w.visit(e.Value, seg)
		}
	}
	seg.Assigns = append(seg.Assigns, as)
}

// declared turns an argument of declare, export and their like into a word.
func (w *walker) declared(a *syntax.Assign, seg *Segment) {
	if a.Naked && a.Value != nil {
		seg.Words = append(seg.Words, w.word(a.Value, seg))
		return
	}
	name := ""
	if a.Name != nil {
		name = a.Name.Value
	}
	if a.Naked {
		w.subscript(a.Index, seg)
		if a.Index != nil {
			seg.Words = append(seg.Words, dynamic(name, name+"[", ""))
			return
		}
		seg.Words = append(seg.Words, Static(name))
		return
	}
	op := "="
	if a.Append {
		op = "+="
	}
	if a.Index != nil || a.Array != nil {
		w.assign(a, seg)
		seg.unclear(whyAssign)
		seg.Words = append(seg.Words, dynamic(name, name, ""))
		return
	}
	v := Word{}
	if a.Value != nil {
		v = w.word(a.Value, seg)
	}
	v.Text = name + op + v.Text
	if v.kind != fixed {
		v.known = &affixes{name + op + v.prefix(), v.suffix()}
	}
	seg.Words = append(seg.Words, v)
}

// redirects records the redirections of a command. The tree keeps them apart
// from the words, so their place among args is found by position.
func (w *walker) redirects(list []*syntax.Redirect, args []*syntax.Word, seg *Segment) {
	at := 0
	for _, r := range list {
		for at < len(args) && args[at].Pos().Offset() < r.Pos().Offset() {
			at++
		}
		red := Redirect{Op: r.Op.String(), at: at}
		if r.N != nil {
			red.FD = r.N.Value
			w.onlyBash = w.onlyBash || !isDigits(red.FD)
		}
		w.visit(r.Hdoc, seg)
		if r.Word != nil {
			red.Target = w.word(r.Word, seg)
			red.glued = int(r.Word.Pos().Offset()) == int(r.OpPos.Offset())+len(red.Op)
		}
		switch r.Op {
		case syntax.RdrAll, syntax.AppAll:
			w.onlyBash = true
			w.ampersands = append(w.ampersands, int(r.OpPos.Offset()))
		case syntax.WordHdoc:
			w.onlyBash = true
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			seg.unclear(whyHereDoc)
			seg.capped = true
		case syntax.WordHdoc:
			seg.unclear(whyHereString)
		default:
			seg.Redirects = append(seg.Redirects, red)
		}
	}
}
