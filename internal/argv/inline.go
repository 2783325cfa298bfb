package argv

import "strings"

// lookShell reads the text behind sh -c. A shell without one runs a file, or
// what it reads from its input.
func lookShell(l *looker, words []Word, level int) {
	name := base(words[0].Text)
	i, text, input := 1, false, false
	for i < len(words) {
		w := &words[i]
		if w.kind != fixed || w.flags&(glob|brace) != 0 {
			l.shellWord(w, text)
			return
		}
		s := w.Text
		if len(s) < 2 || s[0] != '-' && s[0] != '+' {
			if s == "-" {
				i++
			}
			break
		}
		i++
		switch s {
		case "--":
		case "--rcfile", "--init-file":
			i++
			continue
		case "--version", "--help":
			return
		case "--command":
			text = true
			continue
		default:
			if s[1] != '-' {
				text = text || s[0] == '-' && strings.Contains(s, "c")
				input = input || s[0] == '-' && strings.Contains(s, "s")
				i += strings.Count(strings.ToLower(s), "o")
			}
			continue
		}
		break
	}
	switch {
	case i >= len(words):
		if !text {
			l.hide(whyInput)
		}
	case text:
		l.textWord(name+" -c", &words[i], level)
	case input:
		l.hide(whyInput)
	default:
		l.file(&words[i])
	}
}

// shellWord looks at the first word of a shell that an expansion makes. It may be
// an option, a text, or the name of a file.
func (l *looker) shellWord(w *Word, text bool) {
	if _, prefix, suffix := w.loose(); text || w.loosely() || !strings.Contains(prefix+suffix, "/") || strings.HasPrefix(prefix, "-") || strings.HasPrefix(prefix, "+") {
		l.hide(whyText)
		return
	}
	l.file(w)
}

// textWord reads a word that a shell will run as a text.
func (l *looker) textWord(via string, w *Word, level int) {
	if !w.IsStatic() {
		l.hide(whyText)
		return
	}
	l.inline(via, w.Text, level)
}

// file looks at the name of a file that a shell runs: some are its input.
func (l *looker) file(w *Word) {
	_, prefix, suffix := w.loose()
	begins := strings.HasPrefix(prefix, "/dev/") || strings.HasPrefix(prefix, "/proc/") || w.kind != fixed && prefix == ""
	ends := suffix == "" || strings.HasSuffix(suffix, "stdin") || isDigits(suffix[len(suffix)-1:])
	if begins && (w.kind == fixed || ends) {
		l.hide(whyInput)
	}
}

func lookSource(l *looker, words []Word, _ int) {
	if len(words) > 1 {
		l.file(&words[1])
	}
}

func lookEval(l *looker, words []Word, level int) {
	words = words[1:]
	if len(words) > 0 && words[0].Text == "--" {
		words = words[1:]
	}
	l.inlineWords("eval", words, level)
}

func lookTrap(l *looker, words []Word, level int) {
	words = words[1:]
	for len(words) > 0 && words[0].kind == fixed && strings.HasPrefix(words[0].Text, "-") && len(words[0].Text) > 1 {
		if words[0].Text != "--" {
			return // -l and -p list
		}
		words = words[1:]
	}
	if len(words) > 1 && words[0].Text != "-" {
		l.textWord("trap", &words[0], level)
	} else if len(words) == 1 && !words[0].IsStatic() {
		l.hide(whyText)
	}
}

var watchWrapper = wrapper{short: "nqs", long: " interval equexit shotsdir "}

// lookWatch reads what watch runs, which is a text unless it has -x.
func lookWatch(l *looker, words []Word, level int) {
	i, known := watchWrapper.command(words)
	if !known {
		l.hide(whyInner)
		return
	}
	if i < len(words) {
		l.inner("watch", words[i:], level)
		l.inlineWords("watch", words[i:], level)
	}
}

var sshWrapper = wrapper{short: "bcDEeFIiJLlmOopQRSWwB", skip: 1}

