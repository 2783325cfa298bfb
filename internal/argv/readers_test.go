package argv_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/argv"
)

// TestDenyFinds holds what a deny on "rm **" answers for every way we know in
// which a shell can be made to start rm. Each of them slipped through some
// matcher once; none may answer no.
func TestDenyFinds(t *testing.T) {
	rm := compile(t, "rm **")
	for name, row := range map[string]struct {
		text string
		want argv.Match
	}{
		"plain":                       {"rm -rf /x", argv.Yes},
		"alone":                       {"rm", argv.Yes},
		"subshell":                    {"(rm -rf /x)", argv.Yes},
		"subshell, spaced":            {"( rm -rf /x )", argv.Yes},
		"brace group":                 {"{ rm -rf /x; }", argv.Yes},
		"if, then":                    {"if true; then rm -rf /x; fi", argv.Yes},
		"if, condition":               {"if rm -rf /x; then :; fi", argv.Yes},
		"else":                        {"if false; then :; else rm -rf /x; fi", argv.Yes},
		"elif":                        {"if false; then :; elif rm x; then :; fi", argv.Yes},
		"while":                       {"while rm -rf /x; do break; done", argv.Yes},
		"until":                       {"until rm x; do :; done", argv.Yes},
		"loop body":                   {"for i in 1; do rm -rf /x; done", argv.Yes},
		"arithmetic loop":             {"for ((i=0;i<1;i++)); do rm x; done", argv.Yes},
		"select":                      {"select v in a; do rm x; done", argv.Yes},
		"case arm":                    {"case x in x) rm -rf /x;; esac", argv.Yes},
		"function body":               {"f() { rm -rf /x; }; f", argv.Yes},
		"function body in parens":     {"f() (rm -rf /x); f", argv.Yes},
		"function keyword":            {"function f { rm x; }", argv.Yes},
		"negation":                    {"! rm -rf /x", argv.Yes},
		"time":                        {"time rm -rf /x", argv.Yes},
		"time -p":                     {"time -p rm -rf /x", argv.Yes},
		"coproc":                      {"coproc rm -rf /x; wait", argv.Yes},
		"named coproc":                {"coproc C { rm x; }", argv.Yes},
		"continuation in the name":    {"r\\\nm -rf /x", argv.Yes},
		"continuation behind it":      {"rm\\\n -rf /x", argv.Yes},
		"quoted":                      {`"rm" -rf /x`, argv.Yes},
		"escaped":                     {`\rm -rf /x`, argv.Yes},
		"empty quotes inside":         {`r''m""`, argv.Yes},
		"ANSI-C quoting":              {"$'rm' -rf /x", argv.Yes},
		"ANSI-C hexadecimal":          {`$'\x72m' -rf /x`, argv.Yes},
		"ANSI-C octal":                {`$'\162\155' x`, argv.Yes},
		"ANSI-C code point":           {`$'\u0072m' x`, argv.Yes},
		"locale quoting":              {`$"rm" -rf /x`, argv.Yes},
		"IFS in the name":             {"rm${IFS}-rf${IFS}/x", argv.Maybe},
		"IFS glued":                   {"rm$IFS-rf /x", argv.Maybe},
		"variable":                    {"v=rm; $v -rf /x", argv.Maybe},
		"quoted variable":             {`v=rm; "$v" -rf /x`, argv.Maybe},
		"default":                     {"${v:-rm} -rf /x", argv.Maybe},
		"brace expansion":             {"{rm,-rf,/x}", argv.Maybe},
		"glob in the name":            {"./r?* -rf /x", argv.Maybe},
		"glob for the name":           {"/b?n/r[m] x", argv.Maybe},
		"empty variable inside":       {"r${z}m -rf /x", argv.Maybe},
		"parameters inside":           {"r$@m -rf /x", argv.Maybe},
		"absolute path":               {"/bin/rm -rf /x", argv.Maybe},
		"relative path":               {"../../bin/rm x", argv.Maybe},
		"tilde path":                  {"~/rm -rf /x", argv.Maybe},
		"variable directory":          {`"$D/rm" x`, argv.Maybe},
		"other case":                  {"RM x", argv.Maybe},
		"dynamic argument":            {`rm "$X" $Y *`, argv.Yes},
		"assignment":                  {"V=1 rm -rf /x", argv.Yes},
		"appending assignment":        {"V+=1 rm -rf /x", argv.Yes},
		"element assignment":          {"a[0]=1 rm -rf /x", argv.Yes},
		"behind an ampersand":         {"ls &>/dev/null rm x", argv.Yes},
		"behind one that appends":     {"ls&>>f rm x", argv.Yes},
		"redirection glued":           {"rm>/dev/null", argv.Yes},
		"redirection first":           {">f rm -rf /x", argv.Yes},
		"descriptor first":            {"2>&1 rm -rf /x", argv.Yes},
		"variable redirection first":  {"{fd}>f rm x", argv.Yes},
		"comment with an apostrophe":  {"echo ok # it's fine\nrm -rf /x", argv.Yes},
		"comment with a quote":        {"echo ok # say \"hi\nrm -rf /x", argv.Yes},
		"comment with a backslash":    {"echo ok # x \\\nrm -rf /x", argv.Yes},
		"comment with a backquote":    {"echo ok # `\nrm -rf /x", argv.Yes},
		"ANSI-C string with a quote":  {`echo $'\''; rm -rf /x; echo $'\''`, argv.Yes},
		"second line":                 {"echo a\nrm -rf /x", argv.Yes},
		"CRLF lines":                  {"echo a\r\nrm /x\r\n", argv.Yes},
		"pipe":                        {"echo a |& rm", argv.Yes},
		"behind a here-document":      {"cat <<E\nq\nE\nrm -rf /x", argv.Yes},
		"behind a tabbed one":         {"cat <<-E\n\tq\n\tE\nrm -rf /x", argv.Yes},
		"behind two of them":          {"cat <<A <<B\na\nA\nb\nB\nrm -rf /x", argv.Yes},
		"behind a quoted one":         {"cat <<'E F'\nq\nE F\nrm x", argv.Yes},
		"in front of a broken line":   {"rm x\n)", argv.Yes},
		"behind a broken operator":    {"ls &&& rm x", argv.Yes},
		"in a broken text":            {"if rm x; then", argv.Yes},
		"behind a test":               {"[[ x ]] && rm -rf /x", argv.Yes},
		"substitution":                {"echo $(rm -rf /x)", argv.Maybe},
		"backquotes":                  {"echo `rm -rf /x`", argv.Maybe},
		"quoted substitution":         {`echo "$(rm x)"`, argv.Maybe},
		"process substitution":        {"cat <(rm -rf /x)", argv.Maybe},
		"default with a substitution": {"echo ${x:-$(rm x)}", argv.Maybe},
		"arithmetic substitution":     {"echo $((1+$(rm x)))", argv.Maybe},
		"here-document substitution":  {"cat <<E\n$(rm x)\nE", argv.Maybe},
		"array substitution":          {"a=($(rm x))", argv.Maybe},
		"substitution for the name":   {"$(echo rm) -rf /x", argv.Maybe},
		"harmless substitution":       {"rm -rf /x $(true)", argv.Maybe},
		"env":                         {"env rm -rf /x", argv.Maybe},
		"env with much":               {"env -i -u A V=1 rm x", argv.Maybe},
		"env -S":                      {"env -S 'rm -rf /x'", argv.Maybe},
		"env -S glued":                {"env '-Srm -rf' x", argv.Maybe},
		"env split-string":            {"env --split-string='V=1 rm' x", argv.Maybe},
		"env by path":                 {"/usr/bin/env rm x", argv.Maybe},
		"env of a variable":           {"env $X rm", argv.Maybe},
		"command":                     {"command -p rm x", argv.Maybe},
		"builtin":                     {"builtin command rm x", argv.Maybe},
		"exec":                        {"exec -a ls rm x", argv.Maybe},
		"eval":                        {"eval rm -rf /x", argv.Maybe},
		"eval quoted":                 {`eval "rm -rf /x"`, argv.Maybe},
		"eval in pieces":              {`eval r'm' "-rf" x`, argv.Maybe},
		"eval of a variable":          {`eval "$x"`, argv.Maybe},
		"nohup":                       {"nohup rm x", argv.Maybe},
		"nice":                        {"nice -n 5 rm x", argv.Maybe},
		"timeout":                     {"timeout -s KILL 3 rm x", argv.Maybe},
		"timeout, variable":           {`timeout "$T" rm x`, argv.Maybe},
		"setsid":                      {"setsid -w rm x", argv.Maybe},
		"stdbuf":                      {"stdbuf -oL rm x", argv.Maybe},
		"sudo":                        {"sudo -u root -E A=1 rm x", argv.Maybe},
		"doas":                        {"doas -u root rm x", argv.Maybe},
		"xargs":                       {"echo /x | xargs rm", argv.Maybe},
		"xargs with options":          {"find . -print0 | xargs -0 -n 1 rm -rf", argv.Maybe},
		"xargs with a place":          {"ls | xargs -I{} rm {}", argv.Maybe},
		"xargs of a shell":            {"ls | xargs -I % sh -c 'rm %'", argv.Maybe},
		"find -exec":                  {"find . -maxdepth 0 -exec rm {} +", argv.Maybe},
		"find -exec, twice":           {`find . -exec ls {} \; -exec rm {} \;`, argv.Maybe},
		"find, hidden -exec":          {`find . -e\xec rm {} +`, argv.Maybe},
		"find, variable -exec":        {`X=-exec; find . "$X" rm {} +`, argv.Maybe},
		"find, split -exec":           {`find . $X`, argv.Maybe},
		"sh -c":                       {`sh -c "rm -rf /x"`, argv.Maybe},
		"bash with options":           {"bash --norc -eo pipefail -xc 'rm -rf /x'", argv.Maybe},
		"shell in a shell":            {`sh -c "sh -c 'sh -c \"rm x\"'"`, argv.Maybe},
		"shell with parameters":       {`bash -c '"$@"' _ rm x`, argv.Maybe},
		"shell in a group":            {"(sh -c 'if :; then rm x; fi')", argv.Maybe},
		"shell of a variable":         {`sh -c "$C"`, argv.Maybe},
		"text piped to a shell":       {"echo rm -rf /x | sh", argv.Maybe},
		"shell that reads input":      {"bash -s < f", argv.Maybe},
		"shell with a device":         {"bash /dev/stdin", argv.Maybe},
		"sourced input":               {". /dev/stdin", argv.Maybe},
		"here-document to a shell":    {"sh <<E\nrm -rf /x\nE", argv.Maybe},
		"here-string to a shell":      {"sh <<<'rm x'", argv.Maybe},
		"trap":                        {`trap "rm -rf /x" EXIT`, argv.Maybe},
		"busybox":                     {"busybox rm x", argv.Maybe},
		"busybox shell":               {"busybox sh -c 'rm x'", argv.Maybe},
		"script":                      {"script -qc 'rm -rf x' /dev/null", argv.Maybe},
		"watch":                       {"watch -n1 rm x", argv.Maybe},
		"parallel":                    {"parallel -j 4 rm ::: x", argv.Maybe},
		"parallel of its input":       {"echo rm | parallel", argv.Maybe},
		"flock":                       {"flock /tmp/l -c 'rm x'", argv.Maybe},
		"flock, words":                {"flock -n /tmp/l rm x", argv.Maybe},
		"su":                          {"su root -c 'rm x'", argv.Maybe},
		"ssh":                         {"ssh -p 22 host rm x", argv.Maybe},
		"strace":                      {"strace -f -o out rm x", argv.Maybe},
		"unshare":                     {"unshare -r env rm x", argv.Maybe},
		"chroot":                      {"chroot / rm x", argv.Maybe},
		"ionice":                      {"ionice -c 3 rm x", argv.Maybe},
		"alias":                       {"alias ls=rm\nls x", argv.Maybe},
		"hash":                        {"hash -p /bin/rm ls; ls x", argv.Maybe},
		"awk":                         {`awk 'BEGIN{system("rm x")}'`, argv.Maybe},
		"awk, pipe":                   {`awk '{print | "sh"}'`, argv.Maybe},
		"subscript in printf -v":      {"printf -v 'a[$(rm x)]' y", argv.Maybe},
		"subscript in test -v":        {"test -v 'a[$(rm x)]'", argv.Maybe},
		"subscript in unset":          {"unset 'a[`rm x`]'", argv.Maybe},
		"nested to the limit":         {strings.Repeat("env ", 40) + "rm x", argv.Maybe},
		"git alias":                   {"git -c alias.x='!rm y' x", argv.Maybe},
		"git pager":                   {"git -c core.pager='rm y' log", argv.Maybe},
		"wrapper in other case":       {"/usr/bin/ENV rm x", argv.Maybe},
		"shell with a version":        {"bash-5.2 -c 'rm x'", argv.Maybe},
		"shell with a device name":    {`bash "$F"`, argv.Maybe},
		"let":                         {`let "$x"`, argv.Maybe},
		"time with a separator":       {"time -p -- rm x", argv.Maybe},
		"trace prompt":                {"PS4='$(rm x)'; set -x; ls", argv.Maybe},
		"trace prompt, exported":      {"export PS4='`rm x`'; bash -xc ls", argv.Maybe},
		"trace prompt for a command":  {"env PS4='$(rm x)' bash -xc ls", argv.Maybe},
		"integer variable":            {"declare -i x; x='a[$(rm y)]'", argv.Maybe},
		"callback of mapfile":         {"mapfile -C 'rm x' -c 1 a < f", argv.Maybe},
		"env -S with an escape":       {`env -S 'rm\_x'`, argv.Maybe},
		"env -S with an expansion":    {"env -S '${X} y'", argv.Maybe},
		"place for the command":       {"ls | xargs -I{} {} x", argv.Maybe},
		"found command":               {`find . -type f -exec {} \;`, argv.Maybe},
		"shell for each file":         {`find . -exec sh -c 'rm "$1"' _ {} \;`, argv.Maybe},
		"text to another user":        {"echo rm x | su -", argv.Maybe},
		"text to another host":        {"echo rm x | ssh host", argv.Maybe},
		"text to a root shell":        {"echo rm x | sudo -s", argv.Maybe},
		"text to a new root":          {"echo rm x | chroot /", argv.Maybe},
		"too many wrappers":           {"find . " + strings.Repeat("-exec ls {} + ", 600) + "-exec rm {} +", argv.Maybe},
		"behind many words":           {"unshare " + strings.Repeat("x ", 100) + "rm x", argv.Maybe},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, argv.Read(row.text).Against(rm), row.text)
		})
	}
}

