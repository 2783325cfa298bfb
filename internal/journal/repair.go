package journal

import (
	"errors"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// refresh finds the tail of the file of size bytes, reading what others have
// appended, and repairs it.
func (r *run) refresh(size int64) error {
	if r.pos.clean() && size == r.size && (size == r.pos.end || r.ahead(size)) {
		return nil
	}
	from := r.pos
	if !from.clean() || size < from.end {
		from = origin()
	}
	if !fits(size) {
		return errs.New(errs.JournalIntegrity, "append", r.path, "the journal is too large for this machine's memory")
	}
	b, err := readAll(r.f, from.end, size)
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "append", r.path, "cannot read the journal", err)
	}
	if err := from.consume(r.path, b, func(*Entry) {}); err != nil {
		return err
	}
	// What stands behind is blank: written ahead, by a process that died.
	r.pos, r.size, r.padded = from, size, size > from.end && from.clean()
	return r.repair()
}

// repair makes the journal end in a whole line, or in a whole entry without
// its newline, which the next write supplies.
func (r *run) repair() error {
	var err error
	switch {
	case r.pos.glued >= 0:
		err = r.separate()
	case r.pos.torn > 0:
		if err = r.f.Truncate(r.pos.end); err == nil {
			err = r.f.Sync()
		}
	default:
		return nil
	}
	if err != nil {
		r.pos = origin()
		return errs.Wrap(errs.JournalIntegrity, "append", r.path, "cannot repair the torn last line", err)
	}
	r.s.log.Warn("repaired the torn end of a journal", "run", r.id, "line", r.pos.lines, "lostBytes", r.pos.torn)
	r.pos.torn, r.pos.glued = 0, -1
	r.size, r.padded = r.pos.end, false
	return nil
}

// separate gives each entry of a glued last line a line of its own. The
// entries may have been acknowledged by who wrote them, so the file is
// replaced, not changed. The new file is locked before it has the name.
func (r *run) separate() error {
	b, err := readAll(r.f, 0, r.pos.end)
	if err != nil {
		return err
	}
	head := int(r.pos.glued)
	values, _ := wholeEntries(b[head:])
	text := append([]byte(nil), b[:head]...)
	for _, e := range values {
		text = append(append(text, e.Raw...), '\n')
	}
	temp, f, err := r.s.tempFor(r.path)
	if err != nil {
		return err
	}
	ok, err := f.TryLock()
	if err == nil && !ok {
		err = errors.New("a new file is locked by another")
	}
	if err == nil {
		err = writeAll(f, text, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = r.s.fs.Rename(temp, r.path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), r.s.fs.Remove(temp))
	}
	self, unknown := f.Stat()
	unnamed := r.s.fs.SyncDir(r.s.dir)
	err = errors.Join(unknown, unnamed, r.f.Close())
	r.f, r.self, r.named = f, self, unnamed == nil
	r.pos.lines += len(values) - 1
	r.pos.end, r.pos.open = int64(len(text)), false
	return err
}
