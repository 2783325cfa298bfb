package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// position is how far a journal has been read, and what was found at its end.
type position struct {
	end     int64 // byte behind the last entry's line, or behind the entry where open
	lines   int   // lines up to end
	lastSeq int64 // of the last entry; -1 in an empty journal
	// open: the last entry has no newline yet. It counts; the next append
	// writes the newline first.
	open bool
	// torn is how many bytes behind end, newlines at the file's end not
	// counted, hold what was never finished. They count for nothing; the next
	// append cuts them off.
	torn int64
	// dropped is how many whole entries stand behind a missing block in torn.
	dropped int
	// glued is where the last line begins if it holds several entries, else
	// -1. The next append separates them.
	glued int64
	// gap: an entry that is not the very next one stands behind blank lines.
	// A reader that no writer waits for may have missed what stands there.
	gap bool
}

// origin is the position before the first byte.
func origin() position { return position{lastSeq: -1, glued: -1} }

// clean reports whether reading may go on at end: what stands there, if
// anything, is a line of its own.
func (p *position) clean() bool { return !p.open && p.torn == 0 && p.glued < 0 }

const block = 512 // the least that a disk writes whole

// consume reads b, the bytes of a journal from p.end to its end, advances p,
// which must be clean, and hands each entry to emit.
//
// A journal ends in a whole line, and every earlier line is whole. What the last
// write has left may fall short of that, and is then repaired:
//
//   - the last line lacks its newline: it counts;
//   - it lacks its end: it is torn and counts for nothing, see [torn];
//   - blocks of the write are missing, as a power cut takes them: it counts up
//     to the first entry that is not whole;
//   - the last line holds several entries, or one and a torn one: those that
//     are whole count.
//
// Anything else is damage: a journal_order_violation that names the file, the
// line and the byte. So are a byte order mark, a sequence number that is not
// above the one before, and a ref that is not backwards.
func (p *position) consume(file string, b []byte, emit func(*Entry)) error {
	c := tailReader{position: p, file: file, b: b, base: p.end, emit: emit}
	c.pool.bytes, c.gap, c.dropped = len(b), false, 0
	if c.base == 0 && bytes.HasPrefix(b, []byte("\ufeff")) {
		return c.damage(1, 0, "the file begins with a byte order mark; remove it")
	}
	number := p.lines
	for from := 0; from < len(b); {
		if n := newlines(b[from:]); n > 0 { // blank, or written ahead
			number += n
			from += n
			continue
		}
		number++
		to, whole := len(b), false
		if n := bytes.IndexByte(b[from:], '\n'); n >= 0 {
			to, whole = from+n+1, true
		}
		if line := b[from:to]; !isBlank(line) {
			if fail := c.line(line, c.base+int64(from) > p.end, c.behindHole(from)); fail != nil {
				return c.lastLine(from, to, number, fail)
			}
			p.end, p.lines, p.open = c.base+int64(to), number, !whole
		}
		from = to
	}
	return nil
}

// tailReader is one reading of a journal's bytes.
type tailReader struct {
	*position
	file string
	b    []byte
	base int64 // where b begins in the file
	emit func(*Entry)
	pool entryPool
}

// behindHole reports whether b[from:] may stand behind blocks that a power cut
// took from the beginning of a write: nothing but newlines, up to a block. The
// block may begin with the newline of a line that it took the rest of.
func (c *tailReader) behindHole(from int) bool {
	at, blank := c.base+int64(from), from-int(c.end-c.base)
	return blank > 0 && (at%block == 0 || blank > 1 && at%block == 1) && newlines(c.b[c.end-c.base:from]) == blank
}

// line reads one line that holds exactly one entry. Behind a hole only the
// very next entry counts: another one belongs to a write that lost its
// beginning. (Who appends without knowing of newlines written ahead appends
// behind them, where no block begins: see padded.) blank says that blank lines
// stand before it.
func (c *tailReader) line(line []byte, blank, hole bool) *scanError {
	e := c.pool.next()
	s := scanner{b: line}
	if s.entry(e) {
		e.Raw = rawOf(line, s.i)
		if s.space(); s.i < len(line) {
			s.stop("more text follows the entry")
		}
	}
	if s.fail == nil {
		if off := s.badUTF8(); off >= 0 {
			s.stopAt(off, "the text is not UTF-8")
		}
	}
	if s.fail == nil && hole && e.Seq != c.lastSeq+1 {
		s.stopAt(0, "entries are missing before this one")
	}
	if s.fail == nil {
		c.gap = c.gap || blank && e.Seq != c.lastSeq+1
		s.fail = c.follow(e)
	}
	if s.fail == nil {
		c.emit(e)
	}
	return s.fail
}

// rawOf is the line without the space around the entry that ends at end.
func rawOf(line []byte, end int) json.RawMessage {
	return json.RawMessage(bytes.TrimLeft(line[:end:end], " \t\r"))
}

// follow checks that e may stand behind what was read, and takes it in.
func (p *position) follow(e *Entry) *scanError {
	if e.Seq <= p.lastSeq {
		return &scanError{msg: fmt.Sprintf("seq %d does not follow %d", e.Seq, p.lastSeq)}
	}
	p.lastSeq = e.Seq
	return nil
}

