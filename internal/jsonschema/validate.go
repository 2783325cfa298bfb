package jsonschema

import (
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// maxCached is how many compiled schemas are kept.
const maxCached = 256

// Validator is a compiled schema. It is immutable, and all its methods may be
// called from several goroutines at once.
type Validator struct {
	schema *jsonschema.Schema
	shape  *shape
	quick  *quick
}

// Compile compiles a schema, after [Check] with its errors. Validators are
// kept, by the canonical text of the schema, in a cache of 256; an equal schema
// gets the same one. Compile may be called from several goroutines.
func Compile(tree any) (*Validator, error) {
	text, err := jcs.AppendTree(nil, tree)
	if err != nil {
		return nil, refuse(KindMalformed, nil, "", "the schema is not a JSON tree: "+err.Error())
	}
	key := sha256.Sum256(text)
	if v := compiled.get(key); v != nil {
		return v, nil
	}
	p, doc, err := check(tree)
	if err != nil {
		return nil, err
	}
	v, err := build(p, doc)
	if err != nil {
		return nil, err
	}
	compiled.put(key, v)
	return v, nil
}

// cache keeps the newest validators; when it is full the oldest goes.
type cache struct {
	mu    sync.Mutex
	byKey map[[32]byte]*Validator
	order [][32]byte // a ring of the keys, by age
	next  int
}

var compiled = cache{byKey: map[[32]byte]*Validator{}}

func (c *cache) get(key [32]byte) *Validator {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byKey[key]
}

func (c *cache) put(key [32]byte, v *Validator) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok {
		return
	}
	if len(c.order) < maxCached {
		c.order = append(c.order, key)
	} else {
		delete(c.byKey, c.order[c.next])
		c.order[c.next] = key
		c.next = (c.next + 1) % maxCached
	}
	c.byKey[key] = v
}

// planURL is the address under which the validator knows a plan. Nothing is
// ever loaded from it, or from anywhere.
const planURL = "urn:rulvar:plan"

// nowhere is the loader of the validator: it refuses every address. A plan has
// no reference that would need it.
type nowhere struct{}

// Load returns an error.
func (nowhere) Load(string) (any, error) {
	return nil, errors.New("schemas are not loaded from anywhere")
}

// build compiles a plan.
func build(p *plan, doc any) (*Validator, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	c.AssertFormat()
	for name, test := range formats {
		c.RegisterFormat(&jsonschema.Format{Name: formatPrefix + name, Validate: textFormat(test)})
	}
	c.UseRegexpEngine(func(source string) (jsonschema.Regexp, error) {
		if re, ok := p.patterns[source]; ok {
			return re, nil
		}
		return nil, errors.New("pattern without a plan")
	})
	if p.names {
		c.RegisterVocabulary(namesVocabulary)
		c.AssertVocabs()
	}
	err := c.AddResource(planURL, doc)
	if err == nil {
		var schema *jsonschema.Schema
		if schema, err = c.Compile(planURL); err == nil {
			return &Validator{schema: schema, shape: newShape(schema), quick: newQuick(schema)}, nil
		}
	}
	// The plan holds nothing that the validator refuses; should it still, the
	// definition is refused and not used unchecked.
	return nil, refuse(KindMalformed, nil, "", "the validator refuses the schema: "+quote(err.Error(), 200))
}

// textFormat applies a check to texts; other values have no format.
func textFormat(test func(string) error) func(any) error {
	return func(v any) error {
		if s, ok := v.(string); ok {
			return test(s)
		}
		return nil
	}
}

// Valid reports whether the value fits the schema. It is the fast way: nothing
// is explained.
func (v *Validator) Valid(tree any) bool {
	if v.quick.fits(tree, 0) {
		return true
	}
	plain, _, bad := settle(tree, 0)
	return bad == nil && v.schema.Validate(plain) == nil
}

// Validate returns what is wrong with a value, nil where it fits: at most 16
// issues, sorted by location and keyword, with the same text on every run.
func (v *Validator) Validate(tree any) []Issue {
	if v.quick.fits(tree, 0) {
		return nil
	}
	err, bad := v.run(tree)
	switch {
	case bad != nil:
		return []Issue{{Location: clip(bad.location(), maxLocation), Keyword: "", Message: bad.msg}}
	case err != nil:
		return issues(err)
	}
	return nil
}

// Locations returns every place of the value that does not fit, as sorted
// URI-fragment pointers. An object or array with a failing part fails itself,
// so with "#/a/0" come "#/a" and "#".
func (v *Validator) Locations(tree any) []string {
	err, bad := v.run(tree)
	switch {
	case bad != nil:
		return locations([]failure{{toks: bad.path()}})
	case err != nil:
		return locations(failures(err))
	}
	return nil
}

func (v *Validator) run(tree any) (*jsonschema.ValidationError, *badValue) {
	plain, _, bad := settle(tree, 0)
	if bad != nil {
		return nil, bad
	}
	err := v.schema.Validate(plain)
	if err == nil {
		return nil, nil
	}
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return nil, &badValue{msg: "the value cannot be validated"}
	}
	return failed, nil
}