// TestMustAsk holds texts that run something no rule can see: what they do
// depends on more than their words.
func TestMustAsk(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                      "",
		"blank":                      " \t\n",
		"only a comment":             "# x",
		"only a separator":           ";",
		"substitution":               "echo $(ls)",
		"backquotes":                 "echo `ls`",
		"process substitution":       "diff <(ls) >(cat)",
		"here-document":              "cat <<E\nE",
		"here-string":                "cat <<< x",
		"dynamic name":               "$X x",
		"quoted dynamic name":        `"$X" x`,
		"glob for a name":            "l? x",
		"brace for a name":           "{ls,-l}",
		"name from an array":         `"${a[@]}"`,
		"open quote":                 "ls 'a",
		"open double quote":          `ls "a`,
		"open substitution":          "ls $(a",
		"open group":                 "(ls",
		"missing command":            "ls &&",
		"operator first":             "&& ls",
		"two separators":             "ls ;; pwd",
		"carriage return":            "ls\r\npwd\r\n",
		"vertical tab":               "ls\vx",
		"NUL":                        "ls \x00 x",
		"NUL in quotes":              "ls '\x00' x",
		"escape character":           "ls \x1b[31m",
		"no-break space":             "ls\u00a0-l",
		"ideographic space":          "git\u3000status",
		"zero width space":           "l\u200bs",
		"byte order mark":            "\ufeffls",
		"reversing mark in quotes":   "echo '\u202egnp.txt'",
		"bytes that are not UTF-8":   "ls \xff",
		"indirect expansion":         "echo ${!x}",
		"prompt expansion":           "x='$(ls)'; echo ${x@P}",
		"subscript in arithmetic":    "a='x[$(ls)]'; echo $((a))",
		"subscript in a test":        "x='a[$(ls)]'; [[ $x -eq 1 ]]",
		"swallowing comment":         "(echo a # b \\\nrm x)",
		"deep":                       strings.Repeat("(", 300) + "ls" + strings.Repeat(")", 300),
		"long":                       "(" + strings.Repeat("ls; ", 20000) + ")",
		"a NUL in an ANSI-C string":  `echo $'\0'`,
		"array beside a command":     "a=(1) ls",
		"variable name in a test -v": `[[ -v $x ]]`,
	} {
		t.Run(name, func(t *testing.T) {
			why, yes := argv.Read(text).Unjudgeable()
			require.True(t, yes, text)
			require.NotEmpty(t, why)
		})
	}
}

