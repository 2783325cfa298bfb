package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// Meta is what is known about a run beside its journal: enough to list and
// resume it. It is stored as one JSON object; a member that is empty is left
// out, except those that every file has.
//
//	{
//	  "runId": "r1",
//	  "status": "suspended",
//	  "segments": 1,
//	  "updatedAt": "2026-11-30T09:19:01.062Z",
//	  "argsProvided": false,
//	  "genesis": "01M8NW07Y6B36N38WFPEGA1CV8",
//	  "execKeyDerivation": 2,
//	  "workflowName": "ship",
//	  "workflowHash": "f647…"
//	}
type Meta struct {
	RunID             string
	Status            string // running, or how the last segment settled
	Segments          int    // how often the run was started or resumed
	UpdatedAt         string // RFC 3339
	Name              string
	Tags              []string // nil is left out, empty is written
	BudgetUSD         *float64 // the ceiling in US dollars; nil is none
	ConfigFingerprint string
	Args              json.RawMessage // the canonical arguments
	ArgsProvided      bool
	ArgsHash          string
	Genesis           string // ULID that tells this run from another of the same id
	ExecKeyDerivation int    // version of the execution-key derivation; 0 is left out
	WorkflowName      string
	WorkflowHash      string

	// Extra holds the members that this library does not know, as they stood.
	// A name that is a field's is ignored.
	Extra map[string]json.RawMessage
}

// ParseMeta reads a metadata file. It refuses, with a
// journal_order_violation that names the byte: text that is not one JSON
// object in UTF-8, a member that stands twice, a known member of another
// shape, and a file without runId. ParseMeta may be called from any goroutine.
func ParseMeta(text []byte) (*Meta, error) {
	m := new(Meta)
	s := scanner{b: text}
	s.space()
	start := s.i
	if s.members(func(name string) bool { return s.metaMember(name, m) }) {
		switch s.space(); {
		case s.i < len(text):
			s.stop("more text follows the object")
		case m.RunID == "":
			s.stopAt(start, "there is no runId")
		}
	}
	if s.fail == nil {
		if off := badUTF8(text); off >= 0 {
			s.stopAt(off, "the text is not UTF-8")
		}
	}
	if s.fail != nil {
		line := 1 + bytes.Count(text[:s.fail.off], []byte("\n"))
		err := errs.New(errs.JournalOrder, "parse metadata", fmt.Sprintf("line %d byte %d", line, s.fail.off), s.fail.msg)
		err.Data = map[string]any{"line": line, "offset": int64(s.fail.off)}
		return nil, err
	}
	return m, nil
}

func (s *scanner) metaMember(name string, m *Meta) bool {
	switch name {
	case "runId":
		return s.intoText(&m.RunID)
	case "status":
		return s.intoText(&m.Status)
	case "segments":
		return s.intoSmall(&m.Segments)
	case "updatedAt":
		return s.intoText(&m.UpdatedAt)
	case "name":
		return s.intoText(&m.Name)
	case "tags":
		return s.intoTexts(&m.Tags)
	case "budgetUsd":
		m.BudgetUSD = new(float64)
		return s.intoFloat(m.BudgetUSD)
	case "configFingerprint":
		return s.intoText(&m.ConfigFingerprint)
	case "args":
		return s.intoRaw(&m.Args, 0)
	case "argsProvided":
		return s.intoBool(&m.ArgsProvided)
	case "argsHash":
		return s.intoText(&m.ArgsHash)
	case "genesis":
		return s.intoText(&m.Genesis)
	case "execKeyDerivation":
		return s.intoSmall(&m.ExecKeyDerivation)
	case "workflowName":
		return s.intoText(&m.WorkflowName)
	case "workflowHash":
		return s.intoText(&m.WorkflowHash)
	}
	raw, ok := s.raw()
	if ok {
		if m.Extra == nil {
			m.Extra = make(map[string]json.RawMessage)
		}
		m.Extra[name] = raw
	}
	return ok
}

func (s *scanner) intoSmall(v *int) bool {
	start := s.i
	n, ok := s.integer()
	if ok && n > math.MaxInt32 {
		return s.stopAt(start, "the number is out of range")
	}
	*v = int(n)
	return ok
}

func (s *scanner) intoFloat(v *float64) bool {
	start := s.i
	if !s.at('-') && (s.i >= len(s.b) || s.b[s.i]-'0' > 9) {
		return s.stop("expected a number")
	}
	if !s.number() {
		return false
	}
	f, err := strconv.ParseFloat(string(s.b[start:s.i]), 64)
	if err != nil {
		return s.stopAt(start, "the number is out of range")
	}
	*v = f
	return true
}

