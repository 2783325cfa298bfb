package rulvartest

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// maxProcesses is how many processes may take part in one run without a kill
// before the matrix says that it does not come to an end.
const maxProcesses = 20

// KillMatrix kills a run at each of its points and sees what becomes of it.
//
// A run is the work of several processes, one after the other: one starts it,
// one answers what waits, one resumes it. [KillMatrix.Process] is the child
// that does what is next. The matrix first runs it to the end, undisturbed,
// and notes every point. Then, for every point of every process, it takes the
// directory as it was when that process began, kills the process at the point,
// and lets further processes finish the run. The result must be the same, and
// nothing that was recorded may be done again.
//
// Each kill is a subtest, named by its place: "2/put:ckpt:after" is the second
// process, killed when a checkpoint was durable.
type KillMatrix struct {
	// Process does what one process does with the run in the directory
	// args[0], whatever state a dead one has left: it starts the run where
	// there is none, else answers where something waits, else resumes. It
	// returns the run's result when that is final, and "" where another
	// process must go on.
	Process *Child
	// Args follow the directory.
	Args []string
	// Prepare fills the directory, if it is not nil.
	Prepare func(t testing.TB, dir string)
	// Recorded, if it is not nil, returns the points that no later process may
	// reach, because the work behind them is recorded. It is asked between two
	// processes.
	Recorded func(t testing.TB, dir string) []string
	// Check, if it is not nil, looks at the finished run. visits are all its
	// processes, the killed ones too.
	Check func(t testing.TB, dir string, visits []Visit)
	// Limit bounds how many points are taken, spread over the run; a point
	// that leaves the same behind as the one before it is passed over then.
	// Default 0: every point.
	Limit int
	// Again is how many points of the processes that go on after a kill are
	// taken for a second kill of the same run; -1 is every one, which squares
	// the work. Default 0: none.
	Again int
	// Loose accepts that a point is not always reached, where timing decides.
	Loose bool

	want             string
	kills, processes atomic.Int64
}

// Run runs the matrix.
func (m *KillMatrix) Run(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if m.Prepare != nil {
		m.Prepare(t, dir)
	}
	whole := m.finish(t, &state{dir: dir}, true)
	m.want = whole.visits[len(whole.visits)-1].Result
	places := 0
	for _, v := range whole.visits {
		places += len(v.Points)
	}
	t.Run("kill", func(t *testing.T) { m.explore(t, whole) })
	t.Logf("%d points, %d kills, %d processes", places, m.kills.Load(), m.processes.Load())
}

// state is a run between two processes.
type state struct {
	dir       string
	visits    []Visit  // so far
	forbidden []string // points no later process may reach
}

// history is a run that has been finished.
type history struct {
	visits []Visit
	before []*state // before each process since the last kill
}

// process runs one more process, until it ends or reaches kill, and holds it
// to what was recorded before.
func (m *KillMatrix) process(t testing.TB, s *state, kill string) Visit {
	t.Helper()
	m.processes.Add(1)
	args := append([]string{s.dir}, m.Args...)
	v := m.Process.Start(t, &StartOptions{KillAt: kill}, args...).Wait()
	s.visits = append(s.visits, v)
	for _, p := range v.Points {
		if slices.Contains(s.forbidden, p) {
			t.Fatalf("rulvartest: process %d has come to %q again, although that work was recorded:\n%s", len(s.visits), p, story(s.visits))
		}
	}
	if m.Recorded != nil {
		s.forbidden = m.Recorded(t, s.dir)
	}
	return v
}

// finish runs processes until the run has its result. keep asks for the states
// in between.
func (m *KillMatrix) finish(t testing.TB, s *state, keep bool) history {
	t.Helper()
	var h history
	for range maxProcesses {
		if keep {
			h.before = append(h.before, s.copy(t))
		}
		if v := m.process(t, s, ""); v.Result != "" {
			h.visits = s.visits
			if m.want != "" && v.Result != m.want {
				t.Fatalf("rulvartest: the result is %q, without a kill it is %q:\n%s", v.Result, m.want, story(s.visits))
			}
			if m.Check != nil {
				m.Check(t, s.dir, s.visits)
			}
			return h
		}
	}
	t.Fatalf("rulvartest: %d processes have not finished the run:\n%s", maxProcesses, story(s.visits))
	return h
}

// place is a point of one process.
type place struct {
	process int // index into history.before
	point   string
}

// explore kills the processes of h at their points, each in a subtest.
func (m *KillMatrix) explore(t *testing.T, h history) {
	first := len(h.visits) - len(h.before)
	for _, at := range m.places(h, first) {
		t.Run(fmt.Sprintf("%d/%s", first+at.process+1, at.point), func(t *testing.T) {
			t.Parallel()
			s := h.before[at.process].copy(t)
			v := m.process(t, s, at.point)
			m.kills.Add(1)
			if v.Killed == "" {
				if !m.Loose {
					t.Fatalf("rulvartest: the process did not come to the point this time; set Loose where timing decides:\n%s", story(s.visits))
				}
				if v.Result != "" {
					return
				}
			}
			again := first == 0 && m.Again != 0
			if after := m.finish(t, s, again); again {
				m.explore(t, after)
			}
		})
	}
}

// places lists where to kill: everywhere, or a sample. first is the number of
// processes before those that may be killed.
func (m *KillMatrix) places(h history, first int) []place {
	limit, offset := m.Limit, 0
	if first > 0 {
		// Which points are taken for a second kill depends on the first one,
		// so that together they are spread over the run.
		limit, offset = max(m.Again, 0), m.spread(h.visits[first-1])
	}
	var all []place
	for i, v := range h.visits[first:] {
		for k, p := range v.Points {
			same := k > 0 && isAfter(v.Points[k-1]) && isBefore(p)
			if limit == 0 || !same {
				all = append(all, place{process: i, point: p})
			}
		}
	}
	if limit == 0 || limit >= len(all) {
		return all
	}
	some := make([]place, limit)
	for i := range some {
		some[i] = all[(offset+(2*i+1)*len(all)/(2*limit))%len(all)]
	}
	return some
}

// spread is a number that differs between kills.
func (m *KillMatrix) spread(v Visit) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(v.Killed))
	return int(h.Sum32()>>1) + len(v.Points)
}

func isAfter(point string) bool  { return strings.HasSuffix(withoutCount(point), ":after") }
func isBefore(point string) bool { return strings.HasSuffix(withoutCount(point), ":before") }

func withoutCount(point string) string {
	name, _, _ := strings.Cut(point, "#")
	return name
}

// copy copies the directory, so that a run can go on from here twice.
func (s *state) copy(t testing.TB) *state {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
		t.Fatalf("rulvartest: the run's directory cannot be copied: %v", err)
	}
	return &state{dir: dir, visits: slices.Clone(s.visits), forbidden: slices.Clone(s.forbidden)}
}

// story tells what the processes of a run did.
func story(visits []Visit) string {
	var b strings.Builder
	for i, v := range visits {
		end := "came to its end"
		switch {
		case v.Killed != "":
			end = "was killed at " + v.Killed
		case v.Result != "":
			end = "finished the run: " + v.Result
		}
		fmt.Fprintf(&b, "process %d %s\n", i+1, end)
		for _, p := range v.Points {
			fmt.Fprintf(&b, "\t%s\n", p)
		}
		if v.Output != "" {
			fmt.Fprintf(&b, "\tprinted: %s\n", strings.ReplaceAll(strings.TrimSpace(v.Output), "\n", "\n\t         "))
		}
	}
	return b.String()
}
