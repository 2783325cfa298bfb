package executor

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// A ledger file holds one JSON object a line, and shares its format with the
// reference:
//
//	{"phase":"intent","attemptId"?,"idempotencyKey","runId","spanId","tool","argsHash","executor","workdir","startedAt"}
//	{"phase":"outcome", the same, "durationMs","outcome":"ok"|"error"|"timeout","exitCode":int|null,"signal":string|null,
//	                    "noEffect"?:true,"result"?}
//	{"phase":"torn","bytes","bytesBase64","sha256","recoveredAt"}
//
// Times are milliseconds. Further members pass. noEffect and result are ours;
// others skip them, and so take a call for settled that may be tried again.

// The phases.
const (
	phaseIntent  = "intent"
	phaseOutcome = "outcome"
	phaseTorn    = "torn"
)

// row is a line that was read: one of the three.
type row struct {
	intent  *Intent
	outcome *Outcome
	torn    *TornTail
}

// TornTail is the beginning of a line that was never finished, as a crash
// leaves it at the end of a ledger.
type TornTail struct {
	// Bytes are what was written of it.
	Bytes []byte
	// RecoveredAt is when the next writer took it out, in milliseconds since
	// 1970; 0 where it still stands at the end.
	RecoveredAt int64
}

// tornRow is its line.
type tornRow struct {
	Phase       string `json:"phase"`
	Bytes       int    `json:"bytes"`
	BytesBase64 string `json:"bytesBase64"`
	SHA256      string `json:"sha256"`
	RecoveredAt int64  `json:"recoveredAt"`
}

// line writes a row.
func (r *row) line() ([]byte, error) {
	var v any
	switch {
	case r.intent != nil:
		v = struct {
			Phase string `json:"phase"`
			*Intent
		}{phaseIntent, r.intent}
	case r.outcome != nil:
		var signal *string
		if r.outcome.Signal != "" {
			signal = &r.outcome.Signal
		}
		v = struct {
			Phase string `json:"phase"`
			*Outcome
			Signal *string `json:"signal"`
		}{phaseOutcome, r.outcome, signal}
	default:
		sum := sha256.Sum256(r.torn.Bytes)
		v = tornRow{phaseTorn, len(r.torn.Bytes), base64.StdEncoding.EncodeToString(r.torn.Bytes), hex.EncodeToString(sum[:]), r.torn.RecoveredAt}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// readRow reads a line. An error says what is wrong with it; parsed, whether it
// is JSON at all, which a line that was cut off never is.
func readRow(line []byte) (r row, parsed bool, err error) {
	if !utf8.Valid(line) {
		return row{}, false, fmt.Errorf("it is not UTF-8")
	}
	if err := jcs.Check(line); err != nil {
		return row{}, false, fmt.Errorf("it is not JSON: %w", err)
	}
	f := fields{}
	if f.members, err = membersOf(line); err != nil {
		return row{}, true, err
	}
	switch phase := f.text("phase"); {
	case f.wrong != nil:
	case phase == phaseIntent:
		r.intent = f.intent()
	case phase == phaseOutcome:
		r.outcome = f.outcome()
	case phase == phaseTorn:
		r.torn = f.torn()
	default:
		f.fail("phase", fmt.Sprintf("%q is none of intent, outcome, torn", phase))
	}
	if f.wrong != nil {
		return row{}, true, f.wrong
	}
	return r, true, nil
}

// membersOf splits an object. A member that comes twice is refused: two readers
// could take another one of them.
func membersOf(object []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("it is no object")
	}
	members := make(map[string]json.RawMessage)
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := name.(string)
		if _, twice := members[key]; twice {
			return nil, fmt.Errorf("the member %q comes twice", key)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		members[key] = value
	}
	return members, nil
}

// fields reads members, by their exact names, and keeps what is wrong first.
type fields struct {
	members map[string]json.RawMessage
	wrong   error
}

func (f *fields) fail(name, msg string) {
	if f.wrong == nil {
		f.wrong = fmt.Errorf("%s: %s", name, msg)
	}
}

// text reads a member that must be a string.
func (f *fields) text(name string) string {
	var s *string
	if json.Unmarshal(f.members[name], &s) != nil || s == nil {
		f.fail(name, "a string is missing")
		return ""
	}
	return *s
}

// number reads a member that must be a whole number, not negative.
func (f *fields) number(name string) int64 {
	var n *float64
	if json.Unmarshal(f.members[name], &n) != nil || n == nil || *n != math.Trunc(*n) || *n < 0 || *n > 1<<53 {
		f.fail(name, "a whole number is missing")
		return 0
	}
	return int64(*n)
}

func (f *fields) isNull(name string) bool { return string(f.members[name]) == "null" }

func (f *fields) intent() *Intent {
	in := &Intent{
		IdempotencyKey: f.text("idempotencyKey"), RunID: f.text("runId"), SpanID: f.text("spanId"), Tool: f.text("tool"),
		ArgsHash: f.text("argsHash"), Executor: rulvar.ExecutorKind(f.text("executor")), Workdir: f.text("workdir"),
		StartedAt: f.number("startedAt"),
	}
	if f.members["attemptId"] != nil {
		if in.AttemptID = f.text("attemptId"); in.AttemptID == "" {
			f.fail("attemptId", "it is empty")
		}
	}
	return in
}

func (f *fields) outcome() *Outcome {
	out := &Outcome{Intent: *f.intent(), DurationMs: f.number("durationMs"), Outcome: OutcomeKind(f.text("outcome"))}
	if !out.Outcome.known() {
		f.fail("outcome", fmt.Sprintf("%q is none of ok, error, timeout", out.Outcome))
	}
	if !f.isNull("exitCode") {
		var code *int
		if json.Unmarshal(f.members["exitCode"], &code) != nil || code == nil {
			f.fail("exitCode", "a whole number or null is missing")
		}
		out.ExitCode = code
	}
	if !f.isNull("signal") {
		out.Signal = f.text("signal")
	}
	if v := f.members["noEffect"]; v != nil && json.Unmarshal(v, &out.NoEffect) != nil {
		f.fail("noEffect", "it is neither true nor false")
	}
	if out.NoEffect && out.Outcome != OutcomeError {
		f.fail("noEffect", "only an error can be without an effect")
	}
	out.Result = bytes.Clone(f.members["result"])
	return out
}

func (f *fields) torn() *TornTail {
	b, err := base64.StdEncoding.DecodeString(f.text("bytesBase64"))
	sum := sha256.Sum256(b)
	if err != nil || int64(len(b)) != f.number("bytes") || !strings.EqualFold(f.text("sha256"), hex.EncodeToString(sum[:])) {
		f.fail("bytesBase64", "bytes, bytesBase64 and sha256 do not agree")
	}
	t := &TornTail{Bytes: b}
	if at := f.members["recoveredAt"]; len(at) > 0 && at[0] == '"' {
		f.text("recoveredAt") // a date, for people
	} else {
		t.RecoveredAt = f.number("recoveredAt")
	}
	return t
}
