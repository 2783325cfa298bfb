package journal_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// line is a whole entry with more members to follow.
const line = `{"hashVersion":2,"seq":3,"scope":"","key":"k","ordinal":0,"kind":"step","status":"running"`

// TestRecordedLines writes every entry that the reference recorded again, from
// its decoded members, and expects the reference's bytes.
func TestRecordedLines(t *testing.T) {
	rewritten := 0
	for _, dir := range recordedStores(t) {
		text, err := os.ReadFile(filepath.Join(dir, "r1.jsonl"))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		for _, l := range bytes.Split(text, []byte("\n")) {
			e, err := journal.ParseEntry(l)
			if err != nil {
				continue // torn and empty lines; TestRecordedStores counts entries
			}
			require.Equal(t, string(l), string(e.Raw))
			same, err := e.AppendLine(nil)
			require.NoError(t, err)
			require.Equal(t, string(l), string(same))
			if strings.Contains(string(l), `"toolBudget"`) || strings.Contains(string(l), `"futureField"`) || strings.Contains(string(l), `"v":`) {
				continue // members that only Raw keeps
			}
			e.Raw = nil
			again, err := e.AppendLine(nil)
			require.NoError(t, err)
			require.Equal(t, string(l), string(again))
			if !strings.HasPrefix(string(e.Kind), "future") {
				require.NoError(t, e.Validate())
			}
			rewritten++
		}
	}
	require.Greater(t, rewritten, 600)
}

func TestParseEntry(t *testing.T) {
	t.Run("members", func(t *testing.T) {
		e, err := journal.ParseEntry([]byte(` {"seq":7,"v":1,"ref":2,"scope":"agent:0","key":"\u0041","kind":"future.kind","status":"odd",` +
			`"ordinal":4,"value":null,"transcriptRef":"","more":{"a":[1e5,-0.5,true]},"usageApprox":true} `))
		require.NoError(t, err)
		require.Equal(t, 1, e.HashVersion)
		require.EqualValues(t, 7, e.Seq)
		require.EqualValues(t, 2, *e.Ref)
		require.Equal(t, "A", e.Key)
		require.Equal(t, journal.Kind("future.kind"), e.Kind)
		require.EqualValues(t, 4, e.Ordinal)
		require.Equal(t, "null", string(e.Value))
		require.Equal(t, "", *e.TranscriptRef)
		require.True(t, e.UsageApprox)
	})
	t.Run("no hashVersion is 1", func(t *testing.T) {
		e, err := journal.ParseEntry([]byte(`{"seq":0,"scope":"","key":"","kind":"decision","status":"ok"}`))
		require.NoError(t, err)
		require.Equal(t, 1, e.HashVersion)
		require.Nil(t, e.Ref)
	})
	t.Run("hashVersion wins over v", func(t *testing.T) {
		e, err := journal.ParseEntry([]byte(`{"v":1,"hashVersion":2,"seq":0,"scope":"","key":"","kind":"decision","status":"ok"}`))
		require.NoError(t, err)
		require.Equal(t, 2, e.HashVersion)
	})
	t.Run("a lone surrogate in a payload is kept", func(t *testing.T) {
		e, err := journal.ParseEntry([]byte(line + `,"value":"\ud800"}`))
		require.NoError(t, err)
		require.Equal(t, `"\ud800"`, string(e.Value))
	})
}

func TestParseEntryRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                   {``, "byte 0"},
		"not an object":             {`[1]`, "byte 0"},
		"empty object":              {`{}`, "empty"},
		"cut":                       {line, "ends before"},
		"more behind":               {line + `} x`, "more text"},
		"two entries":               {line + `}` + line + `}`, "more text"},
		"byte order mark":           {"\ufeff" + line + `}`, "byte 0"},
		"duplicate":                 {line + `,"seq":4}`, "twice"},
		"duplicate by escape":       {line + `,"\u0073eq":4}`, "twice"},
		"duplicate unknown":         {line + `,"x":4,"x":4}`, "member x stands twice"},
		"v twice":                   {line + `,"v":2,"v":2}`, "twice"},
		"no seq":                    {`{"scope":"","key":"","kind":"step","status":"ok"}`, "no seq"},
		"no key":                    {`{"seq":1,"scope":"","kind":"step","status":"ok"}`, "no key"},
		"no scope":                  {`{"seq":1,"key":"","kind":"step","status":"ok"}`, "no scope"},
		"no kind":                   {`{"seq":1,"scope":"","key":"","status":"ok"}`, "no kind"},
		"no status":                 {`{"seq":1,"scope":"","key":"","kind":"step"}`, "no status"},
		"negative seq":              {`{"seq":-1,"scope":"","key":"","kind":"step","status":"ok"}`, "not negative"},
		"seq with fraction":         {`{"seq":1.0,"scope":"","key":"","kind":"step","status":"ok"}`, "fraction"},
		"seq with exponent":         {`{"seq":1e3,"scope":"","key":"","kind":"step","status":"ok"}`, "fraction"},
		"seq with leading zero":     {`{"seq":01,"scope":"","key":"","kind":"step","status":"ok"}`, "begins with 0"},
		"seq beyond 2^53":           {`{"seq":9007199254740992,"scope":"","key":"","kind":"step","status":"ok"}`, "beyond"},
		"seq is a string":           {`{"seq":"1","scope":"","key":"","kind":"step","status":"ok"}`, "whole number"},
		"scope null":                {`{"seq":1,"scope":null,"key":"","kind":"step","status":"ok"}`, "expected \""},
		"ref null":                  {line + `,"ref":null}`, "whole number"},
		"ref forward":               {line + `,"ref":3}`, "backwards"},
		"hashVersion 0":             {`{"hashVersion":0,"seq":1,"scope":"","key":"","kind":"step","status":"ok"}`, "out of range"},
		"usage is no object":        {line + `,"usage":[]}`, "expected {"},
		"providerCalls is no array": {line + `,"providerCalls":{}}`, "expected ["},
		"flag is a word":            {line + `,"usageApprox":"true"}`, "expected false"},
		"lone surrogate in scope":   {`{"seq":1,"scope":"\ud800","key":"","kind":"step","status":"ok"}`, "surrogate"},
		"lone surrogate in name":    {line + `,"\udc00":1}`, "surrogate"},
		"invalid UTF-8":             {line + ",\"value\":\"\xff\"}", "UTF-8"},
		"bare control character":    {line + ",\"value\":\"\x01\"}", "control"},
		"bad escape":                {line + `,"value":"\x"}`, "escape"},
		"bad unicode escape":        {line + `,"value":"\u12g4"}`, "escape"},
		"bad number":                {line + `,"value":01}`, "expected }"},
		"bad fraction":              {line + `,"value":1.}`, "digit"},
		"plus":                      {line + `,"value":+1}`, "value"},
		"bad word":                  {line + `,"value":nul}`, "null"},
		"trailing comma":            {line + `,}`, "expected \""},
		"trailing comma in array":   {line + `,"value":[1,]}`, "value"},
		"name without quotes":       {line + `,x:1}`, "expected \""},
		"too deep":                  {line + `,"value":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "deep"},
		"resolution without ref":    {`{"seq":1,"scope":"","key":"","kind":"resolution","status":"ok","resolution":{}}`, "without ref"},
		"abandon without payload":   {`{"seq":1,"ref":0,"scope":"","key":"","kind":"abandon","status":"ok"}`, "payload"},
		"NUL":                       {"\x00" + line + "}", "byte 0"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := journal.ParseEntry([]byte(c.text))
			require.Nil(t, e)
			require.ErrorIs(t, err, errs.JournalOrder)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAppendLine(t *testing.T) {
	e := &journal.Entry{Kind: journal.KindStep, Status: journal.StatusRunning, Scope: "wf:<a&b>:0/é\u2028", Key: "\"\\\b\f\n\r\t\x01", SpanID: "s1"}
	e.Value = json.RawMessage("{\n\t\"html\": \"<&>\",\r\n \"n\": 1.50}")
	text, err := e.AppendLine([]byte("before "))
	require.NoError(t, err)
	require.Equal(t, `before {"hashVersion":2,"seq":0,"scope":"wf:<a&b>:0/é`+"\u2028"+`","key":"\"\\\b\f\n\r\t\u0001","ordinal":0,`+
		`"kind":"step","status":"running","spanId":"s1","value":{"html":"<&>","n":1.50}}`, string(text))

	for name, spoil := range map[string]func(*journal.Entry){
		"value is not JSON":        func(e *journal.Entry) { e.Value = json.RawMessage(`{`) },
		"value is empty":           func(e *journal.Entry) { e.Value = json.RawMessage{} },
		"value is two":             func(e *journal.Entry) { e.Value = json.RawMessage(`1 2`) },
		"value is not UTF-8":       func(e *journal.Entry) { e.Value = json.RawMessage("\"\xff\"") },
		"scope is not UTF-8":       func(e *journal.Entry) { e.Scope = "\xff" },
		"transcript ref not UTF-8": func(e *journal.Entry) { s := "\xff"; e.TranscriptRef = &s },
	} {
		t.Run(name, func(t *testing.T) {
			c := *e
			spoil(&c)
			_, err := c.AppendLine(nil)
			require.ErrorIs(t, err, errs.NonSerializable)
		})
	}
}

// drawEntry makes any entry that may be written.
func drawEntry(t *rapid.T) *journal.Entry {
	text := rapid.String()
	value := rapid.Custom(func(t *rapid.T) json.RawMessage {
		b, err := json.Marshal(rapid.OneOf(
			rapid.Map(rapid.MapOf(text, text), func(m map[string]string) any { return m }),
			rapid.Map(rapid.SliceOf(rapid.Float64Range(-1e9, 1e9)), func(s []float64) any { return s }),
			rapid.Map(text, func(s string) any { return s }),
		).Draw(t, "value"))
		require.NoError(t, err)
		return b
	})
	e := &journal.Entry{
		HashVersion: rapid.IntRange(1, 2).Draw(t, "hashVersion"),
		Seq:         rapid.Int64Range(1, 1<<53-1).Draw(t, "seq"),
		Scope:       text.Draw(t, "scope"), Key: text.Draw(t, "key"), Ordinal: rapid.Int64Range(0, 1<<53-1).Draw(t, "ordinal"),
		Kind: journal.KindStep, Status: journal.StatusOK, SpanID: text.Draw(t, "span"), ServedBy: text.Draw(t, "served"),
		StartedAt: text.Draw(t, "started"), EndedAt: text.Draw(t, "ended"), CheckpointRef: text.Draw(t, "ckpt"),
		UsageApprox: rapid.Bool().Draw(t, "approx"), MemoizeOutcome: rapid.Bool().Draw(t, "memo"), UsageSemantics: text.Draw(t, "sem"),
	}
	ref := rapid.Int64Range(0, e.Seq-1).Draw(t, "ref")
	e.Ref = &ref
	if rapid.Bool().Draw(t, "hasValue") {
		e.Value = value.Draw(t, "v")
	}
	if rapid.Bool().Draw(t, "hasTranscript") {
		s := text.Draw(t, "transcript")
		e.TranscriptRef = &s
	}
	return e
}

// TestEntryRoundTrip: what is written is read back as it was, from one line.
func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		require.NoError(t, e.Validate())
		text, err := e.AppendLine(nil)
		require.NoError(t, err)
		require.NotContains(t, string(text), "\n")
		require.True(t, json.Valid(text))
		back, err := journal.ParseEntry(text)
		require.NoError(t, err)
		back.Raw = nil
		require.True(t, reflect.DeepEqual(e, back), "%+v\n%+v", e, back)
	})
}

func TestValidate(t *testing.T) {
	ref := int64(1)
	at := func(kind journal.Kind, status journal.Status) *journal.Entry {
		return &journal.Entry{Kind: kind, Status: status}
	}
	with := func(e *journal.Entry, change func(*journal.Entry)) *journal.Entry { change(e); return e }
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for name, c := range map[string]struct {
		e    *journal.Entry
		want string // of the error's path; empty is valid
	}{
		"running agent":             {at("agent", "running"), ""},
		"unknown kind":              {at("future", "ok"), "future.kind"},
		"illegal status":            {at("step", "limit"), "step.status"},
		"status skipped":            {at("agent", "skipped"), "agent.status"},
		"old version":               {with(at("step", "running"), func(e *journal.Entry) { e.HashVersion = 1 }), ""},
		"new version":               {with(at("step", "running"), func(e *journal.Entry) { e.HashVersion = 3 }), "step.hashVersion"},
		"negative ordinal":          {with(at("step", "running"), func(e *journal.Entry) { e.Ordinal = -1 }), "step.ordinal"},
		"terminal":                  {with(at("step", "ok"), func(e *journal.Entry) { e.Ref = &ref }), ""},
		"terminal without ref":      {at("step", "ok"), "step.ref"},
		"running with ref":          {with(at("step", "running"), func(e *journal.Entry) { e.Ref = &ref }), "step.ref"},
		"approval with ref":         {with(at("approval", "suspended"), func(e *journal.Entry) { e.Ref = &ref }), "approval.ref"},
		"negative ref":              {with(at("step", "ok"), func(e *journal.Entry) { n := int64(-1); e.Ref = &n }), "step.ref"},
		"escalated without payload": {with(at("agent", "escalated"), func(e *journal.Entry) { e.Ref = &ref }), "agent.escalation"},
		"escalation elsewhere":      {with(at("agent", "running"), func(e *journal.Entry) { e.Escalation = raw(`{}`) }), "agent.escalation"},
		"resolution elsewhere":      {with(at("agent", "running"), func(e *journal.Entry) { e.Resolution = raw(`{}`) }), "agent.resolution"},
		"abandon elsewhere":         {with(at("agent", "running"), func(e *journal.Entry) { e.Abandon = raw(`{}`) }), "agent.abandon"},
		"resolution": {with(at("resolution", "ok"), func(e *journal.Entry) {
			e.Ref, e.Resolution = &ref, raw(`{"target":1,"by":"external","value":null}`)
		}), ""},
		"resolution of another": {with(at("resolution", "ok"), func(e *journal.Entry) {
			e.Ref, e.Resolution = &ref, raw(`{"target":0,"by":"external","value":null}`)
		}), "resolution.resolution"},
		"resolution without value": {with(at("resolution", "ok"), func(e *journal.Entry) {
			e.Ref, e.Resolution = &ref, raw(`{"target":1,"by":"external"}`)
		}), "resolution.resolution"},
		"resolution without ref": {with(at("resolution", "ok"), func(e *journal.Entry) {
			e.Resolution = raw(`{"target":1,"by":"external","value":null}`)
		}), "resolution.ref"},
		"abandon": {with(at("abandon", "ok"), func(e *journal.Entry) {
			e.Ref, e.Abandon = &ref, raw(`{"target":1,"authorizedBy":"host","reason":"gone"}`)
		}), ""},
		"abandon by nobody": {with(at("abandon", "ok"), func(e *journal.Entry) {
			e.Ref, e.Abandon = &ref, raw(`{"target":1,"reason":"gone"}`)
		}), "abandon.abandon"},
		"decision":              {with(at("decision", "ok"), func(e *journal.Entry) { e.Value = raw(`{"decisionType":"run_settle"}`) }), ""},
		"decision without type": {with(at("decision", "ok"), func(e *journal.Entry) { e.Value = raw(`{"DecisionType":"run_settle"}`) }), "decision.value"},
		"decision of two types": {with(at("decision", "ok"), func(e *journal.Entry) {
			e.Value = raw(`{"decisionType":"run_settle","decisionType":"approval_revoked"}`)
		}), "decision.value"},
		"decision is a list":       {with(at("decision", "ok"), func(e *journal.Entry) { e.Value = raw(`[]`) }), "decision.value"},
		"rand now":                 {with(at("rand", "ok"), func(e *journal.Entry) { e.Value = raw(`{"subtype":"now","value":12.5}`) }), ""},
		"rand random with key":     {with(at("rand", "ok"), func(e *journal.Entry) { e.Value = raw(`{"subtype":"random","value":0.5,"key":"k"}`) }), ""},
		"rand uuid":                {with(at("rand", "ok"), func(e *journal.Entry) { e.Value = raw(`{"subtype":"uuid","value":"u"}`) }), ""},
		"rand uuid is a number":    {with(at("rand", "ok"), func(e *journal.Entry) { e.Value = raw(`{"subtype":"uuid","value":1}`) }), "rand.value.value"},
		"rand now is null":         {with(at("rand", "ok"), func(e *journal.Entry) { e.Value = raw(`{"subtype":"now","value":null}`) }), "rand.value.value"},
		"rand of another kind":     {with(at("rand", "ok"), func(e *journal.Entry) { e.Value = raw(`{"subtype":"dice","value":1}`) }), "rand.value.subtype"},
		"rand without value":       {at("rand", "ok"), "rand.value"},
		"approval with deadline":   {with(at("approval", "suspended"), func(e *journal.Entry) { e.DeadlineAt = "2026-11-30T09:19:01.063Z" }), ""},
		"approval with bad time":   {with(at("approval", "suspended"), func(e *journal.Entry) { e.DeadlineAt = "soon" }), "approval.deadlineAt"},
		"external with deadline":   {with(at("external", "suspended"), func(e *journal.Entry) { e.DeadlineAt = "2026-11-30T09:19:01.063Z" }), "external.deadlineAt"},
		"error without code":       {with(at("step", "error"), func(e *journal.Entry) { e.Ref, e.Error = &ref, raw(`{"message":"m"}`) }), "step.error"},
		"error with all it needs":  {with(at("step", "error"), func(e *journal.Entry) { e.Ref, e.Error = &ref, raw(`{"code":"c","message":"m","retryable":false}`) }), ""},
		"suspended with a wrong k": {at("approval", "ok"), "approval.status"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.e.Validate()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errs.Config)
			require.ErrorContains(t, err, c.want+":")
		})
	}
}
