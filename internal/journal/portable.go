package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"strconv"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// A run on its way from one store to another is a text of JSON lines:
//
//	{"rulvarRun":1,"runId":"r1"}
//	{"meta":{"runId":"r1","status":"ok",…}}        none for a run without
//	{"entry":{"hashVersion":2,"seq":0,…}}          as it stands in the journal,
//	{"entry":…}                                    in order
//	{"blob":"r1/ckpt/0","data":"AXsi…"}            base64, in order of the names
//	{"end":{"entries":2,"blobs":1,"sha256":"9f…"}}
//
// The hash is of every byte before the last line, in hexadecimal. So a text
// that was cut off, or changed on the way, is not a run.

// portableVersion is the version of this format that is written, and the only
// one that is read.
const portableVersion = 1

// PortableWriter writes a run as a portable text. Its methods are called in
// the order Meta, Entry…, Blob…, Close; the first error stays.
type PortableWriter struct {
	w              io.Writer
	sum            hash.Hash
	entries, blobs int
	err            error
}

// NewPortableWriter writes the first line.
func NewPortableWriter(w io.Writer, runID string) *PortableWriter {
	p := &PortableWriter{w: w, sum: sha256.New()}
	p.write(fmt.Appendf(nil, `{"rulvarRun":%d,"runId":"%s"}`, portableVersion, runID))
	return p
}

// write writes one line.
func (p *PortableWriter) write(line []byte) {
	if p.err != nil {
		return
	}
	line = append(line, '\n')
	p.sum.Write(line)
	_, p.err = p.w.Write(line)
}

// Meta writes the metadata; nil writes nothing.
func (p *PortableWriter) Meta(m *Meta) error {
	if m == nil || p.err != nil {
		return p.err
	}
	text, err := m.AppendText(nil)
	if err != nil {
		return err
	}
	line := bytes.NewBufferString(`{"meta":`)
	if err := json.Compact(line, text); err != nil {
		return err
	}
	p.write(append(line.Bytes(), '}'))
	return p.err
}

// Entry writes a record of the journal.
func (p *PortableWriter) Entry(e *Entry) error {
	line, err := e.AppendLine([]byte(`{"entry":`))
	if err != nil {
		return err
	}
	p.entries++
	p.write(append(line, '}'))
	return p.err
}

// Blob writes a blob of the run.
func (p *PortableWriter) Blob(ref string, data []byte) error {
	line := append(appendString([]byte(`{"blob":`), ref), `,"data":"`...)
	line = base64.StdEncoding.AppendEncode(line, data)
	p.blobs++
	p.write(append(line, `"}`...))
	return p.err
}

// Close writes the last line, without which the text is not a run.
func (p *PortableWriter) Close() error {
	p.write(fmt.Appendf(nil, `{"end":{"entries":%d,"blobs":%d,"sha256":"%s"}}`, p.entries, p.blobs, hex.EncodeToString(p.sum.Sum(nil))))
	return p.err
}

// Portable is a run that was read from a portable text, whole and checked.
type Portable struct {
	RunID   string
	Meta    *Meta // nil for a run without
	Entries []*Entry
	Blobs   []PortableBlob // by name
}

// PortableBlob is a blob of a [Portable].
type PortableBlob struct {
	Ref  string
	Data []byte
}

// As returns the run under another id: in the metadata, in the blobs' names
// and where entries name blobs.
func (p *Portable) As(runID string) (*Portable, error) {
	if err := CheckRunID(runID); err != nil {
		return nil, err
	}
	if runID == p.RunID {
		return p, nil
	}
	out := &Portable{RunID: runID}
	if p.Meta != nil {
		out.Meta = p.Meta.withRun(runID)
	}
	for _, e := range p.Entries {
		moved, err := ParseEntry(withRun(e.Raw, p.RunID, runID))
		if err != nil {
			return nil, err
		}
		out.Entries = append(out.Entries, moved)
	}
	for _, b := range p.Blobs {
		out.Blobs = append(out.Blobs, PortableBlob{Ref: runID + b.Ref[len(p.RunID):], Data: b.Data})
	}
	return out, nil
}

// portableLine is one line; names says which members it has.
type portableLine struct {
	names            uint
	version          int64
	runID, ref       string
	data             []byte
	meta, entry, end json.RawMessage
}

// The members of lines, and which stand together.
const (
	pVersion = 1 << iota
	pRunID
	pMeta
	pEntry
	pBlob
	pData
	pEnd

	lineHead = pVersion | pRunID
	lineBlob = pBlob | pData
)

// parsePortable reads one line. Its values share memory with text.
func parsePortable(text []byte) (*portableLine, *scanError) {
	l := new(portableLine)
	s := scanner{b: text}
	s.space()
	if s.members(func(name string) bool { return s.portableMember(name, l) }) {
		if s.space(); s.i < len(text) {
			s.stop("more text follows the object")
		}
	}
	if off := badUTF8(text); off >= 0 && s.fail == nil {
		s.stopAt(off, "the text is not UTF-8")
	}
	return l, s.fail
}

func (s *scanner) portableMember(name string, l *portableLine) (ok bool) {
	switch name {
	case "rulvarRun":
		l.names |= pVersion
		return s.intoInt(&l.version)
	case "runId":
		l.names |= pRunID
		return s.intoText(&l.runID)
	case "meta":
		l.names |= pMeta
		return s.intoRaw(&l.meta, '{')
	case "entry":
		l.names |= pEntry
		return s.intoRaw(&l.entry, '{')
	case "blob":
		l.names |= pBlob
		return s.intoText(&l.ref)
	case "data":
		l.names |= pData
		return s.intoBase64(&l.data)
	case "end":
		l.names |= pEnd
		return s.intoRaw(&l.end, '{')
	}
	return s.stop("a member " + strconv.Quote(name) + " is not known")
}

func (s *scanner) intoBase64(v *[]byte) bool {
	start := s.i
	text, ok := s.text()
	if !ok {
		return false
	}
	var err error
	if *v, err = base64.StdEncoding.Strict().DecodeString(text); err != nil {
		return s.stopAt(start, "the data is not base64")
	}
	return true
}

// portableEnd is what the last line says.
type portableEnd struct {
	entries, blobs int64
	sum            string
}

func parsePortableEnd(text []byte) (end portableEnd, fail *scanError) {
	s := scanner{b: text}
	found := 0
	if s.members(func(name string) bool {
		found++
		switch name {
		case "entries":
			return s.intoInt(&end.entries)
		case "blobs":
			return s.intoInt(&end.blobs)
		case "sha256":
			return s.intoText(&end.sum)
		}
		return s.stop("a member " + strconv.Quote(name) + " is not known")
	}) && found < 3 {
		s.stopAt(0, "the end says neither entries, blobs nor sha256")
	}
	return end, s.fail
}

func portableError(line int, off int, msg string) error {
	return errs.New(errs.JournalOrder, "import", fmt.Sprintf("line %d byte %d", line, off), msg)
}
