package rulvar_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// journalsDir is where the fixtures are. RULVAR_JOURNALS names others of the
// same layout.
func journalsDir() string {
	if dir := os.Getenv("RULVAR_JOURNALS"); dir != "" {
		return dir
	}
	return filepath.Join("testdata", "journals")
}

// loadFixtures reads every scenario. A scenario whose text has lone surrogates
// cannot be held in Go strings and comes with its name and directory alone.
func loadFixtures(t *testing.T) []*fixture {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(journalsDir(), "*", "scenario.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, "no scenario in %s", journalsDir())
	sort.Strings(paths)
	var all []*fixture
	for _, path := range paths {
		f := &fixture{dir: filepath.Dir(path)}
		f.Scenario = filepath.Base(f.dir)
		f.raw, err = os.ReadFile(path)
		require.NoError(t, err)
		expect, err := os.ReadFile(filepath.Join(f.dir, "expect.json"))
		require.NoError(t, err)
		all = append(all, f)
		if f.surrogates() {
			continue
		}
		require.NoError(t, readPlain(f.raw, f), path)
		require.NoError(t, readPlain(expect, &f.expect), f.dir)
	}
	return all
}

func (f *fixture) surrogates() bool {
	_, err := jcs.Parse(f.raw)
	return errors.Is(err, jcs.ErrSurrogate)
}

// readPlain decodes text after it was written again in the one form that the
// reference's texts have: no escapes that JSON does not need, numbers as
// ECMAScript prints them, members in their order.
func readPlain(text []byte, v any) error {
	plain, err := plainJSON(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

func plainJSON(text []byte) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	out, err := appendPlain(nil, dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value: %v", err)
	}
	return out, nil
}

func appendPlain(dst []byte, dec *json.Decoder) ([]byte, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	open, nested := tok.(json.Delim)
	if !nested {
		return jcs.AppendTree(dst, tok)
	}
	dst = append(dst, byte(open))
	for first := true; dec.More(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		if open == '{' {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			dst = append(jcs.AppendString(dst, name.(string)), ':')
		}
		if dst, err = appendPlain(dst, dec); err != nil {
			return nil, err
		}
	}
	end, err := dec.Token()
	if err != nil {
		return nil, err
	}
	return append(dst, byte(end.(json.Delim))), nil
}

// in returns the scenario as one of its segments sees it: a segment's own
// workflow and adapter replace the scenario's, its tools and engine members
// are laid over them.
func (f *fixture) in(seg *fixtureSegment) *fixture {
	v := *f
	if seg.Workflow != nil {
		v.Workflow = *seg.Workflow
	}
	if seg.Adapter != nil {
		v.Adapter = *seg.Adapter
	}
	if seg.RunID != "" {
		v.RunID = seg.RunID
	}
	v.Tools, v.Engine = maps.Clone(f.Tools), maps.Clone(f.Engine)
	if v.Tools == nil {
		v.Tools = make(map[string]fixtureTool)
	}
	maps.Copy(v.Tools, seg.Tools)
	maps.Copy(v.Engine, seg.Engine)
	return &v
}

// copyTree copies the files of a store. The placeholders of empty directories
// stay behind.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o700))
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	require.NoError(t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == ".keep" {
			return os.Remove(path)
		}
		return err
	}))
}
