//go:build unix

package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

// The ways in which a text can come to execute something. Each tries to run
// "probe", which the policy denies, and which would leave a file behind.
var waysToExec = []struct{ name, command string }{
	{"plain", "probe"},
	{"by path", "./probe"},
	{"by absolute path", "$PWD/probe"},
	{"variable", "X=probe; $X"},
	{"quoted variable", `X=probe; "$X" -rf y`},
	{"indirect variable", "Y=probe; X=Y; ${!X}"},
	{"name reference", "Y=probe; declare -n X=Y; $X"},
	{"array", "a=(probe x); \"${a[@]}\""},
	{"positional parameters", "set -- probe; \"$@\"; $1"},
	{"default value", "${X:-probe}"},
	{"slice", "X=xprobe; ${X:1}"},
	{"replacement", "X=trobe; ${X/t/p}"},
	{"case", "X=PROBE; ${X,,}"},
	{"ANSI quoting", `$'\x70robe'`},
	{"glob", "pro*"},
	{"extended glob", "shopt -s extglob; @(probe)"},
	{"braces", "{probe,x}"},
	{"split", "X='probe x'; $X"},
	{"IFS", "IFS=,; X=probe,x; $X"},
	{"arithmetic", "X=probe; ${X:$((0))}"},
	{"printf -v", "printf -v X %s probe; $X"},
	{"read", "echo probe > cmd; read X < cmd; $X"},
	{"loop", "for X in ls probe; do $X; done"},
	{"while read", "echo probe | while read X; do $X; done"},
	{"mapfile", "echo probe > cmd; mapfile -t a < cmd; ${a[0]}"},
	{"subshell", "(probe)"},
	{"group", "{ probe; }"},
	{"negation", "! probe"},
	{"time", "time probe"},
	{"and-or", "true && probe; false || probe"},
	{"pipeline, left", "probe | cat"},
	{"pipeline, middle", "echo | probe | cat"},
	{"pipeline, right", "echo x | probe"},
	{"pipeline with stderr", "ls |& probe"},
	{"background", "probe & wait"},
	{"background, not waited for", "probe &"},
	{"if", "if probe; then :; fi"},
	{"then", "if true; then probe; fi"},
	{"while", "while probe; do break; done"},
	{"until", "until probe; do break; done"},
	{"case word", "case $(probe) in *) ;; esac"},
	{"case item", "case a in a) probe;; esac"},
	{"case fall-through", "case a in a) ;& b) probe;; esac"},
	{"select", "echo 1 | select x in probe; do $x; break; done"},
	{"C loop", "for ((i=0; i<1; i++)); do probe; done"},
	{"substitution", "echo $(probe)"},
	{"backquotes", "echo `probe`"},
	{"nested substitution", "echo $(echo $(probe))"},
	{"substitution in a test", "[[ -n $(probe) ]]"},
	{"substitution in old test", "[ -n \"$(probe)\" ]"},
	{"substitution in arithmetic", "(( $(probe) + 1 ))"},
	{"substitution in an expansion", "echo $(( $(probe) + 1 ))"},
	{"substitution in a subscript", "a[$(probe)]=1"},
	{"substitution in a default", "echo ${X:-$(probe)}"},
	{"substitution in a declaration", "export X=$(probe)"},
	{"substitution in local", "f() { local X=$(probe); }; f"},
	{"substitution in an assignment", "X=$(probe)"},
	{"substitution in an array", "a=($(probe))"},
	{"substitution in a redirection", "echo x > $(probe)y"},
	{"substitution in a here-document", "cat <<EOF\n$(probe)\nEOF"},
	{"substitution in a here-string", "cat <<< $(probe)"},
	{"substitution in a pattern", "case a in $(probe)) ;; esac"},
	{"subscript that unset evaluates", `unset "a[$(probe)]"`},
	{"late subscript of unset", `a=(1); unset 'a[$(probe)]'`},
	{"late subscript in arithmetic", `X='a[$(probe)]'; echo $((X))`},
	{"late subscript of test -v", `a=(1); test -v 'a[$(probe)]'`},
	{"late subscript of printf -v", `printf -v 'a[$(probe)]' x`},
	{"late subscript of read", `echo x | read 'a[$(probe)]'`},
	{"late subscript of let", `let 'x=a[$(probe)]'`},
	{"late subscript of an indirection", `X='a[$(probe)]'; echo ${!X}`},
	{"prompt expansion", `X='$(probe)'; echo ${X@P}`},
	{"expansion of escapes", `X='$(probe)'; echo ${X@E}`},
	{"process substitution", "cat <(probe)"},
	{"process substitution, output", "echo x > >(probe)"},
	{"process substitution as an argument", "ls >(probe)"},
	{"coproc", "coproc probe"},
	{"named coproc", "coproc X { probe; }"},
	{"command", "command probe"},
	{"command -p", "command -p probe"},
	{"command command", "command command probe"},
	{"builtin", "builtin probe"},
	{"builtin command", "builtin command probe"},
	{"builtin exec", "builtin exec probe"},
	{"builtin eval", "builtin eval probe"},
	{"command eval", "command eval probe"},
	{"command exec", "command exec probe"},
	{"exec", "exec probe"},
	{"exec -a", "exec -a x probe"},
	{"exec in a subshell", "(exec probe)"},
	{"exec in a substitution", "echo $(exec probe)"},
	{"eval", "eval probe"},
	{"eval of pieces", `eval pro""be x`},
	{"eval of a variable", `X='pro"be"'; eval "$X"`},
	{"eval eval", `eval 'eval "probe"'`},
	{"eval with a function", `eval 'f() { probe; }'; f`},
	{"trap EXIT", "trap probe EXIT"},
	{"trap EXIT and exit", "trap probe EXIT; exit 0"},
	{"trap EXIT in a subshell", "(trap probe EXIT)"},
	{"trap ERR", "trap probe ERR; false"},
	{"trap with eval", "trap 'eval probe' EXIT"},
	{"source", "echo probe > cmd; source ./cmd"},
	{"dot", "echo probe > cmd; . ./cmd"},
	{"dot by PATH", "echo probe > cmd; PATH=$PWD:$PATH; . cmd"},
	{"source of a process substitution", ". <(echo probe)"},
	{"source of standard input", "echo probe | . /dev/stdin"},
	{"source of a here-document", ". /dev/stdin <<< probe"},
	{"source with parameters", "echo '$1' > cmd; . ./cmd probe"},
	{"function", "f() { probe; }; f"},
	{"function keyword", "function f { probe; }; f"},
	{"function with the name of a program", "ls() { probe; }; ls"},
	{"function with the name of a builtin", "cd() { probe; }; cd"},
	{"function with its own name", "probe() { command probe; }; probe"},
	{"function called by variable", "f() { probe; }; X=f; $X"},
	{"function that is handed the name", `f() { "$@"; }; f probe`},
	{"alias", "shopt -s expand_aliases\nalias x=probe\nx"},
	{"alias of an alias", "shopt -s expand_aliases\nalias y=probe\nalias x='y '\nx"},
	{"alias of a known name", "shopt -s expand_aliases\nalias ls=probe\nls"},
	{"alias of a command", "shopt -s expand_aliases\nalias x='command probe'\nx"},
	{"alias set by eval", "shopt -s expand_aliases\neval 'alias x=probe'\neval x"},
	{"PATH of one command", "PATH=$PWD probe"},
	{"environment of one command", "A=b probe"},
	{"PROMPT_COMMAND", "PROMPT_COMMAND=probe; echo"},
	{"BASH_ENV", "export BASH_ENV=./probe; echo"},
	{"PS4", "PS4='$(probe)'; set -x; echo"},
	{"PS3", "PS3='$(probe)'; echo 1 | select x in a; do break; done"},
	{"hash -p", "hash -p ./probe ls; ls"},
	{"enable", "enable -n command; command probe"},
	{"bind", "bind -x '\"a\":probe'"},
	{"complete", "complete -C probe x; compgen -C probe"},
	{"mapfile callback", "echo > cmd; mapfile -C probe -c 1 a < cmd"},
	{"fc", "fc -e probe"},
	{"a word that is refused", "probe; probe; X=probe; $X"},
}

