package shell

import (
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// fastArgvs is a sketch of what a matcher can do before it asks for a syntax
// tree: one pass that understands words, quotes, `; & && || |` and plain
// redirections, and says false to everything else (expansions, globs in command
// position, escapes, assignments, comments, reserved words), which then goes to
// the full parser. Words are substrings of the line. It is here to show which
// ratio to the byte loop is in reach, not to be used.
//
// ends[i] is where command i's words end in words.
func fastArgvs(line string, words []string, ends []int) ([]string, []int, bool) {
	i, n := 0, len(line)
	start := 0 // first word of the current command
	redirect := false
	for {
		for i < n && (line[i] == ' ' || line[i] == '\t') {
			i++
		}
		if i == n {
			break
		}
		switch c := line[i]; c {
		case ';', '\n', '|', '&':
			if redirect || len(words) == start {
				return words, ends, false
			}
			if c == '&' && i+1 < n && line[i+1] == '>' {
				i += 2
				redirect = true
				continue
			}
			ends = append(ends, len(words))
			start = len(words)
			i++
			if i < n && (c == '|' || c == '&') && line[i] == c {
				i++
			} else if c == '|' && i < n && line[i] == '&' {
				i++
			}
			continue
		case '>', '<':
			i++
			if i < n && (line[i] == '>' && c == '>' || line[i] == '&') {
				i++
			} else if i < n && (line[i] == '<' || line[i] == '(' || line[i] == '|') {
				return words, ends, false // here-documents, process substitution
			}
			if redirect {
				return words, ends, false
			}
			redirect = true
			continue
		}
		// A word: plain bytes, or one pair of quotes around all of it.
		from := i
		var w string
		if q := line[i]; q == '\'' || q == '"' {
			j := strings.IndexByte(line[i+1:], q)
			if j < 0 {
				return words, ends, false
			}
			w = line[i+1 : i+1+j]
			if q == '"' && strings.ContainsAny(w, "$`\\!") {
				return words, ends, false
			}
			i += j + 2
			if i < n && !space[line[i]] {
				return words, ends, false
			}
		} else {
			digits := true
			for i < n && !stop[line[i]] {
				if line[i] < '0' || line[i] > '9' {
					digits = false
				}
				i++
			}
			if i < n && !space[line[i]] {
				return words, ends, false
			}
			w = line[from:i]
			if w == "" {
				return words, ends, false
			}
			if digits && !redirect && i < n && (line[i] == '>' || line[i] == '<') {
				continue // the number of a descriptor
			}
			if len(words) == start && !redirect && (reserved(w) || strings.IndexByte(w, '=') >= 0) {
				return words, ends, false
			}
		}
		if redirect {
			redirect = false // a caller would keep the target: it is matched too
			continue
		}
		words = append(words, w)
	}
	if redirect {
		return words, ends, false
	}
	if len(words) > start {
		ends = append(ends, len(words))
	}
	return words, ends, true
}

// space ends a word, stop ends or spoils one.
var space, stop = func() (sp, st [256]bool) {
	for _, c := range " \t\n;|&<>" {
		sp[c], st[c] = true, true
	}
	for _, c := range "$`\"'\\()#*?[]{}~!" {
		st[c] = true
	}
	return sp, st
}()

func reserved(w string) bool {
	switch w {
	case "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in", "function", "select", "time", "coproc",
		"declare", "local", "export", "readonly", "typeset", "nameref", "let":
		return true
	}
	return false
}

// BenchmarkJudge times command line to argv list, the work a permission rule
// needs, by the tree and by the sketch with the tree behind it.
func BenchmarkJudge(b *testing.B) {
	for _, c := range commands {
		b.Run(c.name+"/rulvar", func(b *testing.B) { benchRulvar(b, c.line) })
		b.Run(c.name+"/mvdan-sh-argv", func(b *testing.B) {
			p := syntax.NewParser(syntax.Variant(syntax.LangBash))
			r := strings.NewReader("")
			b.ReportAllocs()
			start := cpuTime()
			defer func() { reportCPU(b, start, 1) }()
			for b.Loop() {
				sink += len(slow(b, p, r, c.line))
			}
		})
		b.Run(c.name+"/sketch-then-mvdan", func(b *testing.B) {
			p := syntax.NewParser(syntax.Variant(syntax.LangBash))
			r := strings.NewReader("")
			var words []string
			var ends []int
			var ok bool
			b.ReportAllocs()
			for b.Loop() {
				if words, ends, ok = fastArgvs(c.line, words[:0], ends[:0]); ok {
					sink += len(ends)
				} else {
					sink += len(slow(b, p, r, c.line))
				}
			}
		})
		b.Run(c.name+"/byte-loop-bound", func(b *testing.B) { byteLoop(b, c.line) })
	}
}

func slow(tb testing.TB, p *syntax.Parser, r *strings.Reader, line string) [][]string {
	r.Reset(line)
	f, err := p.Parse(r, "")
	if err != nil {
		tb.Fatal(err)
	}
	return argvs(f)
}

func TestFastAgrees(t *testing.T) {
	lines := []string{
		`ls`, `ls -la  /tmp`, `echo 'a b' c`, `echo "x"`, `a;b`, `a&&b||c`, `a|b`, `a |& b`, `cat <in >out`, `make 2>&1`, `x &>log`, `sleep 1 &`,
		`echo a2>f`, `echo 2 >f`, `git log --format=%h`, "a\nb",
	}
	for _, c := range commands {
		lines = append(lines, c.line)
	}
	p := syntax.NewParser()
	taken := 0
	for _, l := range lines {
		words, ends, ok := fastArgvs(l, nil, nil)
		if !ok {
			continue
		}
		taken++
		want := slow(t, p, strings.NewReader(""), l)
		from := 0
		for i, e := range ends {
			if i >= len(want) || !slices.Equal(words[from:e], want[i]) {
				t.Errorf("%q: got %q, want %q", l, words[from:e], want)
			}
			from = e
		}
		if len(ends) != len(want) {
			t.Errorf("%q: %d commands, want %q", l, len(ends), want)
		}
	}
	t.Logf("%d of %d lines without the tree", taken, len(lines))
}
