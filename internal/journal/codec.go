package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// One entry is one JSON object on one line. The members that every entry has
// come first, in this order; the order is free to a reader:
//
//	{"hashVersion":2,"seq":3,"ref":1,"scope":"","key":"5d22…","ordinal":0,
//	 "kind":"step","status":"ok","spanId":"s2","startedAt":"2026-…Z",
//	 "endedAt":"2026-…Z","value":{…}}
//
// ref stands where the entry belongs to an earlier one: the terminal of a
// running entry, a resolution, an abandon. Such an entry has endedAt before
// its payload; an entry without ref ends with it.

// member is one of the envelope's member names.
type member uint8

const (
	mUnknown member = iota
	mHashVersion
	mV // the name of hashVersion in early journals
	mSeq
	mRef
	mScope
	mKey
	mOrdinal
	mKind
	mStatus
	mSpanID
	mStartedAt
	mEndedAt
	mValue
	mError
	mUsage
	mUsageApprox
	mServedBy
	mUsageByModel
	mCostAttribution
	mProviderCalls
	mUsageSemantics
	mTranscriptRef
	mCheckpointRef
	mArtifacts
	mEscalation
	mResolution
	mAbandon
	mMemoizeOutcome
	mDeadlineAt
)

// required are the members without which a line is no entry.
var required = [...]struct {
	m    member
	name string
}{{mSeq, "seq"}, {mScope, "scope"}, {mKey, "key"}, {mKind, "kind"}, {mStatus, "status"}}

// memberOf returns which member name is; a name is compared as it reads, so
// "\u0073eq" is seq.
func memberOf[T string | []byte](name T) member {
	switch string(name) {
	case "hashVersion":
		return mHashVersion
	case "v":
		return mV
	case "seq":
		return mSeq
	case "ref":
		return mRef
	case "scope":
		return mScope
	case "key":
		return mKey
	case "ordinal":
		return mOrdinal
	case "kind":
		return mKind
	case "status":
		return mStatus
	case "spanId":
		return mSpanID
	case "startedAt":
		return mStartedAt
	case "endedAt":
		return mEndedAt
	}
	return payloadMember(string(name))
}

func payloadMember(name string) member {
	switch name {
	case "value":
		return mValue
	case "error":
		return mError
	case "usage":
		return mUsage
	case "usageApprox":
		return mUsageApprox
	case "servedBy":
		return mServedBy
	case "usageByModel":
		return mUsageByModel
	case "costAttribution":
		return mCostAttribution
	case "providerCalls":
		return mProviderCalls
	case "usageSemantics":
		return mUsageSemantics
	case "transcriptRef":
		return mTranscriptRef
	case "checkpointRef":
		return mCheckpointRef
	case "artifacts":
		return mArtifacts
	case "escalation":
		return mEscalation
	case "resolution":
		return mResolution
	case "abandon":
		return mAbandon
	case "memoizeOutcome":
		return mMemoizeOutcome
	case "deadlineAt":
		return mDeadlineAt
	}
	return mUnknown
}

// ParseEntry reads one line, without its newline. It refuses, with a
// journal_order_violation that names the byte: text that is not one JSON
// object in UTF-8, a member that stands twice, a member of the envelope with
// another shape than the format gives it (null included), a line without seq,
// scope, key, kind or status, and a ref that is not backwards. Unknown
// members, kinds and statuses are kept. hashVersion may be spelt v; without
// either it is 1. Inside payloads only the grammar is looked at.
//
// The entry shares memory with line. ParseEntry may be called from any
// goroutine.
func ParseEntry(line []byte) (*Entry, error) {
	e := new(Entry)
	s := scanner{b: line}
	if s.entry(e) {
		if s.space(); s.i < len(line) {
			s.stop("more text follows the entry")
		}
	}
	if s.fail == nil {
		if off := badUTF8(line); off >= 0 {
			s.stopAt(off, "the text is not UTF-8")
		}
	}
	if s.fail != nil {
		return nil, errs.New(errs.JournalOrder, "parse entry", "byte "+strconv.Itoa(s.fail.off), s.fail.msg)
	}
	e.Raw = json.RawMessage(line[:len(line):len(line)])
	return e, nil
}