// everyWay runs every way in a directory of its own, in which "probe" leaves a
// file, and returns the ways that left one.
func everyWay(t *testing.T, p *fakePolicy) (left []string) {
	t.Helper()
	r := testRunner(t, Options{})
	dir := t.TempDir()
	made := func(i int) string { return filepath.Join(dir, strconv.Itoa(i), "made") }
	var all strings.Builder
	for i, row := range waysToExec {
		sub := filepath.Dir(made(i))
		require.NoError(t, os.Mkdir(sub, 0o700))
		write(t, sub, "probe", "#!/bin/sh\n: > '"+made(i)+"'\n", 0o755)
		if p.deny != "" {
			p.deny += " " + filepath.Join(sub, "probe")
		}
		text := "PATH=$PATH:" + sub + "\n" + row.command
		if strings.HasPrefix(row.name, "trap") || strings.HasPrefix(row.name, "alias") { // not the same in a subshell
			res := runIn(t, r, sub, p, text, long)
			require.Empty(t, res.Error, row.name)
			continue
		}
		all.WriteString("(cd " + sub + "\n" + text + "\n)\n")
	}
	res := runIn(t, r, dir, p, all.String()+"wait; echo all", long)
	require.Empty(t, res.Error)
	require.Contains(t, res.Stdout, "all\n")
	for i, row := range waysToExec {
		if _, err := os.Stat(made(i)); err == nil {
			left = append(left, row.name)
		}
	}
	return left
}

