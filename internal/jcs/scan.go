package jcs

import (
	"strconv"
	"sync"
)

// A text is read once, into a flat list of nodes in document order:
//
//	{"b":[1,2],"a":"x"}
//
//	0 object  count 2   next 7
//	1 text    "b"       next 2      a member is its name, then its value
//	2 array   count 2   next 5
//	3 number  1         next 4
//	4 number  2         next 5
//	5 text    "a"       next 6
//	6 text    "x"       next 7
//
// Nodes hold places in the text and no copies; next is the node behind the
// whole value, so that siblings are walked without looking inside. The list is
// reused from a pool. Writers and tree builders walk it afterwards.
type node struct {
	// start and end bound the value in the text: a string without its
	// quotes, a number or literal whole. A container has its opening bracket
	// at start and the count of its members or elements in end.
	start, end uint32
	next       uint32
	kind       nodeKind
	flags      nodeFlags
}

type nodeKind uint8

const (
	kindNull nodeKind = iota
	kindFalse
	kindTrue
	kindNumber
	kindText
	kindArray
	kindObject
)

type nodeFlags uint8

const (
	// escaped: the string holds a backslash, so its bytes are not its value.
	escaped nodeFlags = 1 << iota
	// rewrite: the string holds an escape that the canonical form spells
	// otherwise. Without it the source bytes are the canonical ones.
	rewrite
	// settled: the source text of the number is its canonical text.
	settled
	// overflow: no float64 reaches the number.
	overflow
)

// rules says what a scan refuses beyond text that is not JSON.
type rules uint8

const (
	// lenient is the rule of [Parse].
	lenient rules = 0
	// exact refuses integers that would change in their canonical form.
	exact rules = 1 << iota
	// finite refuses numbers out of range even where a later member of the
	// same name replaces them.
	finite
)

// arena is the memory of one read: the nodes, and what the writer needs to
// sort members.
type arena struct {
	nodes   []node
	members []member[struct{}]
	names   []byte // decoded member names
}

var arenas = sync.Pool{New: func() any { return new(arena) }}

// release gives the arena back, without references into the text. Memory that
// one large text needed is not kept.
func (a *arena) release() {
	if cap(a.nodes) > 1<<16 || cap(a.members) > 1<<14 || cap(a.names) > 1<<18 {
		return
	}
	clear(a.members) // what an error left; else it is empty
	a.nodes, a.members, a.names = a.nodes[:0], a.members[:0], a.names[:0]
	arenas.Put(a)
}

// scanner reads one text into nodes.
type scanner struct {
	src   string
	pos   int
	nodes []node
	rules rules
	// overflows says that some number is marked so.
	overflows bool
}

// document reads the whole text as one value, which stands depth levels deep
// already.
func (s *scanner) document(depth int) *SyntaxError {
	if len(s.src) > maxText {
		return refuse(ErrSyntax, 0, "the text is longer than %d bytes", maxText)
	}
	s.space()
	if err := s.value(depth); err != nil {
		return err
	}
	s.space()
	if s.pos < len(s.src) {
		return s.unexpected("after the value; one text holds one value")
	}
	return nil
}

// value reads one value that starts at pos and stands inside depth containers.
func (s *scanner) value(depth int) *SyntaxError {
	if s.pos >= len(s.src) {
		return s.unexpected("where a value should start")
	}
	switch c := s.src[s.pos]; c {
	case '"':
		return s.text()
	case '{':
		return s.object(depth + 1)
	case '[':
		return s.array(depth + 1)
	case 't':
		return s.literal("true", kindTrue)
	case 'f':
		return s.literal("false", kindFalse)
	case 'n':
		return s.literal("null", kindNull)
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return s.number()
		}
		return s.unexpected("where a value should start")
	}
}

