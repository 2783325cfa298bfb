package jsonschema

import "github.com/santhosh-tekuri/jsonschema/v6"

// shape is a compiled schema reduced to what it says about the parts of a
// value: which members and elements are described, by what, and which have a
// default. Shapes form a graph without cycles, one node a schema.
type shape struct {
	props      map[string]*shape
	patterns   []patternShape
	additional *shape // nil: nothing is said
	prefix     []*shape
	rest       *shape

	// same are the schemas that hold for the same value as well ($ref, allOf);
	// maybe are those that can (anyOf, oneOf, if, then, else,
	// dependentSchemas, dependencies).
	same, maybe []*shape

	// preset is the shape that holds the default of the described value: this
	// one, or one of same. It is nil where there is none that fits its schema.
	preset *shape
	value  any

	absent  []string // sorted names of props with a preset
	fills   bool     // absent is found here or below, along same
	members bool     // props are found here or below
	alone   *shapes  // the set of this shape, where no other holds with it
}

type patternShape struct {
	re    jsonschema.Regexp
	shape *shape
}

// newShape returns the shape of a compiled schema.
func newShape(s *jsonschema.Schema) *shape {
	b := shapeBuilder{done: map[*jsonschema.Schema]*shape{}}
	return b.shape(s)
}

type shapeBuilder struct {
	done map[*jsonschema.Schema]*shape
}

func (b *shapeBuilder) shape(s *jsonschema.Schema) *shape {
	if s == nil {
		return nil
	}
	if sh, ok := b.done[s]; ok {
		return sh
	}
	sh := &shape{}
	b.done[s] = sh
	if s.Bool != nil {
		return sh
	}
	b.parts(sh, s)
	b.places(sh, s)
	if s.Default != nil && s.Validate(*s.Default) == nil {
		sh.value, sh.preset = *s.Default, sh
	}
	sh.summarise()
	return sh
}

// parts adds what describes members and elements.
func (b *shapeBuilder) parts(sh *shape, s *jsonschema.Schema) {
	if len(s.Properties) > 0 {
		sh.props = make(map[string]*shape, len(s.Properties))
		for name, p := range s.Properties {
			sh.props[name] = b.shape(p)
		}
	}
	for re, p := range s.PatternProperties {
		sh.patterns = append(sh.patterns, patternShape{re, b.shape(p)})
	}
	if p, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		sh.additional = b.shape(p)
	} else {
		sh.additional = b.shape(s.UnevaluatedProperties)
	}
	for _, p := range s.PrefixItems {
		sh.prefix = append(sh.prefix, b.shape(p))
	}
	sh.rest = b.shape(s.Items2020)
	if sh.rest == nil {
		sh.rest = b.shape(s.UnevaluatedItems)
	}
}

// places adds what describes the same value.
func (b *shapeBuilder) places(sh *shape, s *jsonschema.Schema) {
	add := func(list *[]*shape, schemas ...*jsonschema.Schema) {
		for _, p := range schemas {
			if p != nil {
				*list = append(*list, b.shape(p))
			}
		}
	}
	add(&sh.same, s.Ref)
	add(&sh.same, s.AllOf...)
	add(&sh.maybe, s.AnyOf...)
	add(&sh.maybe, s.OneOf...)
	add(&sh.maybe, s.If, s.Then, s.Else)
	for _, name := range sortedKeys(s.DependentSchemas) {
		add(&sh.maybe, s.DependentSchemas[name])
	}
	for _, name := range sortedKeys(s.Dependencies) {
		if p, ok := s.Dependencies[name].(*jsonschema.Schema); ok {
			add(&sh.maybe, p)
		}
	}
}

// summarise notes what is below, so that a value is only walked where that can
// lead to something. The shapes below are finished.
func (sh *shape) summarise() {
	sh.members = len(sh.props) > 0
	look := func(below *shape) {
		if below != nil {
			sh.fills = sh.fills || below.fills
			sh.members = sh.members || below.members
		}
	}
	for _, name := range sortedKeys(sh.props) {
		p := sh.props[name]
		look(p)
		if p.preset != nil {
			sh.absent = append(sh.absent, name)
			sh.fills = true
		}
	}
	for _, p := range sh.patterns {
		look(p.shape)
	}
	look(sh.additional)
	for _, p := range sh.prefix {
		look(p)
	}
	look(sh.rest)
	for _, p := range sh.same {
		look(p)
		if sh.preset == nil {
			sh.preset = p.preset
		}
	}
	for _, p := range sh.maybe {
		sh.members = sh.members || p.members
	}
	if len(sh.same) == 0 && len(sh.maybe) == 0 {
		sh.alone = &shapes{list: []*shape{sh}}
	}
}
