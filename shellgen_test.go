package rulvar_test

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// shellGen writes commands that are nasty on purpose: it knows the grammar of the
// shell well enough to hide a denied command in every corner of it, and then
// breaks a part of what it wrote. It names no program outside the box, no path
// but that of the stubs, and nothing that could reach out of the directory.
type shellGen struct {
	rand  *rand.Rand
	depth int
	tame  bool // write mostly what the rules allow, so that an allow is tested
}

func (g *shellGen) pick(list []string) string { return list[g.rand.IntN(len(list))] }

func (g *shellGen) chance(percent int) bool { return g.rand.IntN(100) < percent }

// command returns one text.
func (g *shellGen) command() string {
	g.depth, g.tame = 0, g.chance(50)
	var s string
	switch g.rand.IntN(10) {
	case 0:
		s = g.soup()
	case 1, 2:
		s = g.simple()
	default:
		s = g.list()
	}
	if g.chance(25) && !strings.ContainsAny(s, "/") && !strings.Contains(s, "f()") {
		s = g.mutate(s)
	}
	return strings.ReplaceAll(s, "\x00", "")
}

var (
	shellNames   = []string{"ls", "cat", "cp", "git", "echo", ":", "rm", "rm", "rm", "mv", "npm", "true", "test", "printf"}
	shellWords   = []string{"a", "-rf", "x", "b c", "status", "log", "1", "2", "-n", "*", "a*", "?", "[ab]", "~", "{a,b}", "{a,}", "{}", "a=b", "#", "x#y", "!", "rm", "-", "--", "%1", "é", ",", "^", "in", "do", "[", "]"}
	shellDynamic = []string{"$X", "\"$X\"", "$E", "\"$E\"", "$R", "$G", "$C", "${X}", "\"${X}\"", "$@", "\"$@\"", "$*", "$#", "$?", "$$", "${E:-rm}", "${X:+y}", "\"${X#a}\"", "$1", "$((1+1))", "\"$((2))\"", "${#X}", "$'a b'", "$'rm'", "$'\\''", "$\"x\"", "$", "\"$\"", "$9", "${X@Q}", "${!X}", "\"a$E\"b", "$E$X", "pre$X", "$X/y"}
	shellSeps    = []string{";", " ; ", "&&", " && ", "||", " || ", "|", " | ", "&", " & ", "\n", "\n\n", " |& ", ";\n", "&&\n", "|\\\n", "\r\n", ";;", "& ;"}
	shellBlanks  = []string{" ", " ", " ", "  ", "\t", " \\\n", "\\\n ", " \t "}
	shellTargets = []string{"/dev/null", "f", "f", "&1", "&2", "&-", "\"f g\"", "$X", "\"$X\"", "$E", "(ls)", "&f", "1"}
	shellRedirs  = []string{">", ">>", "<", "2>", "2>>", "&>", "<>", ">|", "1>", "0<", "3>", "{v}>", "2>&1 >", "<<<"}
)

// name writes the name of a command.
func (g *shellGen) name() string {
	n := g.pick(shellNames)
	if g.tame && g.chance(97) {
		return g.quote(g.pick([]string{"ls", "ls", "echo", "echo", ":", "cat", "cp", "true", "test", "git", "printf"}))
	}
	switch g.rand.IntN(24) {
	case 0:
		return "../bin/" + strings.Trim(n, ":")
	case 1:
		return g.pick(shellDynamic)
	case 2:
		return "$R"
	case 3:
		return "\"$R\""
	case 4:
		return n[:len(n)-1] + "?"
	case 5:
		return g.pick([]string{"{rm,x}", "r$E\\m", "r\"\"m", "r''m", "r\\\nm", "\\rm", "'rm'", "\"rm\"", "$'\\x72m'", "r${E}m", "r$@m", "rm$E", "$E rm", "'r'm", "r\\m", "$'r\\u006d'", "r$''m", "$\"rm\""})
	}
	return g.quote(n)
}