// object reads an object as the depth-th container.
func (s *scanner) object(depth int) *SyntaxError {
	at, err := s.open(kindObject, depth)
	if err != nil {
		return err
	}
	if s.take('}') {
		s.close(at, 0)
		return nil
	}
	for count := uint32(1); ; count++ {
		if s.pos >= len(s.src) || s.src[s.pos] != '"' {
			return s.unexpected("where a member name in double quotes should start")
		}
		name := len(s.nodes)
		if err := s.text(); err != nil {
			return err
		}
		s.space()
		if !s.take(':') {
			return s.unexpected("where ':' should follow a member name")
		}
		s.space()
		if err := s.value(depth); err != nil {
			return err.under(s.string(name))
		}
		s.space()
		if s.take('}') {
			s.close(at, count)
			return nil
		}
		if !s.take(',') {
			return s.unexpected("where ',' or '}' should follow a member")
		}
		s.space()
	}
}

// array reads an array as the depth-th container.
func (s *scanner) array(depth int) *SyntaxError {
	at, err := s.open(kindArray, depth)
	if err != nil {
		return err
	}
	if s.take(']') {
		s.close(at, 0)
		return nil
	}
	for count := uint32(1); ; count++ {
		if err := s.value(depth); err != nil {
			return err.under(strconv.Itoa(int(count - 1)))
		}
		s.space()
		if s.take(']') {
			s.close(at, count)
			return nil
		}
		if !s.take(',') {
			return s.unexpected("where ',' or ']' should follow an element")
		}
		s.space()
	}
}

// open starts a container and steps over its bracket and the blanks behind.
func (s *scanner) open(kind nodeKind, depth int) (int, *SyntaxError) {
	if depth > MaxDepth {
		return 0, refuse(ErrDepth, s.pos, "more than %d arrays and objects inside each other", MaxDepth)
	}
	at := len(s.nodes)
	s.nodes = append(s.nodes, node{start: uint32(s.pos), kind: kind})
	s.pos++
	s.space()
	return at, nil
}

// close ends the container that began at node at.
func (s *scanner) close(at int, count uint32) {
	n := &s.nodes[at]
	n.end, n.next = count, uint32(len(s.nodes))
}

// leaf adds a node for the value between start and end.
func (s *scanner) leaf(kind nodeKind, start, end int, flags nodeFlags) {
	s.nodes = append(s.nodes, node{
		start: uint32(start), end: uint32(end), next: uint32(len(s.nodes) + 1), kind: kind, flags: flags,
	})
}

// literal reads one of the three words.
func (s *scanner) literal(word string, kind nodeKind) *SyntaxError {
	end := s.pos + len(word)
	if end > len(s.src) || s.src[s.pos:end] != word {
		return s.unexpected("where a value should start")
	}
	s.leaf(kind, s.pos, end, 0)
	s.pos = end
	return nil
}

// take steps over c if it comes next.
func (s *scanner) take(c byte) bool {
	if s.pos < len(s.src) && s.src[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// space steps over blanks. Most texts are either compact, with no blank at
// all, or indented, with long runs of spaces.
func (s *scanner) space() {
	i := s.pos
	for i < len(s.src) {
		switch s.src[i] {
		case ' ':
			for i+8 <= len(s.src) && load64(s.src, i) == eightSpaces {
				i += 8
			}
			for i < len(s.src) && s.src[i] == ' ' {
				i++
			}
		case '\n', '\r', '\t':
			i++
		default:
			s.pos = i
			return
		}
	}
	s.pos = i
}

// string returns the value of the string at node at.
func (s *scanner) string(at int) string {
	n := s.nodes[at]
	raw := s.src[n.start:n.end]
	if n.flags&escaped == 0 {
		return raw
	}
	return string(appendDecoded(nil, raw))
}

// unexpected reports the byte at pos, or the end of the text, and where it
// stands.
func (s *scanner) unexpected(where string) *SyntaxError {
	if s.pos >= len(s.src) {
		return refuse(ErrSyntax, len(s.src), "the text ends %s", where)
	}
	if c := s.src[s.pos]; c < ' ' || c >= 0x7f {
		return refuse(ErrSyntax, s.pos, "unexpected byte 0x%02x %s", c, where)
	}
	return refuse(ErrSyntax, s.pos, "unexpected %q %s", s.src[s.pos], where)
}