// lookSSH reads what ssh runs on the other side, where the same names do the
// same harm.
func lookSSH(l *looker, words []Word, level int) {
	i, known := sshWrapper.command(words)
	if !known {
		l.hide(whyInner)
		return
	}
	for k := 1; k < i; k++ {
		if strings.Contains(strings.ToLower(words[k].Text), "command") {
			l.hide(whyText) // -o ProxyCommand=, LocalCommand=, RemoteCommand=
		}
	}
	if i < len(words) {
		l.inlineWords("ssh", words[i:], level)
	} else if len(words) > 1 {
		l.hide(whyInput)
	}
}

// lookCommandOption reads the text behind -c of su, script, flock and their
// like, and takes every other word for the beginning of a command.
func lookCommandOption(l *looker, words []Word, level int) {
	name, text := base(words[0].Text), false
	for i := 1; i < len(words) && l.more(i); i++ {
		w := &words[i]
		if w.kind != fixed {
			l.hide(whyText)
			return
		}
		s := w.Text
		if c, ok := strings.CutPrefix(s, "--command="); ok {
			l.inline(name+" -c", c, level)
			text = true
			continue
		}
		if s == "--command" || len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.HasSuffix(s, "c") {
			text = true
			if i++; i < len(words) {
				l.textWord(name+" -c", &words[i], level)
			}
		}
	}
	if name != "su" {
		l.looseSuffixes(name, words, 1, level)
	} else if !text {
		l.hide(whyInput)
	}
}

// lookParallel takes the words up to ::: for a command and for a text.
func lookParallel(l *looker, words []Word, level int) {
	end := 1
	for end < len(words) && !strings.HasPrefix(words[end].Text, ":::") {
		end++
	}
	if end == 1 {
		l.hide(whyText) // the arguments are the commands
		return
	}
	cmd := append(filled(words[:end], "{}"), unknown(""))
	for i := 1; i < end && l.more(i); i++ {
		if strings.HasPrefix(cmd[i].Text, "-") && cmd[i].kind == fixed {
			continue
		}
		l.inner("parallel", cmd[i:], level)
		if strings.ContainsAny(cmd[i].Text, " \t\n;&|") && cmd[i].IsStatic() {
			l.inline("parallel", cmd[i].Text, level)
		}
	}
}

var (
	gitOptions     = wrapper{short: "Cc", long: " git-dir work-tree namespace super-prefix config-env exec-path attr-source "}
	kubectlOptions = wrapper{short: "nsv", long: " context namespace cluster user kubeconfig server token as as-group cache-dir certificate-authority client-certificate client-key request-timeout tls-server-name profile profile-output v vmodule log-file "}
	dockerOptions  = wrapper{short: "Hcl", long: " host context config log-level tlscacert tlscert tlskey url connection identity "}
)

// lookGit and its kin look past the global options that stand in front of a
// subcommand, so that a rule for "git push **" meets git -C dir push.
func lookGit(l *looker, words []Word, level int) {
	for i := 1; i < len(words) && strings.HasPrefix(words[i].Text, "-"); i++ {
		setting := words[i].Text
		if setting == "-c" && i+1 < len(words) {
			i++
			setting = words[i].Text
		}
		if gitRuns(strings.ToLower(strings.TrimPrefix(setting, "-c"))) {
			l.hide(whySetting)
		}
	}
	l.subcommand(&gitOptions, words, level)
}

// gitRuns tells whether a setting of git names a program that git starts.
func gitRuns(setting string) bool {
	key, _, _ := strings.Cut(setting, "=")
	for _, begin := range [...]string{"alias.", "pager.", "core.fsmonitor", "core.pager", "core.editor", "core.sshcommand", "core.askpass", "core.hookspath", "core.gitproxy",
		"diff.external", "sequence.editor", "credential.", "filter.", "gpg.", "interactive.difffilter", "include", "protocol.ext", "uploadpack.", "--config-env", "--exec-path"} {
		if strings.HasPrefix(key, begin) {
			return true
		}
	}
	return strings.HasSuffix(key, ".cmd") || strings.HasSuffix(key, ".textconv") || strings.HasSuffix(key, ".command") || strings.HasSuffix(key, ".driver") || strings.HasSuffix(key, ".program")
}