// quote spells a word in one of many ways, mostly plain.
func (g *shellGen) quote(w string) string {
	switch g.rand.IntN(14) {
	case 0:
		return "'" + w + "'"
	case 1:
		return "\"" + w + "\""
	case 2:
		return "\\" + w
	case 3:
		if len(w) > 1 {
			return w[:1] + "''" + w[1:]
		}
	case 4:
		if len(w) > 1 {
			return w[:1] + "\\\n" + w[1:]
		}
	case 5:
		return "\"\"" + w
	}
	if strings.ContainsAny(w, " ") {
		return "'" + w + "'"
	}
	return w
}

func (g *shellGen) word() string {
	r := g.rand.IntN(100)
	if g.tame && g.chance(80) {
		r = g.rand.IntN(65)
	}
	switch {
	case r < 60:
		return g.quote(g.pick(shellWords))
	case r < 85:
		return g.pick(shellDynamic)
	case r < 90 && g.depth < 4:
		return g.substitution()
	case r < 93:
		return "'" + g.pick(shellWords) + "\n" + g.pick(shellWords) + "'"
	case r < 96:
		return g.quote(g.pick(shellWords)) + g.pick(shellDynamic)
	}
	return g.pick([]string{"\"a;rm x\"", "'; rm x'", "\\;", "\\$R", "'$R'", "\"\\$R\"", "\"a\\\nb\"", "\"a\\b\"", "\"`echo rm`\"", "''", "\"\"", "a\\ b", "\"it's\"", "'\"'", "a\rb", "'a\rb'", "\v", "a\fb", "\u00a0", "\u200b"})
}

func (g *shellGen) substitution() string {
	g.depth++
	defer func() { g.depth-- }()
	inner := g.list()
	switch g.rand.IntN(7) {
	case 0:
		return "$(" + inner + ")"
	case 1:
		return "\"$(" + inner + ")\""
	case 2:
		return "`" + strings.ReplaceAll(inner, "`", "") + "`"
	case 3:
		return "<(" + inner + ")"
	case 4:
		return "${E:-$(" + inner + ")}"
	case 5:
		return "$((1+$(" + inner + ")))"
	}
	return "'$(" + strings.ReplaceAll(inner, "'", "") + ")'"
}

// simple writes a simple command with assignments, redirections and wrappers.
func (g *shellGen) simple() string {
	var parts []string
	for g.chance(12) {
		parts = append(parts, g.pick([]string{"V=1", "V=", "W=x", "V=$X", "V='a b'", "V+=1", "V[0]=1", "W=$(rm q)", "\"V\"=1", "V\\=1", "W=~"}))
	}
	if g.chance(8) {
		parts = append(parts, g.redirect())
	}
	if g.chance(20) && (!g.tame || g.chance(15)) {
		parts = append(parts, g.wrapper())
	} else {
		parts = append(parts, g.name())
		for g.chance(62) {
			parts = append(parts, g.word())
		}
	}
	for g.chance(14) {
		i := g.rand.IntN(len(parts) + 1)
		parts = slices.Insert(parts, i, g.redirect())
		if g.chance(20) {
			parts = slices.Insert(parts, i+1, g.name())
		}
	}
	if g.chance(6) {
		parts = append(parts, g.pick([]string{"#", "# it's", "# \"", "#x \\", "# `", "# $(rm x)", "#)"}))
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString(g.pick(shellBlanks))
		}
		b.WriteString(p)
	}
	return b.String()
}

func (g *shellGen) redirect() string {
	sep := ""
	if g.chance(40) {
		sep = " "
	}
	if g.tame && g.chance(85) {
		return g.pick([]string{">/dev/null", "2>/dev/null", "2>&1", ">&2", "> /dev/null", "&>/dev/null", "</dev/null", "2>&-", ">> /dev/null", "2>& 1"})
	}
	return g.pick(shellRedirs) + sep + g.pick(shellTargets)
}

