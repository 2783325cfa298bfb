// Package executor times one call of a tool that is a program beside starting
// the same program by hand.
package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
)

// program is as cheap as a program can be, so that what is added to it shows.
const program = "/bin/cat"

var (
	args = json.RawMessage(`{"force":true,"limit":20,"mode":"check","path":"src/server/handler.go"}`)
	keys atomic.Int64
)

func request(key string) []byte {
	return fmt.Appendf(nil, `{"tool":"edit","args":%s,"idempotencyKey":%q}`, args, key)
}

// bare is what anybody would write who trusts the program: os/exec, the request
// on standard input, the whole output, whether it is JSON.
func bare(key string) error {
	cmd := exec.Command(program)
	cmd.Env = []string{"RULVAR_TOOL=edit", "RULVAR_RUN_ID=", "RULVAR_IDEMPOTENCY_KEY=" + key}
	cmd.Stdin = bytes.NewReader(request(key))
	out, err := cmd.Output()
	if err == nil && !json.Valid(out) {
		err = fmt.Errorf("no JSON: %s", out)
	}
	return err
}

// call returns one call by an executor.
func call(tb testing.TB, o executor.SubprocessOptions) func(key string) error {
	o.Program = &executor.Program{Command: program}
	x, err := executor.NewSubprocess(&o)
	if err != nil {
		tb.Fatal(err)
	}
	tc := &rulvar.ToolContext{Context: context.Background()}
	return func(key string) error {
		_, err := x.Execute(tc, rulvar.ExecutorCall{Tool: "edit", Input: args, IdempotencyKey: key})
		return err
	}
}

// rows are the ways of making the call, the bound first.
func rows(tb testing.TB) (names []string, calls []func(string) error) {
	add := func(name string, fn func(string) error) { names, calls = append(names, name), append(calls, fn) }
	add("bare-exec-bound", bare)
	add("rulvar-subprocess", call(tb, executor.SubprocessOptions{}))
	ledger, err := executor.OpenFileLedger(filepath.Join(tb.TempDir(), "effects.jsonl"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ledger.Close() })
	add("rulvar-subprocess-ledger", call(tb, executor.SubprocessOptions{Ledger: ledger}))
	if box, err := executor.NewSandbox(&executor.SandboxOptions{Kind: executor.SandboxLandlock}); err == nil {
		add("rulvar-subprocess-landlock", call(tb, executor.SubprocessOptions{Sandbox: box}))
	}
	return names, calls
}

func TestAgree(t *testing.T) {
	names, calls := rows(t)
	for i, fn := range calls {
		if err := fn(fmt.Sprintf("agree-%d", i)); err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	names, calls := rows(b)
	for i, fn := range calls {
		b.Run(names[i], func(b *testing.B) {
			for b.Loop() {
				if err := fn(fmt.Sprint("key-", keys.Add(1))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// cpuTime is the processor time of this process and of the programs it has
// waited for. On a machine that others use it is steadier than the time on the
// clock.
func cpuTime() (d time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			d += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return d
}

// BenchmarkPaired has all take turns, so that what else the machine does falls
// on each alike, and reports each one's times by those of the bound: x-bare by
// medians, x-bare-min by minima, x-bare-cpu by processor times.
func BenchmarkPaired(b *testing.B) {
	names, calls := rows(b)
	times, cpu := make([][]time.Duration, len(calls)), make([]time.Duration, len(calls))
	for b.Loop() {
		for i, fn := range calls {
			key := fmt.Sprint("key-", keys.Add(1))
			began, used := time.Now(), cpuTime()
			if err := fn(key); err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(began))
			cpu[i] += cpuTime() - used
		}
	}
	for i, list := range times {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2])/float64(times[0][len(list)/2]), "x-bare/"+names[i])
		b.ReportMetric(float64(list[0])/float64(times[0][0]), "x-bare-min/"+names[i])
		b.ReportMetric(float64(cpu[i])/float64(cpu[0]), "x-bare-cpu/"+names[i])
	}
}