func lookKubectl(l *looker, words []Word, level int) { l.subcommand(&kubectlOptions, words, level) }
func lookDocker(l *looker, words []Word, level int)  { l.subcommand(&dockerOptions, words, level) }

func (l *looker) subcommand(options *wrapper, words []Word, _ int) {
	i, known := options.command(words)
	if !known {
		i = 1
		for i < len(words) && words[i].IsStatic() && strings.HasPrefix(words[i].Text, "-") {
			i++
		}
	}
	if i <= 1 || i >= len(words) {
		return
	}
	cmd := append([]Word{words[0]}, words[i:]...)
	l.views = append(l.views, view{words: cmd, seg: l.seg, cap: Maybe, via: base(words[0].Text) + " options"})
}

// evaluates says why a command runs something that its words do not show, for
// builtins that take a name with a subscript (which may hold a substitution),
// change what names mean, or call a command back.
func evaluates(name string, words []Word) string {
	args := words[1:]
	switch name {
	case "unset", "let", "getopts", "declare", "typeset", "local", "export", "readonly":
		return subscripts(args, true, "")
	case "mapfile", "readarray":
		for i := range args {
			if args[i].kind == fixed && strings.HasPrefix(args[i].Text, "-C") {
				return whyEvaluate
			}
		}
		return subscripts(args, true, "dinOsuc")
	case "read":
		return subscripts(args, true, "adinNptu")
	case "test", "[", "printf", "wait":
		return subscripts(args, false, "")
	case "alias":
		for i := range args {
			if !args[i].IsStatic() || strings.Contains(args[i].Text, "=") {
				return whyAlias
			}
		}
	case "enable", "bind", "complete", "compgen":
		if len(args) > 0 {
			return whyAlias
		}
	case "hash":
		for i := range args {
			if !args[i].IsStatic() || strings.HasPrefix(args[i].Text, "-") && strings.Contains(args[i].Text, "p") {
				return whyAlias
			}
		}
	case "awk", "gawk", "mawk", "nawk":
		for i := range args {
			if args[i].kind == fixed && awkRuns(args[i].Text) {
				return whyProgram
			}
		}
	}
	return ""
}

// subscripts looks for names that a builtin would evaluate: behind -v, -R or -p,
// or, with every, in any argument but that of an option whose letter is in short.
func subscripts(args []Word, every bool, short string) string {
	for i := range args {
		w := &args[i]
		if w.kind == fixed && (strings.Contains(w.Text, "$(") || strings.Contains(w.Text, "`")) && strings.Contains(w.Text, "[") {
			return whyEvaluate
		}
		before := ""
		if i > 0 && args[i-1].kind == fixed {
			before = args[i-1].Text
		}
		if len(before) > 1 && before[0] == '-' && strings.IndexByte(short, before[len(before)-1]) >= 0 && w.IsOne() {
			continue
		}
		behind := before == "-v" || before == "-R" || before == "-p"
		if w.kind != fixed && (behind || every && !strings.Contains(w.prefix(), "=")) {
			return whyEvaluate
		}
	}
	return ""
}

// awkRuns tells whether an awk program starts other programs: by system, by a
// pipe to or from a text.
func awkRuns(program string) bool {
	if strings.Contains(program, "system") || strings.Contains(program, "getline") {
		return true
	}
	for rest := program; ; {
		_, after, found := strings.Cut(rest, "print")
		if !found {
			return false
		}
		rest = after
		stmt := after
		if i := strings.IndexAny(stmt, ";}\n"); i >= 0 {
			stmt = stmt[:i]
		}
		if strings.Contains(strings.ReplaceAll(stmt, "||", ""), "|") {
			return true
		}
	}
}