// wrapper writes a command that runs another.
func (g *shellGen) wrapper() string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 3 {
		return g.name() + " " + g.word()
	}
	inner := g.simple()
	text := strings.ReplaceAll(inner, "'", "")
	switch g.rand.IntN(24) {
	case 0:
		return "env " + inner
	case 1:
		return "env V=1 -i " + inner
	case 2:
		return "command " + inner
	case 3:
		return "exec " + inner
	case 4:
		return "nohup " + inner
	case 5:
		return "nice -n 3 " + inner
	case 6:
		return "timeout 3 " + inner
	case 7:
		return "sudo -u x " + inner
	case 8:
		return "xargs " + inner
	case 9:
		return "find . -name x -exec " + inner + " \\;"
	case 10:
		return "eval " + inner
	case 11:
		return "eval '" + text + "'"
	case 12:
		return "sh -c '" + text + "'"
	case 13:
		return "bash -xc '" + text + "' a rm b"
	case 14:
		return "trap '" + text + "' EXIT"
	case 15:
		return "builtin " + g.pick([]string{"eval ", "command ", "exec ", ""}) + inner
	case 16:
		return "setsid " + inner
	case 17:
		return "! " + inner
	case 18:
		return "time " + g.pick([]string{"", "-p ", "-- ", "-p -- "}) + inner
	case 19:
		return "coproc " + inner
	case 20:
		return "echo " + inner + " | sh"
	case 21:
		return "set -- " + inner + "; \"$@\""
	case 22:
		return g.pick([]string{"printf -v 'q[$(rm x)]' y", "test -v 'q[$(rm x)]'", "unset 'q[$(rm x)]'", "declare -n q='z[$(rm x)]'; echo $q", "q='z[$(rm x)]'; echo $((q))", "q='$(rm x)'; echo ${q@P}",
			"q='z[$(rm x)]'; [[ q -eq 1 ]]", "alias ls=rm\nls x", "let 'q[$(rm x)]=1'", "read 'q[$(rm x)]' <<< a", "q=rm; $q x", "q=(rm x); \"${q[@]}\"", "IFS=_; q=rm_x; $q", "q='rm x'; eval \"$q\"", "sh -c \"$C\"", "hash -p ../bin/rm ls; ls",
			"PS4='$(rm x)'; set -x; ls", "declare -i q; q='z[$(rm x)]'", "mapfile -C 'rm x' -c 1 q < /dev/null", "mapfile -C 'rm x' -c 1 q <<< y", "q=('z[$(rm x)]'); echo ${X:q}", "PROMPT_COMMAND='rm x' bash -i", "q='z[$(rm x)]'; echo ${X[q]}", "q=rm; eval $q x", "q() rm x; q", "shopt -s expand_aliases; alias ls=rm\nls x", "q=X; echo ${!q}", "exec 3<<< 'rm x'; . /dev/fd/3", "ls() { \"$@\"; }; ls rm x", "echo ${X/$(rm x)/}", "until rm x; do :; done", "select v in a; do rm x; done <<< 1", "[[ $(rm x) ]]", "echo $[1+$(rm x)]", "cat <<< $(rm x)", "ls() { rm x; }; ls", "set -o posix; rm x", "trap 'rm x' DEBUG; ls", "echo a | while read -r q; do rm $q; done"})
	}
	return "command -v rm"
}

// list writes commands in a row, or a compound command.
func (g *shellGen) list() string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth < 4 && g.chance(28) && (!g.tame || g.chance(10)) {
		return g.compound()
	}
	var b strings.Builder
	b.WriteString(g.simple())
	for g.chance(45) {
		b.WriteString(g.pick(shellSeps))
		if g.depth < 4 && g.chance(20) && (!g.tame || g.chance(10)) {
			b.WriteString(g.compound())
		} else {
			b.WriteString(g.simple())
		}
	}
	if g.chance(10) {
		b.WriteString(g.pick(shellSeps))
	}
	return b.String()
}