func (s *scanner) intoTexts(v *[]string) bool {
	if !s.byte('[') {
		return false
	}
	*v = []string{}
	if s.space(); s.at(']') {
		s.i++
		return true
	}
	for {
		t, ok := s.text()
		if !ok {
			return false
		}
		*v = append(*v, t)
		if s.space(); s.at(',') {
			s.i++
			s.space()
			continue
		}
		return s.byte(']')
	}
}

// AppendText appends the metadata as indented JSON, in the format's order and
// with the unknown members at the end, by name. Text that is not UTF-8 or not
// JSON, and a budget that is not finite, is a non_serializable_value.
func (m *Meta) AppendText(dst []byte) ([]byte, error) {
	w := lineWriter{}
	w.str(`,"runId":`, m.RunID)
	w.str(`,"status":`, m.Status)
	w.int(`,"segments":`, int64(m.Segments))
	w.str(`,"updatedAt":`, m.UpdatedAt)
	w.opt(`,"name":`, m.Name)
	if m.Tags != nil {
		w.strs(`,"tags":`, m.Tags)
	}
	if m.BudgetUSD != nil {
		w.float(`,"budgetUsd":`, *m.BudgetUSD)
	}
	w.opt(`,"configFingerprint":`, m.ConfigFingerprint)
	w.dst = strconv.AppendBool(append(w.dst, `,"argsProvided":`...), m.ArgsProvided)
	w.raw(`,"args":`, m.Args)
	w.opt(`,"argsHash":`, m.ArgsHash)
	w.opt(`,"genesis":`, m.Genesis)
	if m.ExecKeyDerivation != 0 {
		w.int(`,"execKeyDerivation":`, int64(m.ExecKeyDerivation))
	}
	w.opt(`,"workflowName":`, m.WorkflowName)
	w.opt(`,"workflowHash":`, m.WorkflowHash)
	for _, name := range slices.Sorted(maps.Keys(m.Extra)) {
		if !metaFields[name] {
			w.extra(name, m.Extra[name])
		}
	}
	if w.err != nil {
		return dst, w.err
	}
	w.dst[0] = '{' // the first member's comma
	w.dst = append(w.dst, '}')
	buf := bytes.NewBuffer(dst)
	if err := json.Indent(buf, w.dst, "", "  "); err != nil {
		return dst, errs.Wrap(errs.NonSerializable, "write metadata", m.RunID, "", err)
	}
	return buf.Bytes(), nil
}

// metaFields are the members that Meta has fields for.
var metaFields = map[string]bool{
	"runId": true, "status": true, "segments": true, "updatedAt": true, "name": true, "tags": true,
	"budgetUsd": true, "configFingerprint": true, "args": true, "argsProvided": true, "argsHash": true,
	"genesis": true, "execKeyDerivation": true, "workflowName": true, "workflowHash": true,
}

// extra writes a member whose name may be anything.
func (w *lineWriter) extra(name string, v json.RawMessage) {
	if !utf8.ValidString(name) {
		w.refuse(name, "the name is not UTF-8")
		return
	}
	w.raw(","+string(appendString(nil, name))+":", v)
}

func (w *lineWriter) strs(n string, vs []string) {
	w.dst = append(w.dst, n...)
	w.dst = append(w.dst, '[')
	for i, v := range vs {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		if !utf8.ValidString(v) {
			w.refuse(n, "a string is not UTF-8")
		}
		w.dst = appendString(w.dst, v)
	}
	w.dst = append(w.dst, ']')
}

func (w *lineWriter) float(n string, v float64) {
	b, err := json.Marshal(v)
	if err != nil {
		w.refuse(n, fmt.Sprintf("%v is not a JSON number", v))
		return
	}
	w.dst = append(w.dst, n...)
	w.dst = append(w.dst, b...)
}

// clone returns a copy whose members may be changed.
func (m *Meta) clone() *Meta {
	if m == nil {
		return nil
	}
	c := *m
	c.Tags = slices.Clone(m.Tags)
	c.Args = slices.Clone(m.Args)
	c.Extra = maps.Clone(m.Extra)
	if m.BudgetUSD != nil {
		b := *m.BudgetUSD
		c.BudgetUSD = &b
	}
	return &c
}
