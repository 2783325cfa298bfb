package jcs

import (
	"encoding/json"
	"strconv"
)

// Parse reads one JSON value as a tree: nil, bool, string, [json.Number] with
// its source text, []any or map[string]any, never a nil slice or map. The
// whole text must be one value. Of members with one name the last counts.
// Nesting beyond [MaxDepth], invalid UTF-8, lone surrogates and numbers that no
// float64 reaches are refused. The error is a *[SyntaxError].
//
// Strings of the tree may share one copy of the text, which lives as long as
// any of them.
func Parse(src []byte) (any, error) {
	return parse(src, lenient)
}

// ParseStrict reads text that a model wrote, as [Parse] does, and also refuses
// what two readers could understand differently: a member name that comes
// twice in one object, and an integer that would become another one as a
// float64, however it is spelled (9007199254740993, 9007199254740993.0). A
// byte order mark is refused, as by Parse. The error is a *[SyntaxError].
func ParseStrict(src []byte) (any, error) {
	return parse(src, exact|finite)
}

// Check refuses exactly what [Parse] refuses, with the same error, and makes no
// tree: it is for text that is only passed on. It allocates nothing where the
// text is taken.
func Check(src []byte) error {
	a := arenas.Get().(*arena)
	s := scanner{src: view(src), nodes: a.nodes, rules: lenient}
	err := s.document(0)
	a.nodes = s.nodes
	overflows := s.overflows
	a.release()
	switch {
	case err != nil:
		return err.located()
	case overflows: // whether that matters depends on later members
		_, err := Parse(src)
		return err
	}
	return nil
}

func parse(src []byte, r rules) (any, error) {
	a := arenas.Get().(*arena)
	s := scanner{src: string(src), nodes: a.nodes, rules: r}
	err := s.document(0)
	a.nodes = s.nodes
	var tree any
	if err == nil {
		b := treeBuilder{scanner: &s, strict: r != lenient}
		tree, err = b.value(0)
	}
	a.release()
	if err != nil {
		return nil, err.located()
	}
	return tree, nil
}

// treeBuilder makes a tree of the scanned nodes.
type treeBuilder struct {
	*scanner
	strict bool
}

// value returns the value at node at.
func (b *treeBuilder) value(at uint32) (any, *SyntaxError) {
	switch n := b.nodes[at]; n.kind {
	case kindFalse:
		return false, nil
	case kindTrue:
		return true, nil
	case kindNumber:
		text := b.src[n.start:n.end]
		if n.flags&overflow != 0 {
			return nil, outOfRange(int(n.start), text)
		}
		return json.Number(text), nil
	case kindText:
		return b.string(int(at)), nil
	case kindArray:
		return b.array(at)
	case kindObject:
		return b.object(at)
	default:
		return nil, nil
	}
}

func (b *treeBuilder) array(at uint32) (any, *SyntaxError) {
	list := make([]any, b.nodes[at].end)
	at++
	for i := range list {
		v, err := b.value(at)
		if err != nil {
			return nil, err.under(strconv.Itoa(i))
		}
		list[i] = v
		at = b.nodes[at].next
	}
	return list, nil
}

func (b *treeBuilder) object(at uint32) (any, *SyntaxError) {
	count := int(b.nodes[at].end)
	object := make(map[string]any, count)
	last := b.lasts(at)
	at++
	for i := range count {
		name := b.string(int(at))
		if last == nil || last[name] == at {
			v, err := b.value(at + 1)
			if err != nil {
				return nil, err.under(name)
			}
			object[name] = v
			if b.strict && len(object) == i {
				return nil, refuse(ErrDuplicate, int(b.nodes[at].start)-1,
					"member %q comes twice; send each name once", clip(name, 80)).under(name)
			}
		}
		at = b.nodes[at+1].next
	}
	return object, nil
}

// lasts returns, by name, the node of the last member of the object at, where
// that matters before the values are built: a number out of range that a later
// member replaces is no error. Else it returns nil.
func (b *treeBuilder) lasts(at uint32) map[string]uint32 {
	if !b.overflows {
		return nil
	}
	last := make(map[string]uint32, b.nodes[at].end)
	count := b.nodes[at].end
	at++
	for range count {
		last[b.string(int(at))] = at
		at = b.nodes[at+1].next
	}
	return last
}