// entry reads the object that starts here into e, and stops behind it. It
// leaves e.Raw to its caller.
func (s *scanner) entry(e *Entry) bool {
	s.space()
	start := s.i
	if !s.byte('{') {
		return false
	}
	var seen uint32
	var unknown map[string]bool
	if s.space(); s.at('}') {
		s.i++
		return s.stopAt(start, "the entry is empty")
	}
	for {
		at := s.i
		m, name, ok := s.name()
		if !ok || !s.colon() {
			return false
		}
		if m == mUnknown {
			if unknown == nil {
				unknown = make(map[string]bool)
			}
			if unknown[name] {
				return s.stopAt(at, "member "+name+" stands twice")
			}
			unknown[name] = true
		} else if seen&(1<<m) != 0 {
			return s.stopAt(at, "a member stands twice")
		}
		seen |= 1 << m
		if !s.member(m, e) {
			return false
		}
		if s.space(); s.at(',') {
			s.i++
			s.space()
			continue
		}
		if !s.byte('}') {
			return false
		}
		return s.check(e, start, seen)
	}
}

// name passes over a member's name. Only an unknown one is returned as text.
func (s *scanner) name() (m member, unknown string, ok bool) {
	start := s.i
	body, escaped, ok := s.str()
	if !ok {
		return 0, "", false
	}
	if !escaped {
		if m = memberOf(body); m == mUnknown {
			unknown = string(body)
		}
		return m, unknown, true
	}
	if unknown, ok = unescape(body); !ok {
		return 0, "", s.stopAt(start, "a lone surrogate stands in a member's name")
	}
	return memberOf(unknown), unknown, true
}

// check looks at what only the whole object can tell.
func (s *scanner) check(e *Entry, start int, seen uint32) bool {
	for _, r := range required {
		if seen&(1<<r.m) == 0 {
			return s.stopAt(start, "the entry has no "+r.name)
		}
	}
	if e.Ref != nil && *e.Ref >= e.Seq {
		return s.stopAt(start, fmt.Sprintf("ref %d does not point backwards from seq %d", *e.Ref, e.Seq))
	}
	switch {
	case e.Kind == KindResolution && (e.Ref == nil || e.Resolution == nil),
		e.Kind == KindAbandon && (e.Ref == nil || e.Abandon == nil):
		return s.stopAt(start, string(e.Kind)+" entry without ref or payload")
	}
	if seen&(1<<mHashVersion|1<<mV) == 0 {
		e.HashVersion = 1
	}
	return true
}

// member reads the value of m into e.
func (s *scanner) member(m member, e *Entry) bool {
	switch m {
	case mUnknown:
		return s.value(1)
	case mHashVersion, mV:
		return s.version(m, e)
	case mSeq:
		return s.intoInt(&e.Seq)
	case mRef:
		e.Ref = new(int64)
		return s.intoInt(e.Ref)
	case mOrdinal:
		return s.intoInt(&e.Ordinal)
	case mScope:
		return s.intoText(&e.Scope)
	case mKey:
		return s.intoText(&e.Key)
	case mKind:
		return intoWord(s, &e.Kind, kinds)
	case mStatus:
		return intoWord(s, &e.Status, statuses)
	case mSpanID:
		return s.intoText(&e.SpanID)
	case mStartedAt:
		return s.intoText(&e.StartedAt)
	case mEndedAt:
		return s.intoText(&e.EndedAt)
	case mServedBy:
		return s.intoText(&e.ServedBy)
	case mUsageSemantics:
		return s.intoText(&e.UsageSemantics)
	case mTranscriptRef:
		e.TranscriptRef = new(string)
		return s.intoText(e.TranscriptRef)
	case mCheckpointRef:
		return s.intoText(&e.CheckpointRef)
	case mDeadlineAt:
		return s.intoText(&e.DeadlineAt)
	case mUsageApprox:
		return s.intoBool(&e.UsageApprox)
	case mMemoizeOutcome:
		return s.intoBool(&e.MemoizeOutcome)
	}
	return s.payload(m, e)
}

// payload reads a member that stays text.
func (s *scanner) payload(m member, e *Entry) bool {
	switch m {
	case mValue:
		return s.intoRaw(&e.Value, 0)
	case mError:
		return s.intoRaw(&e.Error, '{')
	case mUsage:
		return s.intoRaw(&e.Usage, '{')
	case mUsageByModel:
		return s.intoRaw(&e.UsageByModel, '[')
	case mCostAttribution:
		return s.intoRaw(&e.CostAttribution, '{')
	case mProviderCalls:
		return s.intoRaw(&e.ProviderCalls, '[')
	case mArtifacts:
		return s.intoRaw(&e.Artifacts, '[')
	case mEscalation:
		return s.intoRaw(&e.Escalation, '{')
	case mResolution:
		return s.intoRaw(&e.Resolution, '{')
	default:
		return s.intoRaw(&e.Abandon, '{')
	}
}

