package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// AppendLine appends the entry to dst as one JSON object without a newline:
// Raw where it is set, otherwise the members that are not empty in the
// format's order. Nothing is escaped that JSON does not require. A payload
// that is not JSON, and a string that is not UTF-8, is a
// non_serializable_value.
func (e *Entry) AppendLine(dst []byte) ([]byte, error) {
	if e.Raw != nil {
		return append(dst, e.Raw...), nil
	}
	body, err := e.appendBody(nil)
	if err != nil {
		return dst, err
	}
	return append(e.appendHead(dst, e.Seq, e.Ref), body...), nil
}

// appendHead writes the members up to and including seq, the one that is known
// last: the rest of a line is made before the store's tail is.
func (e *Entry) appendHead(dst []byte, seq int64, ref *int64) []byte {
	v := e.HashVersion
	if v == 0 {
		v = HashVersion
	}
	dst = append(dst, `{"hashVersion":`...)
	dst = strconv.AppendInt(dst, int64(v), 10)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendInt(dst, seq, 10)
	if ref != nil {
		dst = append(dst, `,"ref":`...)
		dst = strconv.AppendInt(dst, *ref, 10)
	}
	return dst
}

// appendBody writes everything behind ref.
func (e *Entry) appendBody(dst []byte) ([]byte, error) {
	w := lineWriter{dst: dst}
	w.str(`,"scope":`, e.Scope)
	w.str(`,"key":`, e.Key)
	w.int(`,"ordinal":`, e.Ordinal)
	w.str(`,"kind":`, string(e.Kind))
	w.str(`,"status":`, string(e.Status))
	w.str(`,"spanId":`, e.SpanID)
	w.opt(`,"startedAt":`, e.StartedAt)
	if e.Ref != nil {
		w.opt(`,"endedAt":`, e.EndedAt)
	}
	w.raw(`,"value":`, e.Value)
	w.raw(`,"error":`, e.Error)
	w.raw(`,"usage":`, e.Usage)
	w.flag(`,"usageApprox":`, e.UsageApprox)
	w.opt(`,"servedBy":`, e.ServedBy)
	w.raw(`,"usageByModel":`, e.UsageByModel)
	w.raw(`,"costAttribution":`, e.CostAttribution)
	w.raw(`,"providerCalls":`, e.ProviderCalls)
	w.opt(`,"usageSemantics":`, e.UsageSemantics)
	if e.TranscriptRef != nil {
		w.str(`,"transcriptRef":`, *e.TranscriptRef)
	}
	w.opt(`,"checkpointRef":`, e.CheckpointRef)
	w.raw(`,"artifacts":`, e.Artifacts)
	w.raw(`,"escalation":`, e.Escalation)
	w.raw(`,"resolution":`, e.Resolution)
	w.raw(`,"abandon":`, e.Abandon)
	w.flag(`,"memoizeOutcome":`, e.MemoizeOutcome)
	w.opt(`,"deadlineAt":`, e.DeadlineAt)
	if e.Ref == nil {
		w.opt(`,"endedAt":`, e.EndedAt)
	}
	return append(w.dst, '}'), w.err
}

// estimate is about how long the entry's line is.
func (e *Entry) estimate() int {
	n := 320 + len(e.Raw) + len(e.Scope) + len(e.Key)
	for _, raw := range []json.RawMessage{
		e.Value, e.Error, e.Usage, e.UsageByModel, e.CostAttribution, e.ProviderCalls, e.Artifacts, e.Escalation, e.Resolution, e.Abandon,
	} {
		n += len(raw)
	}
	return n
}

// lineWriter appends members and remembers the first that cannot be written.
// A member's name comes as it stands in the text, with its comma and colon.
type lineWriter struct {
	dst []byte
	err error
}

func (w *lineWriter) int(n string, v int64) {
	w.dst = append(w.dst, n...)
	w.dst = strconv.AppendInt(w.dst, v, 10)
}

func (w *lineWriter) flag(n string, v bool) {
	if v {
		w.dst = append(w.dst, n...)
		w.dst = append(w.dst, "true"...)
	}
}

func (w *lineWriter) opt(n, v string) {
	if v != "" {
		w.str(n, v)
	}
}

func (w *lineWriter) str(n, v string) {
	w.dst = append(w.dst, n...)
	if plain(v) {
		w.dst = append(append(append(w.dst, '"'), v...), '"')
		return
	}
	if !utf8.ValidString(v) {
		w.refuse(n, "the string is not UTF-8")
		return
	}
	w.dst = appendString(w.dst, v)
}

func (w *lineWriter) raw(n string, v json.RawMessage) {
	if v == nil {
		return
	}
	s := scanner{b: v}
	s.space()
	if s.value(1) {
		if s.space(); s.i < len(v) {
			s.stop("more text follows the value")
		}
	}
	if s.fail == nil {
		if off := s.badUTF8(); off >= 0 {
			s.stopAt(off, "the text is not UTF-8")
		}
	}
	if s.fail != nil {
		w.refuse(n, fmt.Sprintf("byte %d of the JSON text: %s", s.fail.off, s.fail.msg))
		return
	}
	w.dst = append(w.dst, n...)
	if s.breaks { // white space between tokens: a line holds none
		buf := bytes.NewBuffer(w.dst)
		if err := json.Compact(buf, v); err != nil {
			w.refuse(n, err.Error())
			return
		}
		w.dst = buf.Bytes()
		return
	}
	w.dst = append(w.dst, v...)
}

func hasLineBreak(b []byte) bool {
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}

func (w *lineWriter) refuse(n, msg string) {
	if w.err == nil {
		w.err = errs.New(errs.NonSerializable, "write entry", strings.Trim(n, `,":`), msg)
	}
}

// plain reports whether v is ASCII of which nothing is escaped, as all names
// and keys are.
func plain(v string) bool {
	var stop uint64
	i := 0
	for ; i+8 <= len(v); i += 8 {
		stop |= special(binary.LittleEndian.Uint64(unsafe.Slice(unsafe.StringData(v[i:]), 8)))
	}
	if stop&highs != 0 {
		return false
	}
	for ; i < len(v); i++ {
		if c := v[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

const hexDigits = "0123456789abcdef"

// appendString quotes v, escaping what JSON requires and nothing else.
func appendString(dst []byte, v string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := range len(v) {
		c := v[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, v[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, v[from:]...), '"')
}
