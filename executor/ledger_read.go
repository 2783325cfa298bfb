package executor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
)

// CorruptLine is a line of a ledger that cannot be what was written.
type CorruptLine struct {
	// Line counts from 1, Offset is the byte at which it begins.
	Line   int
	Offset int64
	// SHA256 is of its bytes, in hex, and Preview their beginning.
	SHA256, Preview string
	// Reason says what is wrong with it.
	Reason string
}

// maxPreview is how many bytes of a corrupt line are shown.
const maxPreview = 120

// LedgerReport is what a ledger file holds, for whoever settles accounts.
type LedgerReport struct {
	Intents  []Intent
	Outcomes []Outcome
	// Open are the attempts without an outcome, the oldest first: effects that
	// may have happened.
	Open []Attempt
	// Torn are the beginnings of lines that crashes have left, in order; the
	// last one may still stand at the end of the file.
	Torn []TornTail
	// Corrupt are the lines that were skipped, as
	// [LedgerReadOptions.TolerateCorrupt] says.
	Corrupt []CorruptLine
}

// LedgerReadOptions say how a ledger is read.
type LedgerReadOptions struct {
	// TolerateCorrupt reports corrupt lines in place of refusing the ledger:
	// for looking at it, never for running on. Default: false.
	TolerateCorrupt bool
}

// ReadLedger reads a ledger file, and changes nothing. nil options are the
// defaults. A corrupt line is an [ErrLedger] whose Data has all of them under
// "lines", as a []CorruptLine; the beginning of a line that was never finished,
// at the very end, is none.
func ReadLedger(path string, opts *LedgerReadOptions) (*LedgerReport, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, ledgerError("ReadLedger", path, "it cannot be read", err)
	}
	return readLedger(path, b, opts != nil && opts.TolerateCorrupt)
}

func readLedger(path string, b []byte, tolerate bool) (*LedgerReport, error) {
	rep := &LedgerReport{}
	known := newAttempts()
	s := &lines{}
	s.read(b, func(r row) {
		switch {
		case r.intent != nil:
			rep.Intents = append(rep.Intents, *r.intent)
			known.add(r.intent)
		case r.outcome != nil:
			rep.Outcomes = append(rep.Outcomes, *r.outcome)
			known.settle(r.outcome)
		case r.torn != nil:
			rep.Torn = append(rep.Torn, *r.torn)
		}
	})
	if len(s.torn) > 0 {
		rep.Torn = append(rep.Torn, TornTail{Bytes: s.torn})
	}
	rep.Open, rep.Corrupt = known.open(), s.corrupt
	if len(s.corrupt) > 0 && !tolerate {
		return nil, corruption("ReadLedger", path, s.corrupt)
	}
	return rep, nil
}

// lines reads a ledger, or what has come since.
type lines struct {
	offset int64 // where the next line begins
	number int   // lines before it
	// open: the last line is whole, but for its newline.
	open bool
	// torn is the beginning of a line at the end; offset is where it begins.
	torn    []byte
	corrupt []CorruptLine
}

// read takes in b, the bytes from offset to the end. The last line may fall
// short in the ways in which a power cut leaves it: without its newline, without
// its end, or with zero bytes where something was not written.
func (s *lines) read(b []byte, emit func(row)) {
	s.open, s.torn = false, nil
	for len(b) > 0 {
		line, size := b, len(b)
		if n := bytes.IndexByte(b, '\n'); n >= 0 {
			line, size = b[:n], n+1
		}
		if size == len(b) && s.last(line, size, emit) {
			return
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if r, _, err := readRow(line); err == nil {
				emit(r)
			} else {
				s.corrupt = append(s.corrupt, s.corruptLine(line, err))
			}
		}
		s.offset += int64(size)
		s.number++
		b = b[size:]
	}
}

// last takes in the last line where it is not one like the others.
func (s *lines) last(line []byte, size int, emit func(row)) bool {
	ended := size > len(line)
	if ended && bytes.IndexByte(line, 0) < 0 {
		return false
	}
	if text := bytes.TrimRight(line, "\x00"); !ended && len(bytes.TrimSpace(text)) > 0 {
		r, parsed, err := readRow(text)
		if err == nil {
			emit(r)
			s.offset += int64(len(text))
			s.number++
			s.open = true
			return true
		}
		if parsed { // it was written whole, and is none of ours
			return false
		}
	}
	s.torn = bytes.Clone(line)
	return true
}

func (s *lines) corruptLine(line []byte, err error) CorruptLine {
	sum := sha256.Sum256(line)
	return CorruptLine{
		Line: s.number + 1, Offset: s.offset, SHA256: hex.EncodeToString(sum[:]),
		Preview: strings.ToValidUTF8(string(line[:min(len(line), maxPreview)]), "\uFFFD"), Reason: err.Error(),
	}
}

// corruption is the error of a ledger with corrupt lines.
func corruption(op, path string, list []CorruptLine) error {
	e := ledgerError(op, fmt.Sprintf("%s:%d", path, list[0].Line),
		fmt.Sprintf("%d of its lines are damaged; at byte %d, %s. Nothing is run on it: put a whole copy in its place, or settle accounts by hand with ReadLedger", len(list), list[0].Offset, list[0].Reason), nil)
	e.Data = map[string]any{"lines": list}
	return e
}

func ledgerError(op, path, msg string, err error) *rulvar.Error {
	return &rulvar.Error{Code: ErrLedger, Op: "executor." + op, Path: path, Msg: msg, Err: err}
}
