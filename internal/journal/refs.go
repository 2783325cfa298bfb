package journal

import (
	"encoding/json"
	"strings"
)

// Where a run names its blobs, beside the blobs' own names:
//
//	entry.transcriptRef, entry.checkpointRef
//	entry.artifacts[].ref
//	metadata.workflowSourceRef      of a run that the reference began
//
// A text that looks like such a name anywhere else is what somebody said.

// textVisit is told of each string value of a JSON text: the names that lead
// to it ("" for a list), and where it stands, quotes included.
type textVisit func(path []string, text string, from, to int)

// eachText walks the value that starts at s.i, which is known to be JSON.
// Strings that hold a lone surrogate are passed over: no name does. The path
// is valid during a visit only: the levels of the walk share its memory.
func (s *scanner) eachText(path []string, visit textVisit) {
	switch {
	case len(path) > maxDepth:
		s.stop("values are nested too deep")
	case s.at('"'):
		from := s.i
		if text, ok := s.plainText(); ok {
			visit(path, text, from, s.i)
		}
	case s.at('{'):
		s.i++
		for s.space(); s.fail == nil && !s.at('}'); s.space() {
			name, _ := s.plainText()
			if !s.colon() {
				return
			}
			s.eachText(append(path, name), visit)
			if s.space(); s.at(',') {
				s.i++
			}
		}
		s.i++
	case s.at('['):
		s.i++
		for s.space(); s.fail == nil && !s.at(']'); s.space() {
			s.eachText(append(path, ""), visit)
			if s.space(); s.at(',') {
				s.i++
			}
		}
		s.i++
	default:
		s.value(1)
	}
}

// plainText passes over a string and decodes it; ok is false where it has no
// place in a Go string.
func (s *scanner) plainText() (text string, ok bool) {
	body, escaped, ok := s.str()
	if !ok || !escaped {
		return string(body), ok
	}
	return unescape(body)
}

// Mentions calls visit with every string that stands as a value anywhere in
// the entry, and the path that leads to it: member names, "" for an element of
// a list. The path is valid during the call only.
func (e *Entry) Mentions(visit func(path []string, text string)) error {
	raw, err := e.AppendLine(nil)
	if err != nil {
		return err
	}
	mentions(raw, visit)
	return nil
}

// Mentions is [Entry.Mentions] of metadata.
func (m *Meta) Mentions(visit func(path []string, text string)) error {
	raw, err := m.AppendText(nil)
	if err != nil {
		return err
	}
	mentions(raw, visit)
	return nil
}

func mentions(raw []byte, visit func(path []string, text string)) {
	s := scanner{b: raw}
	s.space()
	s.eachText(nil, func(path []string, text string, _, _ int) { visit(path, text) })
}

// namesBlob reports whether a string of an entry at path is a blob's name.
func namesBlob(path []string) bool {
	switch len(path) {
	case 1:
		return path[0] == "transcriptRef" || path[0] == "checkpointRef"
	case 3:
		return path[0] == "artifacts" && path[1] == "" && path[2] == "ref"
	}
	return false
}

// withRun returns the line of an entry with the blobs that it names moved from
// one run to another. Every other byte stays. A line that names none is
// returned as it is.
func withRun(raw []byte, from, to string) []byte {
	var out []byte
	done := 0
	s := scanner{b: raw}
	s.space()
	s.eachText(nil, func(path []string, text string, at, end int) {
		if rest, ok := strings.CutPrefix(text, from+"/"); ok && namesBlob(path) {
			out = append(out, raw[done:at]...)
			out = appendString(out, to+"/"+rest)
			done = end
		}
	})
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

const sourceRef = "workflowSourceRef"

// withRun returns the metadata as that of another run.
func (m *Meta) withRun(to string) *Meta {
	c := m.clone()
	c.RunID = to
	var ref string
	if json.Unmarshal(m.Extra[sourceRef], &ref) == nil {
		if rest, ok := strings.CutPrefix(ref, m.RunID+"/"); ok {
			c.Extra[sourceRef] = appendString(nil, to+"/"+rest)
		}
	}
	return c
}
