package argv

import "strings"

// Covers tells whether p matches every command that q matches, so that q beside
// it in one table adds nothing. It may be false for patterns of which that is
// true all the same.
func (p *Pattern) Covers(q *Pattern) bool {
	if len(p.redirects)+len(p.assigns) > 0 {
		return p.text == q.text
	}
	for i := range p.words {
		t := &p.words[i]
		if t.kind == rest {
			return true
		}
		if i >= len(q.words) {
			return false
		}
		switch o := &q.words[i]; {
		case o.kind == rest:
			return false
		case t.kind == star:
		case o.kind != lit || o.text != t.text || t.exact && !o.exact:
			return false
		}
	}
	return len(p.words) == len(q.words)
}

// Plain tells whether p spells neither a redirection nor an assignment.
func (p *Pattern) Plain() bool { return len(p.redirects)+len(p.assigns) == 0 }

// Open tells whether p ends in **, so that any further words match.
func (p *Pattern) Open() bool { return p.open() }

// Literal tells whether p has neither * nor **, so that it matches one spelling
// of one command.
func (p *Pattern) Literal() bool {
	for i := range p.words {
		if p.words[i].kind != lit {
			return false
		}
	}
	for i := range p.redirects {
		if p.redirects[i].target.kind != lit {
			return false
		}
	}
	return true
}

// Runs says what p, as a pattern of an allow table, lets run beside the program
// it names, in words that can follow "it allows ", or "". Only what is left
// open by * or ** counts: a pattern that spells every word allows what it shows.
func (p *Pattern) Runs() string {
	t := &p.words[0]
	if p.Literal() {
		return p.hides()
	}
	if t.kind != lit {
		return "every program"
	}
	name := program(t.text)
	switch {
	case strings.Contains(subcommands, " "+name+" "):
		if len(p.words) > 1 && p.words[1].kind == lit && !strings.HasPrefix(p.words[1].text, "-") {
			return ""
		}
		return "options in front of the subcommand, some of which run programs"
	case runners[name] != nil:
		return "whatever the arguments of " + name + " run"
	case strings.Contains(interpreters, " "+name+" "):
		return "any program text given to " + name
	case strings.Contains(launchers, " "+name+" "):
		return "options of " + name + " that run programs or write files"
	}
	return ""
}

// hides says what a pattern that spells every word runs unseen, if it does.
func (p *Pattern) hides() string {
	seg := Segment{}
	for i := range p.words {
		seg.Words = append(seg.Words, Static(p.words[i].text))
	}
	var l looker
	l.segment(&seg)
	if l.hidden == "" {
		return ""
	}
	return "what nobody can see: " + l.hidden
}

const (
	subcommands  = " git kubectl docker podman "
	interpreters = " python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit awk gawk mawk nawk tclsh wish expect osascript pwsh powershell R Rscript julia ghci irb iex erl guile racket scala groovy jshell m4 bc dc ed ex vi vim nvim emacs "
	launchers    = " find fd tar sed sort rsync make gmake npx bunx uvx pipx zip cpio crontab at batch git-shell gdb less more man rg ag curl wget tee dd install cp mv ln "
)

// RiskyEnv tells whether name is that of an environment variable that can make other programs
// run or load something, which an allow should not pass over.
func RiskyEnv(name string) bool {
	if strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") || strings.HasPrefix(name, "BASH_FUNC") || strings.HasPrefix(name, "GIT_CONFIG") {
		return true
	}
	return strings.Contains(" PATH IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND SHELL CDPATH HOME "+
		"PAGER EDITOR VISUAL BROWSER MANPAGER LESSOPEN LESSCLOSE GIT_SSH GIT_SSH_COMMAND GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS SSH_ASKPASS GIT_EXTERNAL_DIFF GIT_DIR GIT_WORK_TREE GIT_EXEC_PATH GIT_PROXY_COMMAND GIT_TEMPLATE_DIR "+
		"PYTHONPATH PYTHONSTARTUP PYTHONHOME PERL5LIB PERL5OPT PERL5DB RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH GOFLAGS GOENV CC CXX MAKEFLAGS RIPGREP_CONFIG_PATH RUSTC_WRAPPER CARGO_HOME TAR_OPTIONS GLOBIGNORE TEXTDOMAINDIR ",
		" "+name+" ")
}

// CoversWords tells whether p covers the words of s, whatever its redirections
// and assignments.
func (s *Segment) CoversWords(p *Pattern) bool { return len(s.Words) > 0 && p.covers(s.Words) }

// FileRedirect returns the first redirection of s that names a file and that p
// does not spell, as a person would write it, or "".
func (s *Segment) FileRedirect(p *Pattern) string {
	for i := range s.Redirects {
		r := &s.Redirects[i]
		if !r.Harmless() && !p.spelled([]Redirect{*r}) {
			return r.String()
		}
	}
	return ""
}

// AssignedNames returns the names that s assigns and that an allow by p must not
// pass over.
func (s *Segment) AssignedNames(p *Pattern, env map[string]bool) (names []string) {
	for i := range s.Assigns {
		if a := &s.Assigns[i]; !p.passes(a, env) {
			names = append(names, a.Name)
		}
	}
	return names
}
