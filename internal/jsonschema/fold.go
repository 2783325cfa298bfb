package jsonschema

import (
	"slices"
	"strconv"
	"strings"
)

// FoldConflict looks for a member whose name is not the name of a declared
// property but becomes one when the difference between upper and lower case is
// ignored: "COMMAND" where "command" is declared, also "ſet" for "set" (the
// long s) and "K" for "k" (the Kelvin sign). Decoders that ignore case, Go's
// own among them, would take it for the property, so one reader sees another
// value than the next; such a value has to be refused.
//
// Declared are the properties of every schema that holds or may hold for the
// object: its own, and through $ref, allOf, anyOf, oneOf, if, then, else and
// dependentSchemas. The search goes on below through properties,
// patternProperties, additionalProperties, prefixItems and items. The first
// such member by place is returned as a URI-fragment pointer.
func (v *Validator) FoldConflict(tree any) (pointer string, found bool) {
	var g gathered
	g.add(v.shape)
	toks := g.shapes().fold(tree)
	if toks == nil {
		return "", false
	}
	slices.Reverse(toks)
	return fragment(toks), true
}

// FoldConflict is [Validator.FoldConflict] with a schema that is compiled for
// the call. A schema that cannot be used finds nothing.
func FoldConflict(schema, tree any) (pointer string, found bool) {
	v, err := Compile(schema)
	if err != nil {
		return "", false
	}
	return v.FoldConflict(tree)
}

// shapes is a set of shapes in the order of discovery.
type shapes struct {
	list []*shape
	seen map[*shape]bool // only where the list is long
}

// add adds sh and all that hold or may hold for the same value.
func (s *shapes) add(sh *shape) {
	if sh == nil || !sh.members || s.has(sh) {
		return
	}
	s.list = append(s.list, sh)
	if s.seen != nil {
		s.seen[sh] = true
	} else if len(s.list) > 16 {
		s.seen = map[*shape]bool{}
		for _, have := range s.list {
			s.seen[have] = true
		}
	}
	for _, p := range sh.same {
		s.add(p)
	}
	for _, p := range sh.maybe {
		s.add(p)
	}
}

func (s *shapes) has(sh *shape) bool {
	if s.seen != nil {
		return s.seen[sh]
	}
	return slices.Contains(s.list, sh)
}

// gathered collects the shapes that describe one part. Mostly that is one,
// which alone holds for it; then its set exists already.
type gathered struct {
	first *shape
	set   *shapes
}

func (g *gathered) add(sh *shape) {
	switch {
	case sh == nil || !sh.members || sh == g.first:
	case g.first == nil:
		g.first = sh
	default:
		if g.set == nil {
			g.set = &shapes{}
			g.set.add(g.first)
		}
		g.set.add(sh)
	}
}

func (g *gathered) shapes() *shapes {
	switch {
	case g.set != nil:
		return g.set
	case g.first == nil:
		return &noShapes
	case g.first.alone != nil:
		return g.first.alone
	}
	set := &shapes{}
	set.add(g.first)
	return set
}

var noShapes shapes

// fold returns the steps to the first conflict in v, innermost first, or nil.
func (s *shapes) fold(v any) []string {
	if len(s.list) == 0 {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		return s.foldObject(v)
	case []any:
		for i, e := range v {
			if isLeaf(e) {
				continue
			}
			var below gathered
			for _, sh := range s.list {
				if i < len(sh.prefix) {
					below.add(sh.prefix[i])
				} else {
					below.add(sh.rest)
				}
			}
			if toks := below.shapes().fold(e); toks != nil {
				return append(toks, strconv.Itoa(i))
			}
		}
	}
	return nil
}

func (s *shapes) foldObject(obj map[string]any) []string {
	var best []string
	for name, e := range obj {
		if best != nil && best[len(best)-1] <= name {
			continue
		}
		if !s.declared(name) && s.folds(name) {
			best = []string{name}
			continue
		}
		if isLeaf(e) {
			continue
		}
		var below gathered
		for _, sh := range s.list {
			p, described := sh.props[name]
			if described {
				below.add(p)
			}
			for _, p := range sh.patterns {
				if p.re.MatchString(name) {
					described = true
					below.add(p.shape)
				}
			}
			if !described {
				below.add(sh.additional)
			}
		}
		if toks := below.shapes().fold(e); toks != nil {
			best = append(toks, name)
		}
	}
	return best
}

func (s *shapes) declared(name string) bool {
	for _, sh := range s.list {
		if _, ok := sh.props[name]; ok {
			return true
		}
	}
	return false
}

// folds reports whether name is a declared name when case is ignored.
func (s *shapes) folds(name string) bool {
	for _, sh := range s.list {
		for prop := range sh.props {
			if strings.EqualFold(prop, name) {
				return true
			}
		}
	}
	return false
}

// isLeaf reports whether v has no parts.
func isLeaf(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}
