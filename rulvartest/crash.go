package rulvartest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// A process that is to die somewhere says where it is: it calls [Point] with
// the name of each place it comes to. In an ordinary process a point does
// nothing. In a child process, which a test starts with [Child], it tells the
// test, and where the test has chosen this point it kills the process, as a
// power cut would: no deferred call runs and nothing is flushed.
//
//	parent                                      child
//	environment: which child, arguments,
//	             where to die, where to wait -> read once
//	descriptor 3, lines                      <- "point NAME"   reached
//	                                            "held NAME"    reached, and waits
//	                                            "killed NAME"  reached, the last line
//	                                            "result JSON"  the child's result text
//	                                            "error JSON"   the child's error text
//	standard input, closed                   -> a held child goes on
//
// The n-th time a name is reached, from the second, NAME is "name#n".

// The environment of a child process.
const (
	envChild = "RULVAR_TEST_CHILD"
	envArgs  = "RULVAR_TEST_ARGS" // a JSON list
	envKill  = "RULVAR_TEST_KILL"
	envHold  = "RULVAR_TEST_HOLD"
)

// The words that begin a line of a child's report.
const (
	wordPoint  = "point"
	wordHeld   = "held"
	wordKilled = "killed"
	wordResult = "result"
	wordError  = "error"
)

// reporter is a child process's side.
type reporter struct {
	child      string
	args       []string
	kill, hold string
	out        io.Writer

	mu     sync.Mutex
	counts map[string]int
}

// self is the reporter of this process, nil where it is no child.
var self = sync.OnceValue(func() *reporter {
	name, ok := os.LookupEnv(envChild)
	if !ok {
		return nil
	}
	r := &reporter{child: name, kill: os.Getenv(envKill), hold: os.Getenv(envHold), counts: make(map[string]int)}
	if err := json.Unmarshal([]byte(os.Getenv(envArgs)), &r.args); err != nil {
		fmt.Fprintln(os.Stderr, "rulvartest: the arguments of the child cannot be read:", err)
		os.Exit(2)
	}
	r.out = reportFile()
	return r
})

// Point says that the process has come to a place, for a test that wants to
// know or to kill it there; see [Child]. Outside a child process it does
// nothing. A name is like "tool:deploy:before"; a "#" or a line break in it
// becomes "_". It may be called from any goroutine.
func Point(name string) {
	if r := self(); r != nil {
		r.reach(name)
	}
}

func (r *reporter) reach(name string) {
	name = cleanPoint(name)
	r.mu.Lock()
	r.counts[name]++
	if n := r.counts[name]; n > 1 {
		name = fmt.Sprintf("%s#%d", name, n)
	}
	r.say(wordPoint, name)
	switch name {
	case r.kill:
		// The lock stays held: no other goroutine reports anything after this.
		r.say(wordKilled, name)
		killSelf()
	case r.hold:
		r.say(wordHeld, name)
		r.mu.Unlock()
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it, or is gone
		return
	}
	r.mu.Unlock()
}

// say writes one line. The test is gone where that fails, and nobody is left
// to be told.
func (r *reporter) say(word, text string) {
	_, _ = io.WriteString(r.out, word+" "+text+"\n")
}

// end reports the end of the child's function and ends the process.
func (r *reporter) end(result string, err error) {
	word, text := wordResult, result
	if err != nil {
		word, text = wordError, err.Error()
	}
	b, _ := json.Marshal(text) // a string always encodes
	r.mu.Lock()
	r.say(word, string(b))
	os.Exit(0)
}

func cleanPoint(name string) string {
	return strings.Map(func(c rune) rune {
		if c == '#' || c == '\n' || c == '\r' {
			return '_'
		}
		return c
	}, name)
}

// firstOccurrence takes the "#1" off a point's name, which stands for the
// first time it is reached.
func firstOccurrence(point string) string {
	return strings.TrimSuffix(point, "#1")
}
