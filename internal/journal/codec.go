package journal

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

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
		if off := s.badUTF8(); off >= 0 {
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