func (g *shellGen) compound() string {
	g.depth++
	defer func() { g.depth-- }()
	a, c := g.simple(), g.list()
	switch g.rand.IntN(17) {
	case 0:
		return "(" + c + ")"
	case 1:
		return "{ " + c + "; }"
	case 2:
		return "if " + a + "; then " + c + "; fi"
	case 3:
		return "if true; then " + a + "; else " + c + "; fi"
	case 4:
		return "while " + a + "; do " + c + "; break; done"
	case 5:
		return "for v in " + g.word() + " b; do " + c + "; done"
	case 6:
		return "case " + g.word() + " in a|x) " + a + ";; *) " + c + ";; esac"
	case 7:
		return "f() { " + strings.ReplaceAll(c, "f", "") + "; }; f"
	case 8:
		return "until ! " + a + "; do " + c + "; break; done"
	case 9:
		return "[[ -n x && " + g.word() + " ]] && " + c
	case 10:
		return "(( 1 )) && " + c
	case 11:
		return "cat <<E\n" + c + "\nE\n" + a
	case 12:
		return "cat <<'E'\n" + c + "\nE\n" + a
	case 13:
		return g.pick([]string{"sh", "cat", "bash"}) + " <<-E\n\t" + c + "\n\tE\n" + a
	case 14:
		return "for ((i=0;i<1;i++)); do " + c + "; done"
	case 15:
		return "{ " + c + "\n} >" + g.pick(shellTargets)
	}
	return "# comment " + g.pick([]string{"'", "\"", "\\", "`", ""}) + "\n" + c
}

// soup writes tokens without any order.
func (g *shellGen) soup() string {
	all := []([]string){shellNames, shellWords, shellDynamic, shellSeps, shellRedirs, {"(", ")", "{", "}", "'", "\"", "\\", "`", "$(", "${", "$((", "))", "\n", "if", "then", "fi", "do", "done", "case", "esac", "in", "!", "[[", "]]", ";;", "<<E", "\nE\n", "time", "'rm x'", "rm x", "\nrm x\n"}}
	var b strings.Builder
	for range 1 + g.rand.IntN(9) {
		b.WriteString(g.pick(all[g.rand.IntN(len(all))]))
		if g.chance(60) {
			b.WriteString(" ")
		}
	}
	return strings.ReplaceAll(b.String(), "/", "")
}

// mutate breaks a text in one or two places.
func (g *shellGen) mutate(s string) string {
	b := []byte(s)
	for range 1 + g.rand.IntN(2) {
		if len(b) < 2 {
			break
		}
		i := g.rand.IntN(len(b))
		switch g.rand.IntN(4) {
		case 0:
			b = append(b[:i], b[i+1:]...)
		case 1:
			b = append(b[:i], append([]byte(g.pick([]string{"'", "\"", "\\", "\n", ";", "(", ")", "$", "`", "#", " ", "&", "|", "<", ">", "{", "}", "\\\n", "!"})), b[i:]...)...)
		case 2:
			j := g.rand.IntN(len(b))
			b[i], b[j] = b[j], b[i]
		default:
			b = append(b[:i], append([]byte{b[i]}, b[i:]...)...)
		}
	}
	return strings.ReplaceAll(string(b), "/", "")
}

// shellDiffRows are commands that were judged wrongly once, and their like.
var shellDiffRows = []string{
	"(rm x)", "echo hi # foo \\\nrm x", "(echo hi # foo \\\nrm x)", "r\\\nm x", "$'rm' x", "rm${IFS}x", "v=rm; $v x", "r$@m x", "env rm x", "echo x | xargs rm",
	"sh -c 'rm x'", "eval 'rm x'", "trap 'rm x' EXIT", "echo rm x | sh", ">/dev/null rm x", "V+=1 rm x", "V[0]=1 rm x", "ls &>>/dev/null cp", "ls &>/dev/null rm x", "coproc eval 'rm x' |& :", "coproc eval time rm x", "time -- rm x", "time -- V=1 rm x", "time -p -- $\"rm\" x", "time -\\\n- $'rm' x", "env V[0]=1 rm x", "env V+=1 $R", "env V=1 -i V[]=1 \\rm", "export PS4+='$(rm x)'; set -x; ls", "git 1>f \"\"log", "PS4='$(rm x)'; set -x; ls", "declare -i q; q='z[$(rm x)]'", "a() rm x; a", "ls &>>/dev/null rm x", "(ls &>/dev/null rm x)", "x() { ls &>/dev/null rm x; }; x", "ls &>/dev/null 2>&1 cp a", "git status 10>&1", "git status 10>/dev/null", "echo $'\\''; rm x; echo $'\\''",
}
