package jcs

import (
	"encoding/json"
	"math"
	"strconv"
	"sync"
)

// AppendTree appends the canonical form of a tree to dst. Besides nil, bool,
// string, [json.Number], []any and map[string]any it takes float64, every
// built-in integer type, and [json.RawMessage], whose text is canonicalised
// under the rules of [Parse]. A nil slice is written [] and a nil map {}; a
// nil RawMessage is null, as encoding/json has it.
//
// Refused, with a *[SyntaxError] that names the place: any other type, NaN and
// infinities, strings and names that are not valid UTF-8, nesting beyond
// [MaxDepth] (and so a tree that contains itself), and integers of Go's
// integer types that would be written as another number. A json.Number rounds
// to a float64, as in a JSON text. dst is then returned with its old length.
//
// With room enough in dst nothing is allocated. The tree must not change
// meanwhile.
func AppendTree(dst []byte, tree any) ([]byte, error) {
	w := treeWriters.Get().(*treeWriter)
	out, err := w.value(dst, tree, 0)
	w.release()
	if err != nil {
		return dst, err.located()
	}
	return out, nil
}

// treeWriter writes trees. The members of all objects that are being written
// stand in one list, the innermost last.
type treeWriter struct {
	members []member[any]
}

var treeWriters = sync.Pool{New: func() any { return new(treeWriter) }}

// release gives the writer back, without references into the tree.
func (w *treeWriter) release() {
	if cap(w.members) > 1<<14 {
		return
	}
	clear(w.members) // what an error left; else it is empty
	w.members = w.members[:0]
	treeWriters.Put(w)
}

// value writes v, which stands inside depth containers.
func (w *treeWriter) value(dst []byte, v any, depth int) ([]byte, *SyntaxError) {
	switch v := v.(type) {
	case string:
		return w.string(dst, v)
	case map[string]any:
		return w.object(dst, v, depth+1)
	case []any:
		return w.array(dst, v, depth+1)
	case bool:
		return strconv.AppendBool(dst, v), nil
	case nil:
		return append(dst, "null"...), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst, refuse(ErrNonFinite, -1, "%v is not a JSON number", v)
		}
		return appendFloat(dst, v), nil
	case json.Number:
		return appendNumber(dst, string(v))
	case json.RawMessage:
		return appendRaw(dst, v, depth)
	default:
		return appendInteger(dst, v)
	}
}

// string writes s.
func (w *treeWriter) string(dst []byte, s string) ([]byte, *SyntaxError) {
	dst, bad := appendString(dst, s)
	if bad >= 0 {
		return dst, refuse(ErrUTF8, -1, "string is not valid UTF-8 at its byte %d", bad)
	}
	return dst, nil
}

func (w *treeWriter) array(dst []byte, list []any, depth int) ([]byte, *SyntaxError) {
	if depth > MaxDepth {
		return dst, tooDeep()
	}
	var err *SyntaxError
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = w.value(dst, v, depth); err != nil {
			return dst, err.under(strconv.Itoa(i))
		}
	}
	return append(dst, ']'), nil
}

func (w *treeWriter) object(dst []byte, object map[string]any, depth int) ([]byte, *SyntaxError) {
	if depth > MaxDepth {
		return dst, tooDeep()
	}
	base := len(w.members)
	for name, v := range object {
		w.members = append(w.members, member[any]{prefix: prefixOf(name), name: name, val: v})
	}
	end := len(w.members)
	sortMembers(w.members[base:end])

	var err *SyntaxError
	dst = append(dst, '{')
	for i := base; i < end; i++ {
		m := &w.members[i]
		if i > base {
			dst = append(dst, ',')
		}
		name := m.name
		if dst, err = w.string(dst, name); err != nil {
			err.Msg = "member name is not valid UTF-8"
			return dst, err.under(name)
		}
		dst = append(dst, ':')
		if dst, err = w.value(dst, m.val, depth); err != nil {
			return dst, err.under(name)
		}
	}
	clear(w.members[base:end])
	w.members = w.members[:base]
	return append(dst, '}'), nil
}

func tooDeep() *SyntaxError {
	return refuse(ErrDepth, -1, "more than %d arrays and objects inside each other", MaxDepth)
}

// appendNumber writes a number given as text.
func appendNumber(dst []byte, text string) ([]byte, *SyntaxError) {
	n, flags, ok := scanNumber(text)
	switch {
	case !ok || n < len(text):
		return dst, refuse(ErrSyntax, -1, "%q is not a JSON number", clip(text, 40))
	case flags&settled != 0:
		return append(dst, text...), nil
	case flags&overflow != 0:
		return dst, outOfRange(-1, text)
	}
	return appendNumberText(dst, text), nil
}

// appendRaw writes a JSON text that stands inside a tree. Offsets of its
// errors count from its own start.
func appendRaw(dst []byte, raw json.RawMessage, depth int) ([]byte, *SyntaxError) {
	if raw == nil {
		return append(dst, "null"...), nil
	}
	return appendText(dst, view(raw), depth, lenient)
}

// appendInteger writes any of Go's integers and refuses every other type.
func appendInteger(dst []byte, v any) ([]byte, *SyntaxError) {
	start := len(dst)
	switch v := v.(type) {
	case int:
		dst = strconv.AppendInt(dst, int64(v), 10)
	case int8:
		dst = strconv.AppendInt(dst, int64(v), 10)
	case int16:
		dst = strconv.AppendInt(dst, int64(v), 10)
	case int32:
		dst = strconv.AppendInt(dst, int64(v), 10)
	case int64:
		dst = strconv.AppendInt(dst, v, 10)
	case uint:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	case uint8:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	case uint16:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	case uint32:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	case uint64:
		dst = strconv.AppendUint(dst, v, 10)
	case uintptr:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	default:
		return dst, refuse(ErrType, -1, "a value of type %T is not part of a JSON tree", v)
	}
	if text := view(dst[start:]); len(text) > exactDigits && !survives(text) {
		return dst, refuse(ErrInexact, -1, "integer %s would be written as %s; use a string", text, appendNumberText(nil, text))
	}
	return dst, nil
}