// TestHarmless holds that ordinary work meets no deny on rm and on forced pushes,
// not even perhaps, and can be judged: a chain that asks about it is switched off.
func TestHarmless(t *testing.T) {
	tables := []*argv.Pattern{compile(t, "rm **"), compile(t, "git push --force **"), compile(t, "git push -f **"), compile(t, "shutdown **"), compile(t, "mkfs * **")}
	for _, text := range []string{
		"git status && git diff --staged && git log -n 3", "npm test 2>&1 | tail -40", "ls .env 2>/dev/null || echo \"Not found\"", "npm test >/dev/null 2>&1", "npm test &>/dev/null",
		"cd src && find . -name '*.go' -not -path './vendor/*'", "find . -name x -exec grep -n foo {} +", `find . -type f -exec wc -l {} \; | sort -n`, "sleep 1 &", "which rm", "command -v rm", "type rm",
		"grep -rn 'rm -rf' .", `git commit -m "first; then rm -rf old"`, "git commit -m 'it'\\''s working'", "echo 'don'\\''t'", `echo \; \&\& \|`, "awk '{print $1}' f", "awk 'NR>=300 && NR<=430' f",
		"for f in a b; do echo \"$f\"; done", "if [ -f x ]; then cat x; else ls; fi", "while read -r l; do echo \"$l\"; done < f", "(cd x && make)", "{ ls; pwd; } > out.txt", "case $1 in a) ls;; *) pwd;; esac",
		"f() { ls \"$1\"; }; f x", "GOFLAGS=-mod=vendor go test ./...", "export CI=1 && npm test", "X=$HOME/y; ls \"$X\"", "ls $X", "ls *.go", "ls ~/x", "cp a{1,2}.txt /tmp", "echo ${x:-y} ${#x} ${x%.*}",
		"for i in 1 2 3; do n=$((n+1)); echo \"$n\"; done", "for ((i=0;i<3;i++)); do echo $i; done", "[[ $x == y* ]] && ls", "[[ -n $x ]] && ls", "test -n \"$x\" && ls", "time make -j4", "! grep -q x f", "make FOO=bar test",
		"env | sort", "env NODE_ENV=test npm test", "sudo apt-get install -y jq", "timeout 60 go test ./...", "nice -n 10 make", "nohup ./server > log 2>&1 &", "xargs -n1 echo < list", "ls | xargs -I{} cp {} /tmp",
		"sh -c 'echo a\necho b'", "./server & sleep 1; kill $!; wait $!", "read -p \"$m\" -r x", "let i++", "bash \"$D/run.sh\"", "git -c user.name=x commit -m y", "x='$(y)'; echo \"$x\"", "PS1=x ls", "sudo -n true", "ENV=test npm test", "read -r a b <f", "bash -c \"git status\"", "bash ./script.sh", "eval 'ls -l'", "trap 'echo bye' EXIT", "ssh host ls", "git -C /repo status", "docker rm x", "docker run --rm img ls", "kubectl -n x get pods",
		"set -euo pipefail; ls", "printf '%s\\n' a b", "echo $'a\\tb'", "jq '.a | .b > 1' f", "sed -e 's/a/b/; s/c/d/' f", "git log --pretty=format:\"%h %s\" -n 5", "curl -d '{\"a\":1,\"b\":2}' http://localhost",
		"git stash show stash@{0}", "python3 -c 'print(1)'", "echo done # it's ok", "# Check \"twice\" vs it's twin\ngrep -n docker AGENTS.md", "git add a.md && \\\ngit commit -m 'x'", "rg -n \"foo\" -g\"*.go\"",
		"echo '你好 🚀'", "unset FOO", "declare -a xs", "local x=1", "read -r x < f", "ls -l | awk '{print $5}' | sort -n", "strace -c ls", "cat a > b && mv b c", "export PATH=\"$HOME/bin:$PATH\"", "a=(1 2 3); echo \"${a[@]}\"", "echo $((1 + 2))",
	} {
		c := argv.Read(text)
		if why, yes := c.Unjudgeable(); yes {
			t.Errorf("%q cannot be judged: %s", text, why)
		}
		for _, p := range tables {
			if m := c.Against(p); m != argv.No {
				t.Errorf("%q against %s: %s (%s)", text, p, m, c.Hidden())
			}
		}
	}
}
