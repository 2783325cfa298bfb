package rulvar_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/argv"
)

// TestShellDifferential runs generated commands in bash and dash and compares
// what they really started with what was said about them:
//
//   - where the answer is allow, every program that was started is covered by an
//     allow pattern, and nothing was written;
//   - where a denied program was started, the answer is deny or ask, also in a
//     table without an allow list, where what no rule meets is allowed.
//
// The commands run in an empty directory, with a PATH that holds nothing but
// scripts that write down how they were called, as an unprivileged user if the
// test has a privileged one, with limits on time, processes and file size.
// RULVAR_SHELL_DIFF sets the number of commands, RULVAR_SHELL_DIFF_SEED the seed.
func TestShellDifferential(t *testing.T) {
	n := 100
	if s := os.Getenv("RULVAR_SHELL_DIFF"); s != "" {
		var err error
		n, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	seed := uint64(1)
	if s := os.Getenv("RULVAR_SHELL_DIFF_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	for _, shell := range []string{"bash", "dash"} {
		t.Run(shell, func(t *testing.T) {
			box := newShellBox(t, shell)
			gen := &shellGen{rand: rand.New(rand.NewPCG(seed, 7))}
			counts := map[string]int{}
			for range n {
				box.judge(t, gen.command(), counts)
			}
			t.Logf("%d commands in %s: %v", n, shell, counts)
		})
	}
}

// TestShellDifferentialRows runs commands that once were answered wrongly.
func TestShellDifferentialRows(t *testing.T) {
	for _, shell := range []string{"bash", "dash"} {
		t.Run(shell, func(t *testing.T) {
			box := newShellBox(t, shell)
			for _, text := range shellDiffRows {
				box.judge(t, text, map[string]int{})
			}
		})
	}
}

// shellDiffRules judge the generated commands.
var shellDiffRules = rulvar.ShellRules{
	Deny:     []string{"rm **"},
	Ask:      []string{"mv **"},
	Allow:    []string{"ls **", "cat *", "cp * x", "git status", "echo **", ": **", "true", "test **", "printf **", "set **", "export **", "git log > *"},
	AllowEnv: []string{"V"},
}

// judge runs one command and compares.
func (b *shellBox) judge(t *testing.T, text string, counts map[string]int) {
	t.Helper()
	verdict := rulvar.MatchShellCommand(text, shellDiffRules)
	chain := shellChainVerdict(text)
	if explained := rulvar.ExplainShellCommand(text, shellDiffRules).Verdict; explained != verdict {
		t.Errorf("%q: matched %s, explained %s", text, verdict, explained)
	}
	counts[string(verdict)]++
	counts["chain "+string(chain)]++
	if verdict != rulvar.VerdictAllow && chain != rulvar.VerdictAllow {
		return // whatever it starts, neither answer lets it
	}
	ran, wrote := b.run(t, text)
	counts["run"]++
	if len(ran) > 0 {
		counts["started something"]++
	}
	denied, logs := false, false
	for _, argv := range ran {
		denied = denied || argv[0] == "rm"
		logs = logs || slices.Equal(argv, []string{"git", "log"}) // which may write
		if verdict == rulvar.VerdictAllow && !shellCovered(argv) {
			t.Errorf("%s %q: allowed, but it started %q, which no pattern covers", b.shell, text, argv)
		}
	}
	if verdict == rulvar.VerdictAllow && len(wrote) > 0 && !logs {
		t.Errorf("%s %q: allowed, but it wrote %q", b.shell, text, wrote)
	}
	if denied {
		t.Errorf("%s %q: it started rm, but the answers are %s and, in a chain, %s", b.shell, text, verdict, chain)
	}
}

// shellChainVerdict is what a permission chain with the deny and ask tables alone
// answers: it allows what no rule meets.
func shellChainVerdict(text string) rulvar.Verdict {
	c := argv.Read(text)
	deny, _ := argv.CompilePattern(shellDiffRules.Deny[0])
	ask, _ := argv.CompilePattern(shellDiffRules.Ask[0])
	_, unclear := c.Unjudgeable()
	switch {
	case c.Against(deny) == argv.Yes:
		return rulvar.VerdictDeny
	case c.Against(deny) == argv.Maybe, unclear, c.Against(ask) != argv.No:
		return rulvar.VerdictAsk
	}
	return rulvar.VerdictAllow
}

// shellCovered matches an argv with the allow patterns by a matcher of its own.
func shellCovered(args []string) bool {
	for _, p := range shellDiffRules.Allow {
		p, _, _ = strings.Cut(p, " >")
		tokens := strings.Fields(p)
		ok := true
		for i, tok := range tokens {
			if tok == "**" {
				args = args[:i]
				tokens = tokens[:i]
				break
			}
			if i >= len(args) || tok != "*" && tok != args[i] {
				ok = false
				break
			}
		}
		if ok && len(args) == len(tokens) {
			return true
		}
	}
	return false
}

// shellBox is a place where a command can do no harm.
type shellBox struct {
	shell, path   string
	bin, dir, log string
	limits        string // the shell that sets limits
}

// shellStubs are the programs in PATH and what they do after they have written
// down how they were called.
var shellStubs = map[string]string{
	"rm": "", "mv": "", "ls": "", "cat": "", "cp": "", "git": "", "npm": "", "xargs": `[ $# -gt 0 ] && exec "$@" more`,
	"env":     `while :; do case "$1" in -*|*=*) shift;; *) break;; esac; done; [ $# -gt 0 ] && exec "$@"`,
	"nohup":   `exec "$@"`,
	"setsid":  `exec "$@"`,
	"nice":    `[ "$1" = -n ] && shift 2; [ $# -gt 0 ] && exec "$@"`,
	"timeout": `shift; exec "$@"`,
	"sudo":    `[ "$1" = -u ] && shift 2; exec "$@"`,
	"time":    `[ $# -gt 0 ] && exec "$@"`,
	"find":    `while [ $# -gt 0 ]; do if [ "$1" = -exec ]; then shift; exec "$@"; fi; shift; done`,
	"sh":      `exec SHELL "$@"`,
	"bash":    `exec SHELL "$@"`,
}

func newShellBox(t *testing.T, shell string) *shellBox {
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("%s is not installed here", shell)
	}
	dash, err := exec.LookPath("dash")
	if err != nil {
		dash = path
	}
	limits, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash, which sets the limits, is not installed here")
	}
	root := t.TempDir()
	b := &shellBox{shell: shell, path: path, bin: filepath.Join(root, "bin"), dir: filepath.Join(root, "dir"), log: filepath.Join(root, "log"), limits: limits}
	require.NoError(t, os.Mkdir(b.bin, 0o755))
	require.NoError(t, os.Mkdir(b.dir, 0o755))
	for name, body := range shellStubs {
		script := "#!" + dash + "\nprintf '%s\\0' " + name + " \"$@\" 'end of argv' >>" + b.log + "\n" + strings.ReplaceAll(body, "SHELL", path) + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(b.bin, name), []byte(script), 0o755))
	}
	require.NoError(t, os.WriteFile(b.log, nil, 0o600))
	shellGiveAway(t, root, b.bin, b.dir, b.log)
	return b
}

