package jsonschema

import (
	"strconv"
	"strings"
)

// resolver finds the targets of the references of one document. It is used by
// one goroutine at a time.
type resolver struct {
	root    any
	anchors map[string]target // filled when the first anchor is asked for
}

// target is what a reference leads to.
type target struct {
	node  any
	at    *place
	key   string // the pointer; one key per node
	twice bool   // the anchor stands at more than one place
}

// local reports whether ref stays in the document.
func local(ref string) bool { return strings.HasPrefix(ref, "#") }

// find returns the target of the local reference ref:
//
//	#                 the document
//	#/a/b~1c/0        a pointer, read step by step; percent escapes are text
//	#name             the node with "$anchor": "name"
//
// Where an anchor stands more than once, the first in the order of sorted
// member names counts.
func (r *resolver) find(ref string) (target, bool) {
	frag := ref[1:]
	if frag == "" {
		return target{node: r.root}, true
	}
	if frag[0] != '/' {
		if r.anchors == nil {
			r.anchors = map[string]target{}
			r.collect(r.root, nil, 0)
		}
		t, ok := r.anchors[frag]
		return t, ok
	}
	t := target{node: r.root, key: frag}
	for tok := range strings.SplitSeq(frag[1:], "/") {
		tok = unescaper.Replace(tok)
		switch n := t.node.(type) {
		case map[string]any:
			v, ok := n[tok]
			if !ok {
				return target{}, false
			}
			t.node = v
		case []any:
			i, ok := index(tok)
			if !ok || i >= len(n) {
				return target{}, false
			}
			t.node = n[i]
		default:
			return target{}, false
		}
		t.at = t.at.under(tok)
	}
	return t, true
}

// index reads an array index without sign or leading zeros.
func index(tok string) (int, bool) {
	if tok == "" || len(tok) > 9 || len(tok) > 1 && tok[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(tok, 10, 31)
	return int(n), err == nil
}

// collect notes every "$anchor" of the tree.
func (r *resolver) collect(v any, at *place, depth int) {
	if depth > maxDepth {
		return
	}
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			r.collect(e, at.at(i), depth+1)
		}
	case map[string]any:
		if name, ok := v["$anchor"].(string); ok {
			if first, ok := r.anchors[name]; ok {
				first.twice = true
				r.anchors[name] = first
			} else {
				r.anchors[name] = target{node: v, at: at, key: at.key()}
			}
		}
		for _, name := range sortedKeys(v) {
			r.collect(v[name], at.under(name), depth+1)
		}
	}
}

// key returns the place as a plain pointer, as references spell it.
func (p *place) key() string {
	if p == nil {
		return ""
	}
	return p.up.key() + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p.tok)
}

// opaque reports whether the place is inside a value that a schema holds (in
// const, enum, default or examples) and so no place for a schema. Below an
// unknown keyword anything may stand.
func opaque(p *place) bool {
	var toks []string
	for ; p != nil; p = p.up {
		toks = append(toks, p.tok)
	}
	for i := len(toks) - 1; i >= 0; i-- {
		switch word := toks[i]; word {
		case "const", "enum", "default", "examples":
			return true
		case "$defs", "definitions", "dependencies":
			i-- // the name
		case "additionalItems":
		default:
			switch canonicalRoles[word] {
			case roleMap, roleList:
				i-- // the name or the index
			case roleSchema:
				if i > 0 && word == "items" {
					if _, tuple := index(toks[i-1]); tuple {
						i--
					}
				}
			default:
				return false
			}
		}
	}
	return false
}
