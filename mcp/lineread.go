package mcp

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

// lineReader reads lines of a bounded length. An error of the reader below,
// such as a deadline, loses nothing that was read before it.
type lineReader struct {
	r       io.Reader
	limit   int
	buf     []byte // buf[start:] is read and not yet returned
	start   int
	scanned int // of buf, bytes without a line end
}

const readSize = 32 << 10

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: r, limit: limit}
}

// tooLongError says that a message breaks its bound.
type tooLongError struct{ limit int }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("the server sends a message of more than %d bytes", e.limit)
}

// next returns the next line that is not blank, without blanks around it. It is
// valid until the next call.
func (l *lineReader) next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(l.buf[l.scanned:], '\n'); i >= 0 {
			end := l.scanned + i
			line := bytes.TrimSpace(l.buf[l.start:end])
			l.start, l.scanned = end+1, end+1
			if len(line) > l.limit {
				return nil, &tooLongError{l.limit}
			}
			if len(line) > 0 {
				return line, nil
			}
			continue
		}
		l.scanned = len(l.buf)
		if len(l.buf)-l.start > l.limit {
			return nil, &tooLongError{l.limit}
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more into buf.
func (l *lineReader) fill() error {
	if l.start > 0 {
		n := copy(l.buf, l.buf[l.start:])
		l.buf = l.buf[:n]
		l.scanned -= l.start
		l.start = 0
		if cap(l.buf) > 1<<20 && n < readSize { // after a large line
			l.buf = append(make([]byte, 0, 2*readSize), l.buf...)
		}
	}
	if cap(l.buf)-len(l.buf) < readSize {
		l.buf = append(make([]byte, 0, 2*cap(l.buf)+2*readSize), l.buf...)
	}
	n, err := l.r.Read(l.buf[len(l.buf):cap(l.buf)])
	l.buf = l.buf[:len(l.buf)+n]
	if n > 0 {
		return nil // the error, if it lasts, comes again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// validText returns text as UTF-8: what is none becomes U+FFFD.
func validText(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\uFFFD"))
}