// Whatever the text, no argv is executed that was not judged.
func TestNothingIsExecutedUnjudged(t *testing.T) {
	p := &fakePolicy{deny: "probe ./probe"}
	require.Empty(t, everyWay(t, p), "executed although it is denied; asked: %q", p.seen)
}

// The ways that the interpreter does not know, or knows as something harmless.
var closedWays = []string{
	"extended glob", "printf -v", "late subscript in arithmetic", "late subscript of test -v", "late subscript of printf -v",
	"late subscript of read", "late subscript of let", "late subscript of an indirection", "prompt expansion",
	"expansion of escapes", "process substitution as an argument", "coproc", "named coproc", "command -p", "builtin", "exec -a",
	"trap EXIT in a subshell", "source of standard input", "source of a here-document", "alias of an alias", "PROMPT_COMMAND",
	"BASH_ENV", "PS4", "PS3", "hash -p", "bind", "complete", "mapfile callback", "fc",
}

// The other ways do run the program where the policy does not deny it, so that
// the test above tests something.
func TestOpenWays(t *testing.T) {
	open := everyWay(t, &fakePolicy{})
	var closed []string
	for _, row := range waysToExec {
		if !slices.Contains(open, row.name) {
			closed = append(closed, row.name)
		}
	}
	require.Equal(t, closedWays, closed)
}

// A refusal has status 126, a message and a record, and the command goes on.
func TestRefusal(t *testing.T) {
	r := testRunner(t, Options{})
	p := &fakePolicy{deny: "rm", ask: "git"}
	res := runIn(t, r, t.TempDir(), p, `X=rm; $X -rf y; echo $?; git push; echo $?; rm a | cat; command rm; echo $?; exec git x; echo end`, long)
	require.Equal(t, "126\n126\n126\n", res.Stdout, "exec ends the shell although it was refused")
	require.Equal(t, 126, res.ExitCode)
	require.Equal(t, strings.Join([]string{
		"shell: rm: denied by policy",
		"shell: git: needs approval: nobody has approved this command as it would run",
		"shell: rm: denied by policy",
		"shell: rm: denied by policy",
		"shell: git: needs approval: nobody has approved this command as it would run", "",
	}, "\n"), res.Stderr)
	require.Equal(t, []Refusal{
		{Argv: []string{"rm", "-rf", "y"}, Verdict: rulvar.VerdictDeny},
		{Argv: []string{"git", "push"}, Verdict: rulvar.VerdictAsk},
		{Argv: []string{"rm", "a"}, Verdict: rulvar.VerdictDeny},
		{Argv: []string{"rm"}, Verdict: rulvar.VerdictDeny},
		{Argv: []string{"git", "x"}, Verdict: rulvar.VerdictAsk},
	}, res.Refused)
}

// Builtins and functions are judged like programs.
func TestRefusedBuiltins(t *testing.T) {
	r := testRunner(t, Options{})
	for _, row := range []struct{ name, deny, command, stdout string }{
		{"eval", "eval", "eval 'echo no'; echo $?", "126\n"},
		{"cd", "cd", "cd /; basename \"$PWD\"", "dir\n"},
		{"source", "source", "echo 'echo no' > f; source ./f; echo $?", "126\n"},
		{"trap", "trap", "trap 'echo no' EXIT", ""},
		{"echo", "echo", "echo no", ""},
		{"function", "f", "f() { echo no; }; f; echo $?", "126\n"},
		{"test", "[", "[ a = a ]; echo $?", "126\n"},
		{"kill", "kill", "kill -0 1; echo $?", "126\n"},
		{"wait at the end cannot be called by a function", "probe", "wait() { probe; }; sleep 0.01 &", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			require.NoError(t, os.Mkdir(dir, 0o700))
			res := runIn(t, r, dir, &fakePolicy{deny: row.deny}, row.command, long)
			require.Equal(t, row.stdout, res.Stdout, res.Stderr)
		})
	}
}