// run runs text and returns what it started and which files it left.
func (b *shellBox) run(t *testing.T, text string) (ran [][]string, wrote []string) {
	t.Helper()
	require.NoError(t, os.Truncate(b.log, 0))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.limits, "-c", `ulimit -t 2 -f 64 -u 400 -v 4000000; exec "$@"`, "limits", b.path, "-c", text)
	cmd.Dir = b.dir
	cmd.Env = []string{"PATH=" + b.bin, "HOME=" + b.dir, "X=a b", "E=", "R=rm", "G=*", "C=rm z"}
	cmd.WaitDelay = time.Second
	shellConfine(cmd)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		t.Fatalf("%s %q: %v", b.shell, text, err)
	}
	shellEnd(cmd)
	data, err := os.ReadFile(b.log)
	require.NoError(t, err)
	for record := range bytes.SplitSeq(data, []byte("\x00end of argv\x00")) {
		if len(record) > 0 {
			ran = append(ran, strings.Split(string(record), "\x00"))
		}
	}
	return ran, b.sweep(t)
}

// sweep empties the directory and returns what was in it.
func (b *shellBox) sweep(t *testing.T) (names []string) {
	entries, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
		require.NoError(t, os.RemoveAll(filepath.Join(b.dir, e.Name())))
	}
	return names
}
