package journal_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

const metaGolden = `{
  "runId": "r1",
  "status": "suspended",
  "segments": 2,
  "updatedAt": "2026-11-30T09:19:01.062Z",
  "name": "nightly <1>",
  "tags": [
    "ci",
    "blue"
  ],
  "budgetUsd": 0.25,
  "configFingerprint": "cfg-1",
  "argsProvided": true,
  "args": {
    "n": 1.50
  },
  "argsHash": "df9a",
  "genesis": "01M8NW07Y6B36N38WFPEGA1CV8",
  "execKeyDerivation": 2,
  "workflowName": "ship",
  "workflowHash": "f647",
  "budgetPolicy": "strict",
  "scope": {
    "a": null
  },
  "\"odd\"": 1
}`

func TestMetaText(t *testing.T) {
	m, err := journal.ParseMeta([]byte(metaGolden))
	require.NoError(t, err)
	require.Equal(t, []string{"ci", "blue"}, m.Tags)
	require.InDelta(t, 0.25, *m.BudgetUSD, 0)
	require.True(t, m.ArgsProvided)
	require.Len(t, m.Extra, 3)
	text, err := m.AppendText(nil)
	require.NoError(t, err)
	want := strings.Replace(metaGolden, `  "budgetPolicy": "strict",
  "scope": {
    "a": null
  },
  "\"odd\"": 1
`, `  "\"odd\"": 1,
  "budgetPolicy": "strict",
  "scope": {
    "a": null
  }
`, 1)
	require.Equal(t, want, string(text))

	minimal, err := journal.ParseMeta([]byte(`{"runId":"r","status":"ok","updatedAt":"t"}`))
	require.NoError(t, err)
	text, err = minimal.AppendText(nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"runId":"r","status":"ok","segments":0,"updatedAt":"t","argsProvided":false}`, string(text))
}

func TestMetaRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":             ``,
		"a list":              `[]`,
		"no run id":           `{"status":"ok"}`,
		"duplicate":           `{"runId":"a","runId":"b"}`,
		"duplicate unknown":   `{"runId":"a","x":1,"x":2}`,
		"cut":                 `{"runId":"a"`,
		"more behind":         `{"runId":"a"}{}`,
		"null status":         `{"runId":"a","status":null}`,
		"segments a fraction": `{"runId":"a","segments":1.5}`,
		"segments too many":   `{"runId":"a","segments":3000000000}`,
		"budget a string":     `{"runId":"a","budgetUsd":"1"}`,
		"budget null":         `{"runId":"a","budgetUsd":null}`,
		"budget too large":    `{"runId":"a","budgetUsd":1e999}`,
		"tags a string":       `{"runId":"a","tags":"x"}`,
		"tags of numbers":     `{"runId":"a","tags":[1]}`,
		"not UTF-8":           "{\"runId\":\"a\",\"x\":\"\xff\"}",
		"byte order mark":     "\ufeff{\"runId\":\"a\"}",
		"zero bytes":          "\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := journal.ParseMeta([]byte(text))
			require.ErrorIs(t, err, errs.JournalOrder)
			require.ErrorContains(t, err, "byte ")
		})
	}
	nan := math.NaN()
	for name, m := range map[string]*journal.Meta{
		"budget is not a number": {RunID: "a", BudgetUSD: &nan},
		"args are not JSON":      {RunID: "a", Args: json.RawMessage(`{`)},
		"extra is not JSON":      {RunID: "a", Extra: map[string]json.RawMessage{"x": nil, "y": json.RawMessage(`}`)}},
		"tag is not UTF-8":       {RunID: "a", Tags: []string{"\xff"}},
		"extra name not UTF-8":   {RunID: "a", Extra: map[string]json.RawMessage{"\xff": json.RawMessage(`1`)}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.AppendText(nil)
			require.ErrorIs(t, err, errs.NonSerializable)
		})
	}
}

func TestRunIDs(t *testing.T) {
	for _, id := range []string{"r1", "A-z_0.9", "..x", ".hidden", "x.json", "meta", strings.Repeat("a", 200), "lock", ".jsonlx"} {
		require.NoError(t, journal.CheckRunID(id), id)
	}
	for _, id := range []string{
		"", ".", "..", "a/b", `a\b`, "a b", "é", "a\x00", strings.Repeat("a", 201), "x.jsonl", "x.JSONL", ".jsonl",
		"x.meta.json", "x.Lock", "x.bin", "x.tmp", "a:b", "a\n",
	} {
		require.ErrorIs(t, journal.CheckRunID(id), errs.Config, id)
	}
	for _, ref := range []string{"r1/ckpt/0", "r1/t0", "r1/patch/12"} {
		require.NoError(t, journal.CheckBlobRef(ref), ref)
	}
	for _, ref := range []string{"", "r1", "/r1/x", "r1/", "r1//x", "r1/../r2/x", "r1/./x", "r1/x.bin/y", "r1/x.bin", "r1.jsonl/x", `r1\x/y`, "r1/" + strings.Repeat("a", 201)} {
		require.ErrorIs(t, journal.CheckBlobRef(ref), errs.Config, ref)
	}
}
