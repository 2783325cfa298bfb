package jcs

import "strconv"

// appendText appends the canonical form of src, which stands inside depth
// containers already.
func appendText(dst []byte, src string, depth int, r rules) ([]byte, *SyntaxError) {
	a := arenas.Get().(*arena)
	s := scanner{src: src, nodes: a.nodes, rules: r}
	err := s.document(depth)
	a.nodes = s.nodes
	if err == nil {
		w := textWriter{src: src, arena: a}
		dst, err = w.value(dst, 0)
	}
	a.release()
	return dst, err
}

// textWriter writes the nodes of src in canonical form. Its depth is bounded
// by the scan.
type textWriter struct {
	src string
	*arena
}

// value writes the value at node at.
func (w *textWriter) value(dst []byte, at uint32) ([]byte, *SyntaxError) {
	n := &w.nodes[at]
	switch n.kind {
	case kindText:
		return w.string(dst, n), nil
	case kindNumber:
		text := w.src[n.start:n.end]
		switch {
		case n.flags&settled != 0:
			return append(dst, text...), nil
		case n.flags&overflow != 0:
			return dst, outOfRange(int(n.start), text)
		}
		return appendNumberText(dst, text), nil
	case kindArray:
		return w.array(dst, at)
	case kindObject:
		return w.object(dst, at)
	default:
		return append(dst, w.src[n.start:n.end]...), nil
	}
}

// string writes the string n.
func (w *textWriter) string(dst []byte, n *node) []byte {
	if n.flags&rewrite == 0 {
		return append(dst, w.src[n.start-1:n.end+1]...)
	}
	return append(appendRewritten(append(dst, '"'), w.src[n.start:n.end]), '"')
}

func (w *textWriter) array(dst []byte, at uint32) ([]byte, *SyntaxError) {
	var err *SyntaxError
	count := w.nodes[at].end
	dst = append(dst, '[')
	at++
	for i := range count {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = w.value(dst, at); err != nil {
			return dst, err.under(strconv.Itoa(int(i)))
		}
		at = w.nodes[at].next
	}
	return append(dst, ']'), nil
}

// object writes the members in order. Of several with one name only the last
// is written, and only it can fail.
func (w *textWriter) object(dst []byte, at uint32) ([]byte, *SyntaxError) {
	base := len(w.members)
	count := w.nodes[at].end
	at++
	for range count {
		name := w.name(&w.nodes[at])
		w.members = append(w.members, member[struct{}]{prefix: prefixOf(name), name: name, at: at})
		at = w.nodes[at+1].next
	}
	end := len(w.members)
	sortMembers(w.members[base:end])

	var err *SyntaxError
	dst = append(dst, '{')
	first := len(dst)
	for i := base; i < end; i++ {
		m := w.members[i]
		if i+1 < end && m.prefix == w.members[i+1].prefix && m.name == w.members[i+1].name {
			continue
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = append(w.string(dst, &w.nodes[m.at]), ':')
		if dst, err = w.value(dst, m.at+1); err != nil {
			return dst, err.under(m.name)
		}
	}
	clear(w.members[base:end])
	w.members = w.members[:base]
	return append(dst, '}'), nil
}

// name returns the value of the member name n.
func (w *textWriter) name(n *node) string {
	raw := w.src[n.start:n.end]
	if n.flags&escaped == 0 {
		return raw
	}
	start := len(w.names)
	w.names = appendDecoded(w.names, raw)
	return view(w.names[start:])
}