// Files are judged by every name they have: each of these would change "kept",
// in a directory of its own.
func TestRedirectionsAreJudged(t *testing.T) {
	r := testRunner(t, Options{})
	rows := []struct{ name, command, op string }{
		{"plain", "echo x > kept", ">"},
		{"append", "echo x >> kept", ">>"},
		{"both streams", "ls &> kept", ">"},
		{"both streams, append", "ls &>> kept", ">>"},
		{"standard error", "ls nope 2> kept", ">"},
		{"variable", "F=kept; echo x > $F", ">"},
		{"absolute", "echo x > $PWD/kept", ">"},
		{"dots", "mkdir -p d; echo x > d/../kept", ">"},
		{"another directory", "mkdir -p d; cd d; echo x > ../kept", ">"},
		{"symbolic link", "ln -s kept l; echo x > l", ">"},
		{"link to a directory", "ln -s . l; echo x > l/kept", ">"},
		{"exec", "exec > kept; echo x", ">"},
		{"group", "{ echo x; } > kept", ">"},
		{"loop", "for i in 1; do echo x; done > kept", ">"},
		{"function", "f() { echo x; } > kept; f", ">"},
		{"subshell", "(echo x) > kept", ">"},
		{"eval", "eval 'echo x > kept'", ">"},
		{"source", "echo 'echo x > kept' > f; . ./f", ">"},
		{"trap", "trap 'echo x > kept' EXIT", ">"},
		{"pipeline", "echo x | cat > kept", ">"},
		{"background", "echo x > kept & wait", ">"},
		{"substitution", "echo $(echo x > kept)", ">"},
		{"no command", "> kept", ">"},
		{"clobber", "echo x >| kept", ">"},
		{"read and write", "cat <> kept", ">"},
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	p := &fakePolicy{}
	var all strings.Builder
	for i, row := range rows {
		sub := filepath.Join(dir, strconv.Itoa(i))
		require.NoError(t, os.Mkdir(sub, 0o700))
		p.deny += " " + row.op + write(t, sub, "kept", row.name, 0o644)
		if strings.HasPrefix(row.name, "trap") { // not in a subshell
			require.Len(t, runIn(t, r, sub, p, row.command, long).Refused, 1)
			continue
		}
		all.WriteString("(cd " + sub + "\n" + row.command + "\n)\n")
	}
	res := runIn(t, r, dir, p, all.String()+"echo all", long)
	require.Contains(t, res.Stdout, "all\n")
	for i, row := range rows {
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i), "kept"))
		require.NoError(t, err)
		require.Equal(t, row.name, string(text), "it was changed")
	}
	// The interpreter knows neither >| nor <>.
	require.Len(t, res.Refused, len(rows)-3)
	t.Run("files that are read", func(t *testing.T) {
		dir := t.TempDir()
		secret := write(t, dir, "secret", "s3cret", 0o644)
		for _, command := range []string{"cat < secret", "echo $(<secret)", "read x < secret; echo $x", ". ./secret"} {
			res := runIn(t, r, dir, &fakePolicy{deny: "<" + secret}, command, long)
			require.NotContains(t, res.Stdout+res.Stderr, "s3cret", command)
			res = runIn(t, r, dir, &fakePolicy{ask: "<" + secret}, command, long)
			require.Empty(t, res.Refused, "an ask rule alone does not keep a file from being read")
		}
	})
}

// An argv of any bytes is judged as exactly these bytes.
func TestArgvOfAnyBytes(t *testing.T) {
	p := &fakePolicy{}
	res := runIn(t, testRunner(t, Options{}), t.TempDir(), p, `/bin/echo $'\xff\xfe' $'a\nb' '' 'ü' $'\x01' | od -An -tx1 | tr -d ' \n'`, long)
	require.Contains(t, p.seen, "/bin/echo|\xff\xfe|a\nb||ü|\x01")
	require.Equal(t, "fffe20610a622020c3bc20010a", res.Stdout)
	long := strings.Repeat("x", 5<<20)
	res = runIn(t, testRunner(t, Options{}), t.TempDir(), p, `x=xxxxxxxxxx; for i in 1 2 3 4 5 6; do x=$x$x$x$x$x$x$x$x$x$x; done; echo "$x" | wc -c; echo $?`, time.Minute)
	require.Contains(t, res.Stderr, "the arguments are too long")
	require.NotContains(t, res.Stdout, long)
	require.Equal(t, "0\n0\n", res.Stdout)
}

func TestPrintable(t *testing.T) {
	for _, row := range []struct{ name, in, want string }{
		{"plain", "word", "word"},
		{"control characters", "a\nb\x1b[2J\x00", "a\uFFFDb\uFFFD[2J\uFFFD"},
		{"bytes", "a\xff\xfeb", "a\uFFFDb"},
		{"long", strings.Repeat("x", 300), strings.Repeat("x", 200) + "…"},
		{"long, with runes", "a" + strings.Repeat("€", 100), "a" + strings.Repeat("€", 66) + "…"},
		{"long, with bytes", strings.Repeat("\xff", 300), "\uFFFD…"},
	} {
		require.Equal(t, row.want, printable(row.in), row.name)
	}
}
