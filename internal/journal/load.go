package journal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// glimpse is what Load saw of a run the last time.
type glimpse struct {
	pos  position
	info fs.FileInfo // of the journal, when it had been read to pos
	meta *Meta
	of   fs.FileInfo // of the metadata file
}

// maxSeen bounds how many runs a store remembers; forgetting costs a reading.
const maxSeen = 4096

// Load returns a run's metadata and those of its entries whose sequence number
// is above after (-1 is all). A run that does not exist has neither, and is no
// error; metadata alone, or entries alone, is possible too. The whole journal
// is checked as it is read: damage is a journal_order_violation naming file,
// line and byte, a torn last line is left out. Metadata that cannot be read is
// an error, not absent.
//
// Load changes nothing on disk, and takes no lock but for a moment where what
// it reads looks damaged or has a gap, to read again while nobody writes; that
// takes up to ten seconds, or ctx. It may see entries whose Append has not
// returned. Looking again with after at the last entry costs two stats while
// nothing was written, a look at four bytes more where a segment is at work or
// died at it, and a reading of what was written since, or is torn, otherwise.
func (s *FileStore) Load(ctx context.Context, runID string, after int64) (*Meta, []*Entry, error) {
	if err := admit(ctx, CheckRunID(runID)); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	old := s.seen[runID]
	s.mu.Unlock()
	g := &glimpse{pos: origin()}
	if old != nil {
		*g = *old
		if after < 0 {
			g.of = nil // a full load reads everything
		}
	}
	if err := s.loadMeta(runID, g); err != nil {
		return nil, nil, err
	}
	entries, err := s.loadJournal(ctx, runID, g, after)
	if errors.Is(err, fs.ErrNotExist) { // or not any more
		g.pos, g.info, entries, err = origin(), nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	if len(s.seen) >= maxSeen {
		clear(s.seen)
	}
	s.seen[runID] = g
	s.mu.Unlock()
	return g.meta.clone(), entries, nil
}

// loadJournal reads the entries above after, and brings g up to date.
func (s *FileStore) loadJournal(ctx context.Context, runID string, g *glimpse, after int64) ([]*Entry, error) {
	path := s.journalPath(runID)
	info, err := s.fs.Stat(path)
	if err != nil {
		return nil, errs.Wrap(errs.JournalIntegrity, "load", path, "cannot read the journal", err)
	}
	known := g.info != nil && after >= g.pos.lastSeq
	if known && s.unchanged(g.info, info) {
		same, err := s.stillAhead(path, g.pos, info.Size())
		if same || err != nil {
			return nil, err
		}
	}
	pos := origin()
	if known && !g.pos.open && g.pos.glued < 0 && s.fs.SameFile(g.info, info) && info.Size() >= g.pos.end {
		pos = g.pos
		pos.torn = 0 // it may have been the beginning of a write
	}
	b, info, err := s.readFile(path, pos.anchor())
	if err != nil {
		return nil, errs.Wrap(errs.JournalIntegrity, "load", path, "cannot read the journal", err)
	}
	if !pos.holds(b) { // what was read before is not there any more: begin anew
		pos = origin()
		if b, info, err = s.readFile(path, 0); err != nil {
			return nil, errs.Wrap(errs.JournalIntegrity, "load", path, "cannot read the journal", err)
		}
	}
	entries, err := pos.above(after, path, b[pos.end-pos.anchor():])
	if err != nil || pos.gap {
		text, now, again := s.readQuiet(ctx, path)
		switch {
		case again == nil:
			pos, info = origin(), now
			entries, err = pos.above(after, path, text)
		case !errors.Is(again, errors.ErrUnsupported):
			return nil, again
		}
	}
	if err != nil {
		return nil, err
	}
	if pos.dropped > 0 && (pos.end != g.pos.end || pos.dropped != g.pos.dropped) {
		s.log.Warn("a journal ends before a missing block: what stands behind is left out", "run", runID,
			"line", pos.lines, "entries", pos.dropped, "bytes", pos.torn)
	}
	g.pos, g.info = pos, info
	return entries, nil
}

// anchor is where a reading that goes on at end begins: at the last two bytes
// of the line before, by which [position.holds] knows it again.
func (p *position) anchor() int64 { return max(p.end-2, 0) }

// holds reports whether b, the bytes of a journal from the anchor on, begins as
// it did when end was read: with the end of a line that is not blank. An entry
// that was taken back leaves newlines there that were written ahead.
func (p *position) holds(b []byte) bool {
	return p.end == 0 || len(b) >= 2 && b[0] != '\n' && b[1] == '\n'
}

// above is consume for who wants the entries above a number.
func (p *position) above(after int64, file string, b []byte) (entries []*Entry, err error) {
	err = p.consume(file, b, func(e *Entry) {
		if e.Seq > after {
			entries = append(entries, e)
		}
	})
	return entries, err
}

// quietWait bounds how long a reader waits for the writers of a journal that
// it finds damaged: each holds the append lock for one write and one sync.
const quietWait = 10 * time.Second

// readQuiet reads a journal while nobody writes to it. A reading beside a
// write into newlines written ahead may find some of its bytes and not
// others, and so what looks like damage or hides entries. Where no lock can be
// had at all, and so nobody appends either, it is an errors.ErrUnsupported.
func (s *FileStore) readQuiet(ctx context.Context, path string) ([]byte, fs.FileInfo, error) {
	fail := func(msg string, err error) error { return errs.Wrap(errs.JournalIntegrity, "load", path, msg, err) }
	f, err := s.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, fail("cannot read the journal", err)
	}
	defer func() { _ = f.Close() }() // which gives the lock back
	for until := time.Now().Add(quietWait); ; {
		ok, err := f.TryLock()
		if err != nil {
			return nil, nil, errors.Join(errors.ErrUnsupported, err)
		}
		if ok {
			break
		}
		if time.Now().After(until) {
			return nil, nil, errs.New(errs.JournalIntegrity, "load", path, "somebody has been writing to the journal all the time; try again")
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return nil, nil, err
		}
	}
	info, err := f.Stat()
	if err == nil && !fits(info.Size()) {
		err = errors.New("too large for this machine's memory")
	}
	if err != nil {
		return nil, nil, fail("cannot read the journal", err)
	}
	b, err := readAll(f, 0, info.Size())
	if err != nil {
		return nil, nil, fail("cannot read the journal", err)
	}
	return b, info, nil
}

// stillAhead reports whether a journal whose length and time have not changed
// holds nothing new. Where newlines are written ahead, an entry changes
// neither: times are coarser than appends. Nor does the rest of an entry of
// which a part was read.
func (s *FileStore) stillAhead(path string, pos position, size int64) (bool, error) {
	if size == pos.end {
		return true, nil
	}
	if !pos.clean() {
		return false, nil
	}
	f, err := s.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return false, errs.Wrap(errs.JournalIntegrity, "load", path, "cannot read the journal", err)
	}
	from := pos.anchor()
	b, err := readAll(f, from, min(pos.end+2, size))
	if err = errors.Join(err, f.Close()); err != nil {
		return false, errs.Wrap(errs.JournalIntegrity, "load", path, "cannot read the journal", err)
	}
	return pos.holds(b) && newlines(b[pos.end-from:]) == len(b)-int(pos.end-from), nil
}
