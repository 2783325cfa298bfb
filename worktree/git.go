package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// git runs the git command with nothing of the caller's environment and
// nothing of anybody's configuration that could make it execute something.
type git struct{ bin string }

// gitCall is one invocation.
type gitCall struct {
	dir      string // the git directory
	tree     string // the work tree, and where the command runs
	index    string // empty is the git directory's
	stdin    []byte
	maxBytes int  // of the output; 0 is no bound
	magic    bool // names are pathspecs, as check-ignore wants them
}

// minGit is the oldest version whose configuration can be shut out wholly.
var minGit = [2]int{2, 32}

var versionWords = regexp.MustCompile(`^git version (\d+)\.(\d+)`)

// findGit finds the command and checks its version.
func findGit(ctx context.Context) (*git, error) {
	bin, err := exec.LookPath("git")
	if err != nil {
		return nil, errs.Wrap(errs.Config, "worktree", "git", "there is no git command on the PATH: install git", err)
	}
	g := &git{bin: bin}
	out, err := g.run(ctx, gitCall{}, "version")
	if err != nil {
		return nil, errs.Wrap(errs.Config, "worktree", "git", "the git command does not work", err)
	}
	m := versionWords.FindSubmatch(out)
	if m == nil {
		return nil, errs.New(errs.Config, "worktree", "git", fmt.Sprintf("%q is no version of git", firstLine(out)))
	}
	major, _ := strconv.Atoi(string(m[1])) // digits
	minor, _ := strconv.Atoi(string(m[2]))
	if major < minGit[0] || major == minGit[0] && minor < minGit[1] {
		return nil, errs.New(errs.Config, "worktree", "git", fmt.Sprintf("git %d.%d is too old: %d.%d or newer is needed", major, minor, minGit[0], minGit[1]))
	}
	return g, nil
}

// quiet are the settings that also hold where a call works in the repository
// itself, whose configuration git then reads.
var quiet = []string{
	"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.untrackedCache=false", "core.pager=cat",
	"core.sshCommand=false", "core.askPass=false", "core.editor=false", "core.attributesFile=" + os.DevNull,
	"core.excludesFile=" + os.DevNull, "core.alternateRefsCommand=true", "credential.helper=", "protocol.allow=never",
	"protocol.ext.allow=never", "uploadpack.packObjectsHook=", "gc.auto=0", "maintenance.auto=false",
	"commit.gpgSign=false", "tag.gpgSign=false", "gpg.program=false", "log.showSignature=false",
}

func (g *git) env(c gitCall) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull, "XDG_CONFIG_HOME=" + os.DevNull, "LC_ALL=C", "TMPDIR=" + os.TempDir(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=" + os.DevNull, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_SSH_COMMAND=false", "GIT_EDITOR=false",
		"GIT_PAGER=cat", "PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1",
	}
	if !c.magic {
		env = append(env, "GIT_LITERAL_PATHSPECS=1")
	}
	for _, name := range []string{"SystemRoot", "windir"} { // without which no Windows program starts
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if c.dir != "" {
		env = append(env, "GIT_DIR="+c.dir)
	}
	if c.tree != "" {
		env = append(env, "GIT_WORK_TREE="+c.tree)
	}
	if c.index != "" {
		env = append(env, "GIT_INDEX_FILE="+c.index)
	}
	return env
}

// run executes git and returns what it printed.
func (g *git) run(ctx context.Context, c gitCall, args ...string) ([]byte, error) {
	line := make([]string, 0, 2*len(quiet)+len(args)+1)
	line = append(line, "--no-pager")
	for _, s := range quiet {
		line = append(line, "-c", s)
	}
	cmd := exec.CommandContext(ctx, g.bin, append(line, args...)...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = g.env(c), c.tree, 10*time.Second
	if cmd.Dir == "" {
		cmd.Dir = c.dir
	}
	cmd.Stdin = bytes.NewReader(c.stdin)
	stdout := &boundedBuffer{max: c.maxBytes}
	stderr := &boundedBuffer{max: 8 << 10, drop: true}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case stdout.full:
		return nil, errTooLarge
	case err != nil:
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, firstLine(stderr.b.Bytes()))
	}
	return stdout.b.Bytes(), nil
}

var errTooLarge = errors.New("the output is larger than the bound")

// boundedBuffer takes max bytes, then fails or drops what comes.
type boundedBuffer struct {
	b    bytes.Buffer // not embedded: its ReadFrom knows no bound
	max  int
	drop bool
	full bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.max == 0 || b.b.Len()+len(p) <= b.max {
		return b.b.Write(p)
	}
	if !b.drop {
		b.full = true
		return 0, errTooLarge
	}
	b.b.Write(p[:b.max-b.b.Len()])
	return len(p), nil
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return strings.ToValidUTF8(line, "\uFFFD")
}

// splitNul splits the output of a -z command.
func splitNul(b []byte) []string {
	s := strings.TrimSuffix(string(b), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

func joinNul(list []string) []byte {
	var b bytes.Buffer
	for _, s := range list {
		b.WriteString(s)
		b.WriteByte(0)
	}
	return b.Bytes()
}
