package journal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// portableReader reads a text line by line, in the order that a run has.
type portableReader struct {
	r    *bufio.Reader
	sum  hash.Hash // of the lines before this one
	line int       // its number
	out  *Portable
	tail position
}

// ReadPortable reads a run from a portable text and checks all of it: every
// line, its place, the journal as [FileStore.Load] does, that names and
// metadata are of the one run, and count and hash of the last line. What is
// wrong is a journal_order_violation that names line and byte, or a
// journal_compat for a later version of the format; a failure of r comes as
// it is. The run is held in memory.
func ReadPortable(r io.Reader) (*Portable, error) {
	p := &portableReader{r: bufio.NewReader(r), sum: sha256.New(), out: new(Portable), tail: origin()}
	if err := p.head(); err != nil {
		return nil, err
	}
	for {
		done, err := p.next()
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
	}
	if err := p.nothingMore(); err != nil {
		return nil, err
	}
	return p.out, nil
}

// read returns the next line; before it is what the end line must hash.
func (p *portableReader) read() (l *portableLine, before string, err error) {
	text, err := p.r.ReadBytes('\n')
	p.line++
	switch {
	case errors.Is(err, io.EOF) && len(text) == 0:
		return nil, "", portableError(p.line, 0, "the text ends before the run does; it was cut off")
	case err != nil && !errors.Is(err, io.EOF):
		return nil, "", err
	}
	before = hex.EncodeToString(p.sum.Sum(nil))
	p.sum.Write(text)
	l, fail := parsePortable(bytes.TrimSuffix(text, []byte("\n")))
	if p.line == 1 && l.version > portableVersion { // whatever else stands there
		return nil, "", errs.New(errs.JournalCompat, "import", "line 1", fmt.Sprintf("version %d of the format is not known; this library reads version %d", l.version, portableVersion))
	}
	if fail != nil {
		return nil, "", portableError(p.line, fail.off, fail.msg)
	}
	return l, before, nil
}

func (p *portableReader) refuse(msg string) error { return portableError(p.line, 0, msg) }

func (p *portableReader) head() error {
	l, _, err := p.read()
	switch {
	case err != nil:
		return err
	case l.names != lineHead || l.version != portableVersion:
		return p.refuse("this is not the first line of an exported run")
	}
	if err := CheckRunID(l.runID); err != nil {
		return errs.Wrap(errs.JournalOrder, "import", "line 1", "", err)
	}
	p.out.RunID = l.runID
	return nil
}

// next takes one line in; done says that it was the last.
func (p *portableReader) next() (done bool, err error) {
	l, before, err := p.read()
	if err != nil {
		return false, err
	}
	switch l.names {
	case pMeta:
		return false, p.meta(l)
	case pEntry:
		return false, p.entry(l)
	case lineBlob:
		return false, p.blob(l)
	case pEnd:
		return true, p.end(l, before)
	}
	return false, p.refuse("the line is neither metadata, an entry, a blob nor the end")
}

func (p *portableReader) meta(l *portableLine) (err error) {
	if p.out.Meta != nil || len(p.out.Entries)+len(p.out.Blobs) > 0 {
		return p.refuse("metadata stands on the second line and nowhere else")
	}
	if p.out.Meta, err = ParseMeta(l.meta); err != nil {
		return errs.Wrap(errs.JournalOrder, "import", fmt.Sprintf("line %d", p.line), "the metadata is damaged", err)
	}
	if p.out.Meta.RunID != p.out.RunID {
		return p.refuse(fmt.Sprintf("the metadata is of run %q", p.out.Meta.RunID))
	}
	return nil
}

func (p *portableReader) entry(l *portableLine) error {
	if len(p.out.Blobs) > 0 {
		return p.refuse("an entry stands behind a blob")
	}
	// A journal may be written with carriage returns between tokens.
	e, err := ParseEntry(bytes.ReplaceAll(l.entry, []byte("\r"), []byte(" ")))
	if err != nil {
		return errs.Wrap(errs.JournalOrder, "import", fmt.Sprintf("line %d", p.line), "the entry is damaged", err)
	}
	if fail := p.tail.follow(e); fail != nil {
		return p.refuse(fail.msg)
	}
	p.out.Entries = append(p.out.Entries, e)
	return nil
}

func (p *portableReader) blob(l *portableLine) error {
	if err := CheckBlobRef(l.ref); err != nil {
		return errs.Wrap(errs.JournalOrder, "import", fmt.Sprintf("line %d", p.line), "", err)
	}
	if !strings.HasPrefix(l.ref, p.out.RunID+"/") {
		return p.refuse(fmt.Sprintf("the blob %q is of another run", l.ref))
	}
	if n := len(p.out.Blobs); n > 0 && p.out.Blobs[n-1].Ref >= l.ref {
		return p.refuse(fmt.Sprintf("the blob %q stands twice, or out of order", l.ref))
	}
	p.out.Blobs = append(p.out.Blobs, PortableBlob{Ref: l.ref, Data: l.data})
	return nil
}

func (p *portableReader) end(l *portableLine, before string) error {
	end, fail := parsePortableEnd(l.end)
	switch {
	case fail != nil:
		return portableError(p.line, fail.off, fail.msg)
	case end.entries != int64(len(p.out.Entries)) || end.blobs != int64(len(p.out.Blobs)):
		return p.refuse(fmt.Sprintf("%d entries and %d blobs were written, %d and %d are here", end.entries, end.blobs, len(p.out.Entries), len(p.out.Blobs)))
	case end.sum != before:
		return p.refuse("the text is not the one that was written: its hash differs")
	case p.out.Meta == nil && len(p.out.Entries) == 0:
		return p.refuse("the run is empty")
	}
	return nil
}

func (p *portableReader) nothingMore() error {
	for {
		c, err := p.r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !isBlank([]byte{c}):
			return portableError(p.line+1, 0, "more text follows the end")
		}
	}
}