// lastLine decides about the line b[from:to], which is not one whole entry:
// repaired if what was written last begins in it and is torn or glued, damage
// otherwise.
func (c *tailReader) lastLine(from, to, number int, fail *scanError) error {
	at := c.base + int64(from)
	damaged := c.damage(number, at+int64(fail.off), fail.msg)
	if c.behindHole(from) {
		if !oneWrite(c.b[from:], at) {
			return damaged
		}
		c.tear()
		return nil
	}
	line := c.b[from:to]
	values, rest := wholeEntries(line)
	if !isBlank(rest) || !isBlank(c.b[to:]) {
		rest = c.b[to-len(rest):]
		if start := c.base + int64(len(c.b)-len(rest)); !torn(rest, start) || !oneWrite(rest, start) {
			return damaged
		}
	}
	for _, e := range values {
		if fail := c.follow(e); fail != nil {
			return c.damage(number, at, fail.msg)
		}
		c.emit(e)
	}
	if len(values) > 0 {
		last := bytes.TrimRight(c.b[from:len(c.b)-len(rest)], " \t\r\n")
		c.end, c.lines, c.open = at+int64(len(last)), number, true
	}
	if len(values) > 1 {
		c.glued = at
	}
	if len(rest) > 0 {
		c.tear()
	}
	return nil
}

// tear leaves out what stands behind end.
func (c *tailReader) tear() {
	rest := bytes.TrimRight(c.b[c.end-c.base:], "\n")
	c.torn, c.dropped = int64(len(rest)), whole(rest)
}

// wholeEntries splits a line into the entries that stand whole at its
// beginning and the text behind them.
func wholeEntries(line []byte) (values []*Entry, rest []byte) {
	rest = line
	for len(rest) > 0 {
		e := new(Entry)
		s := scanner{b: rest}
		if !s.entry(e) || badUTF8(rest[:s.i]) >= 0 {
			break
		}
		e.Raw = rawOf(rest, s.i)
		values = append(values, e)
		rest = bytes.TrimLeft(rest[s.i:], " \t\r\n")
	}
	return values, rest
}

// torn reports whether text, which begins at byte at of the journal and runs to
// its end, is what an interrupted write leaves: the proper beginning of an
// entry, and nothing behind it or blocks that never reached the disk, which
// hold zero bytes or the newlines that were written ahead. Behind the first
// such block anything may stand. A text with one newline behind it was written
// whole and is damaged, and so is one that ends as a whole entry does, unless a
// block ends there.
func torn(text []byte, at int64) bool {
	cut := bytes.IndexAny(text, "\n\x00")
	if cut < 0 {
		return beginning(text)
	}
	to, zeros := cut, 0 // where the run of them ends, and the last zero in it
	for ; to < len(text) && (text[to] == '\n' || text[to] == 0); to++ {
		if text[to] == 0 {
			zeros = to + 1
		}
	}
	aligned := func(i int) bool { return (at+int64(i))%block == 0 }
	// The block behind them may begin with the newline of a line whose end they took.
	begins := aligned(to) || to > cut+1 && text[to-1] == '\n' && aligned(to-1)
	switch {
	case zeros == len(text):
		return true // the length reached the disk before the bytes
	case zeros == 0 && to == len(text) && cut > 0 && !aligned(cut) && text[cut-1] != '}':
		return to-cut > 1 && beginning(text[:cut]) // a write stopped between blocks
	case cut > 0 && !aligned(cut), to < len(text) && !begins:
		return false
	case zeros > 0:
		return aligned(zeros)
	}
	return to-cut > 1 && beginning(text[:cut])
}

// oneWrite reports whether text, which begins at byte at of the journal, may be
// the rest of one write: where newlines or zero bytes stand for what is
// missing, it goes on at a block. Where it does not, somebody has appended
// behind the newlines written ahead, and been told that it is durable. Nor did
// one write bring more whole entries than writers put into one.
func oneWrite(text []byte, at int64) bool {
	if whole(text) > maxTogether {
		return false
	}
	for i := 0; i < len(text); {
		n := bytes.IndexAny(text[i:], "\n\x00")
		if n < 0 {
			break
		}
		from := i + n
		for i = from; i < len(text) && (text[i] == '\n' || text[i] == 0); {
			i++
		}
		off := (at + int64(i)) % block
		if i-from > 1 && i < len(text) && off != 0 && (off != 1 || text[i-1] != '\n') {
			return false
		}
	}
	return true
}

// whole counts the lines of text that are entries.
func whole(text []byte) (n int) {
	for l := range bytes.SplitSeq(text, []byte("\n")) {
		if len(l) > 0 && l[0] == '{' {
			if e, err := ParseEntry(l); err == nil && e != nil {
				n++
			}
		}
	}
	return n
}

// beginning reports whether text is the proper beginning of an entry.
func beginning(text []byte) bool {
	s := scanner{b: text}
	if !s.byte('{') {
		return false
	}
	s.i = 0
	var e Entry
	return !s.entry(&e) && s.fail.short
}

// newlines counts the newlines at the head of b.
func newlines(b []byte) int {
	for i, c := range b {
		if c != '\n' {
			return i
		}
	}
	return len(b)
}

func isBlank(b []byte) bool { return len(bytes.TrimLeft(b, " \t\r\n")) == 0 }

func (c *tailReader) damage(line int, at int64, msg string) error {
	e := errs.New(errs.JournalOrder, "load", fmt.Sprintf("%s line %d byte %d", c.file, line, at), msg)
	e.Data = map[string]any{"file": c.file, "line": line, "offset": at}
	return e
}

// entryPool hands out entries from slabs: a journal is read as a whole and
// kept as a whole.
type entryPool struct {
	bytes int // of the journal, which bounds how many entries there can be
	free  []Entry
}

func (p *entryPool) next() *Entry {
	if len(p.free) == 0 {
		p.free = make([]Entry, max(1, min(p.bytes/128, 64)))
	}
	e := &p.free[0]
	p.free = p.free[1:]
	return e
}

// fits reports whether a file of size bytes can be held in memory here.
func fits(size int64) bool { return size <= math.MaxInt-1 }
