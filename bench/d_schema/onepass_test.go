package schema

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"testing"
)

// node is a schema compiled for a single pass over the raw bytes: no tree of
// values is built, and nothing is allocated while the arguments are valid. It
// is a sketch with the keywords of this package's schema, here to show which
// ratio to a plain decode is in reach; strings with escapes fall back to
// encoding/json, and numbers are parsed by strconv.
type node struct {
	kind               byte // '{' '[' '"' '0' (number) 'i' (integer) 't' (boolean)
	props              []prop
	required           uint64 // bit i: props[i] has to be there
	items              *node
	minItems, maxItems int
	enum               []string
	text               func([]byte) bool
	min, max           float64
}

type prop struct {
	name string
	n    *node
}

var editNode = &node{kind: '{', required: 7, props: []prop{
	{"start", &node{kind: 'i', max: math.MaxInt}}, {"end", &node{kind: 'i', max: math.MaxInt}}, {"text", &node{kind: '"'}},
}}

var argsNode = &node{kind: '{', required: 1 | 2 | 16, props: []prop{
	{"path", &node{kind: '"', text: func(s []byte) bool { return len(s) >= 1 && len(s) <= 4096 && pathChars(string(s)) }}},
	{"mode", &node{kind: '"', enum: []string{"create", "replace", "append"}}},
	{"limit", &node{kind: 'i', min: 1, max: 10000}},
	{"force", &node{kind: 't'}},
	{"edits", &node{kind: '[', items: editNode, minItems: 1, maxItems: 64}},
}}

// check returns the index after the value at b[i:], or -1.
func (n *node) check(b []byte, i int) int {
	i = skip(b, i)
	if i >= len(b) {
		return -1
	}
	switch n.kind {
	case '{':
		return n.object(b, i)
	case '[':
		if b[i] != '[' {
			return -1
		}
		i = skip(b, i+1)
		count := 0
		for i < len(b) && b[i] != ']' {
			if count > 0 {
				if b[i] != ',' {
					return -1
				}
				i++
			}
			if i = n.items.check(b, i); i < 0 {
				return -1
			}
			count++
			i = skip(b, i)
		}
		if i >= len(b) || count < n.minItems || count > n.maxItems {
			return -1
		}
		return i + 1
	case '"':
		s, j := str(b, i)
		if j < 0 || n.text != nil && !n.text(s) {
			return -1
		}
		if n.enum == nil {
			return j
		}
		for _, e := range n.enum {
			if string(s) == e {
				return j
			}
		}
		return -1
	case 'i':
		j := i
		for j < len(b) && (b[j]-'0' <= 9 || b[j] == '-' || b[j] == '+' || b[j] == '.' || b[j]|0x20 == 'e') {
			j++
		}
		f, err := strconv.ParseFloat(string(b[i:j]), 64)
		if err != nil || f != math.Trunc(f) || f < n.min || f > n.max {
			return -1
		}
		return j
	case 't':
		for _, w := range [2]string{"true", "false"} {
			if len(b)-i >= len(w) && string(b[i:i+len(w)]) == w {
				return i + len(w)
			}
		}
	}
	return -1
}

func (n *node) object(b []byte, i int) int {
	if b[i] != '{' {
		return -1
	}
	i = skip(b, i+1)
	var seen uint64
	for i < len(b) && b[i] != '}' {
		if seen != 0 {
			if b[i] != ',' {
				return -1
			}
			i = skip(b, i+1)
		}
		name, j := str(b, i)
		if j < 0 {
			return -1
		}
		at := -1
		for k := range n.props {
			if n.props[k].name == string(name) {
				at = k
				break
			}
		}
		if at < 0 || seen&(1<<at) != 0 { // unknown, or twice
			return -1
		}
		seen |= 1 << at
		i = skip(b, j)
		if i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = n.props[at].n.check(b, i+1); i < 0 {
			return -1
		}
		i = skip(b, i)
	}
	if i >= len(b) || seen&n.required != n.required {
		return -1
	}
	return i + 1
}

func skip(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// str returns the string at b[i:] and the index after it.
func str(b []byte, i int) ([]byte, int) {
	if i >= len(b) || b[i] != '"' {
		return nil, -1
	}
	n := bytes.IndexByte(b[i+1:], '"')
	if n < 0 {
		return nil, -1
	}
	s := b[i+1 : i+1+n]
	if bytes.IndexByte(s, '\\') < 0 {
		return s, i + n + 2
	}
	for j := i + 1; j < len(b); j++ {
		switch b[j] {
		case '\\':
			j++
		case '"':
			var v string
			if json.Unmarshal(b[i:j+1], &v) != nil {
				return nil, -1
			}
			return []byte(v), j + 1
		}
	}
	return nil, -1
}

func onePass(b []byte) bool {
	i := argsNode.check(b, 0)
	return i >= 0 && skip(b, i) == len(b)
}

// BenchmarkCheckAndDecode times raw bytes to a checked struct, the whole of
// what stands between a model's arguments and a typed handler.
func BenchmarkCheckAndDecode(b *testing.B) {
	decode := func(b *testing.B) {
		var a args
		if err := json.Unmarshal(good, &a); err != nil || len(a.Edits) != 3 {
			b.Fatal(err)
		}
	}
	b.Run("rulvar", func(b *testing.B) {
		v := compileRulvar(b)
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			if a, err := takeInto(v, good); err != nil || len(a.Edits) != 3 {
				b.Fatal(err)
			}
		}
	})
	for _, p := range peers[1:] {
		b.Run(p.name, func(b *testing.B) {
			v := p.make(b)
			b.ReportAllocs()
			start := cpuTime()
			defer func() { reportCPU(b, start, 1) }()
			for b.Loop() {
				if err := v.raw(good); err != nil {
					b.Fatal(err)
				}
				decode(b)
			}
		})
	}
	b.Run("sketch-one-pass", func(b *testing.B) {
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			if !onePass(good) {
				b.Fatal("invalid")
			}
			decode(b)
		}
	})
	b.Run("sketch-check-only", func(b *testing.B) {
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			if !onePass(good) {
				b.Fatal("invalid")
			}
		}
	})
	b.Run("json-valid", func(b *testing.B) {
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			if !json.Valid(good) {
				b.Fatal("invalid")
			}
		}
	})
	b.Run("struct-unmarshal-bound", func(b *testing.B) {
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			decode(b)
		}
	})
}

func TestOnePass(t *testing.T) {
	if !onePass(good) {
		t.Error("refuses the good arguments")
	}
	for _, bad := range append(bads, `{`, `{}x`, `[]`, `{"path":"a"`, string(good)+"}") {
		if onePass([]byte(bad)) {
			t.Errorf("accepts %s", bad)
		}
	}
}
