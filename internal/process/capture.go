package process

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Capture keeps the beginning and the end of a stream of any length. It is safe
// for concurrent use.
type Capture struct {
	mu    sync.Mutex
	half  int
	head  []byte
	tail  []byte // a ring of the last bytes after head, once it is full
	next  int    // where the ring goes on
	total int64
}

// NewCapture returns one that keeps limit bytes.
func NewCapture(limit int) *Capture { return &Capture{half: limit / 2} }

// Write implements io.Writer. It never fails: what is not kept is counted.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.total += int64(n)
	if room := c.half - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > c.half {
		p = p[len(p)-c.half:]
	}
	if room := c.half - len(c.tail); room > 0 {
		k := min(room, len(p))
		c.tail = append(c.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(c.tail[c.next:], p)
		c.next = (c.next + k) % len(c.tail)
		p = p[k:]
	}
	return n, nil
}

// Parts returns what was kept: the whole stream in head, or its two ends and
// how many bytes are missing between them.
func (c *Capture) Parts() (head, tail []byte, missing int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail = append(append([]byte(nil), c.tail[c.next:]...), c.tail[:c.next]...)
	head = append([]byte(nil), c.head...)
	if missing = c.total - int64(len(head)+len(tail)); missing == 0 {
		return append(head, tail...), nil, 0
	}
	return head, tail, missing
}

// Text returns the stream as text that JSON can carry and a model can read:
// cut on rune boundaries, without NUL, valid UTF-8. note says what was done to
// it beyond the cut, or is empty.
func (c *Capture) Text() (text, note string, cut bool) {
	head, tail, missing := c.Parts()
	if missing > 0 {
		n := len(head) + len(tail)
		head, tail = WholeRunes(head), wholeRunesFrom(tail)
		missing += int64(n - len(head) - len(tail))
	}
	bad := badBytes(head) + badBytes(tail)
	if bad*10 > len(head)+len(tail) {
		return fmt.Sprintf("[%d bytes that are no text; the first are % x]", int64(len(head)+len(tail))+missing, head[:min(len(head), 16)]),
			"is no text and is not shown", missing > 0
	}
	first, last := clean(head), clean(tail)
	if first != string(head) || last != string(tail) {
		note = "holds bytes that are not UTF-8, or NUL; each run of them is shown as U+FFFD"
	}
	if missing == 0 {
		return first, note, false
	}
	return fmt.Sprintf("%s\n[… %d bytes cut …]\n%s", first, missing, last), note, true
}

// WholeRunes leaves out a rune at the end that is not all there.
func WholeRunes(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

// wholeRunesFrom leaves out a rune at the beginning that is not all there.
func wholeRunesFrom(b []byte) []byte {
	for n := 0; n < utf8.UTFMax && n < len(b); n++ {
		if utf8.RuneStart(b[n]) {
			return b[n:]
		}
	}
	return b
}

// badBytes counts the bytes that text does not hold.
func badBytes(b []byte) (bad int) {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			bad++
		case r == 0x7f, r < ' ' && !strings.ContainsRune("\t\n\v\f\r\b\a\x1b", r):
			bad++
		}
		b = b[n:]
	}
	return bad
}

// clean makes b valid UTF-8 without NUL.
func clean(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}