func (s *scanner) version(m member, e *Entry) bool {
	start := s.i
	v, ok := s.integer()
	if ok && (v < 1 || v > math.MaxInt32) {
		return s.stopAt(start, "hashVersion is out of range")
	}
	if m == mHashVersion || e.HashVersion == 0 {
		e.HashVersion = int(v)
	}
	return ok
}

func (s *scanner) intoInt(v *int64) (ok bool) {
	*v, ok = s.integer()
	return ok
}

func (s *scanner) intoText(v *string) (ok bool) {
	*v, ok = s.text()
	return ok
}

func (s *scanner) intoBool(v *bool) bool {
	if *v = s.at('t'); *v {
		return s.word("true")
	}
	return s.word("false")
}

// intoRaw takes a value that begins with the byte first, or any with 0.
func (s *scanner) intoRaw(v *json.RawMessage, first byte) (ok bool) {
	if first != 0 && !s.at(first) {
		return s.stop("expected " + string(rune(first)))
	}
	*v, ok = s.raw()
	return ok
}

// intoWord reads a string into a word type, sharing the words that are known
// instead of allocating them anew for each line.
func intoWord[W ~string](s *scanner, v *W, known []W) bool {
	start := s.i
	body, escaped, ok := s.str()
	if !ok {
		return false
	}
	if escaped {
		s.i = start
		t, ok := s.text()
		*v = W(t)
		return ok
	}
	for _, w := range known {
		if string(body) == string(w) {
			*v = w
			return true
		}
	}
	*v = W(body)
	return true
}

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
	w.str("scope", e.Scope)
	w.str("key", e.Key)
	w.int("ordinal", e.Ordinal)
	w.str("kind", string(e.Kind))
	w.str("status", string(e.Status))
	w.str("spanId", e.SpanID)
	w.opt("startedAt", e.StartedAt)
	if e.Ref != nil {
		w.opt("endedAt", e.EndedAt)
	}
	w.raw("value", e.Value)
	w.raw("error", e.Error)
	w.raw("usage", e.Usage)
	w.flag("usageApprox", e.UsageApprox)
	w.opt("servedBy", e.ServedBy)
	w.raw("usageByModel", e.UsageByModel)
	w.raw("costAttribution", e.CostAttribution)
	w.raw("providerCalls", e.ProviderCalls)
	w.opt("usageSemantics", e.UsageSemantics)
	if e.TranscriptRef != nil {
		w.str("transcriptRef", *e.TranscriptRef)
	}
	w.opt("checkpointRef", e.CheckpointRef)
	w.raw("artifacts", e.Artifacts)
	w.raw("escalation", e.Escalation)
	w.raw("resolution", e.Resolution)
	w.raw("abandon", e.Abandon)
	w.flag("memoizeOutcome", e.MemoizeOutcome)
	w.opt("deadlineAt", e.DeadlineAt)
	if e.Ref == nil {
		w.opt("endedAt", e.EndedAt)
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
type lineWriter struct {
	dst []byte
	err error
}

func (w *lineWriter) name(n string) {
	w.dst = append(w.dst, `,"`...)
	w.dst = append(w.dst, n...)
	w.dst = append(w.dst, `":`...)
}

func (w *lineWriter) int(n string, v int64) {
	w.name(n)
	w.dst = strconv.AppendInt(w.dst, v, 10)
}

func (w *lineWriter) flag(n string, v bool) {
	if v {
		w.name(n)
		w.dst = append(w.dst, "true"...)
	}
}

func (w *lineWriter) opt(n, v string) {
	if v != "" {
		w.str(n, v)
	}
}

func (w *lineWriter) str(n, v string) {
	if !utf8.ValidString(v) {
		w.refuse(n, "the string is not UTF-8")
		return
	}
	w.name(n)
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
	if s.fail == nil && !utf8.Valid(v) {
		s.stopAt(badUTF8(v), "the text is not UTF-8")
	}
	if s.fail != nil {
		w.refuse(n, fmt.Sprintf("byte %d of the JSON text: %s", s.fail.off, s.fail.msg))
		return
	}
	w.name(n)
	if hasLineBreak(v) { // white space between tokens: a line holds none
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
		w.err = errs.New(errs.NonSerializable, "write entry", n, msg)
	}
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
