package jcs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"

	gowebpki "github.com/gowebpki/jcs"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// seed gives a fuzz target the recorded texts.
func seed(f *testing.F) {
	for _, text := range recordedTexts(f) {
		if len(text) < 400 {
			f.Add([]byte(text))
		}
	}
}

// FuzzAppend: the canonical form is a fixed point, is what the tree gives, is
// the same value to the standard library, and agrees with an independent
// implementation of RFC 8785 where both take the text.
func FuzzAppend(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		got, err := jcs.Append(nil, text)
		if !bytes.Equal(before, text) {
			t.Fatal("the text was written to")
		}
		tree, treeErr := jcs.Parse(text)
		if (err == nil) != (treeErr == nil) {
			t.Fatalf("Append says %v, Parse says %v", err, treeErr)
		}
		if checkErr := jcs.Check(text); !reflect.DeepEqual(checkErr, treeErr) {
			t.Fatalf("Check says %v, Parse says %v", checkErr, treeErr)
		}
		if err != nil {
			checkRefusal(t, text, err)
			return
		}
		again, err := jcs.Append(nil, got)
		if err != nil || !bytes.Equal(got, again) {
			t.Fatalf("%q is no fixed point: %q, %v", got, again, err)
		}
		fromTree, err := jcs.AppendTree(nil, tree)
		if err != nil || !bytes.Equal(got, fromTree) {
			t.Fatalf("text gives %q, tree %q, %v", got, fromTree, err)
		}
		checkStandard(t, text, tree)
		if want, err := gowebpki.Transform(text); err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%q: got %q, gowebpki %q", text, got, want)
		}
	})
}

// checkRefusal holds an error to its type and its offset to the text, and
// texts that the standard library takes to the reasons it does not know.
func checkRefusal(t *testing.T, text []byte, err error) {
	var e *jcs.SyntaxError
	if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(text) || e.Msg == "" || !errors.Is(err, e.Kind) {
		t.Fatalf("%q: %#v", text, err)
	}
	if e.Kind == jcs.ErrSyntax && json.Valid(text) {
		t.Fatalf("%q is JSON, but: %v", text, err)
	}
}

// checkStandard compares a tree with the one of encoding/json.
func checkStandard(t *testing.T, text []byte, tree any) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var want any
	if err := dec.Decode(&want); err != nil {
		t.Fatalf("%q is taken, but encoding/json says %v", text, err)
	}
	if !reflect.DeepEqual(tree, want) {
		t.Fatalf("%q: got %#v, encoding/json %#v", text, tree, want)
	}
}

// FuzzParseStrict: what the strict reader takes has one meaning. It is the
// value that Parse reads, no name comes twice, and its canonical form is taken
// again.
func FuzzParseStrict(f *testing.F) {
	seed(f)
	for _, row := range bothRefuse {
		f.Add([]byte(row.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		strict, err := jcs.ParseStrict(text)
		lenient, lenientErr := jcs.Parse(text)
		if err != nil {
			checkRefusal(t, text, err)
			if lenientErr == nil && !errors.Is(err, jcs.ErrDuplicate) && !errors.Is(err, jcs.ErrInexact) && !errors.Is(err, jcs.ErrNonFinite) {
				t.Fatalf("%q: only the strict reader says %v", text, err)
			}
			return
		}
		if lenientErr != nil || !reflect.DeepEqual(strict, lenient) {
			t.Fatalf("%q: strict %#v, lenient %#v, %v", text, strict, lenient, lenientErr)
		}
		if hasDuplicate(text) {
			t.Fatalf("%q: a name comes twice", text)
		}
		canonical, err := jcs.Canonical(text)
		if err != nil {
			t.Fatal(err)
		}
		fromTree, err := jcs.AppendTree(nil, strict)
		if err != nil || !bytes.Equal(canonical, fromTree) {
			t.Fatalf("text gives %q, tree %q, %v", canonical, fromTree, err)
		}
		if _, err := jcs.ParseStrict(canonical); err != nil {
			t.Fatalf("%q was taken, its canonical form %q is not: %v", text, canonical, err)
		}
	})
}

// FuzzString: a string in a tree is written as encoding/json would read it
// back, and refused exactly where it is not UTF-8.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a\"\\/\b\f\n\r\t\x00\x7f", "é\u2028😀", "\xff", "1234567\xed\xa0\x80", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := jcs.AppendTree(nil, s)
		literal := jcs.AppendString(nil, s)
		if valid := utf8.ValidString(s); valid != (err == nil) {
			t.Fatalf("%q: %v", s, err)
		} else if valid && !bytes.Equal(got, literal) {
			t.Fatalf("%q: %q in a tree, else %q", s, got, literal)
		}
		var back string
		if err := json.Unmarshal(literal, &back); err != nil || back != string([]rune(s)) {
			t.Fatalf("%q is written %q and read %q, %v", s, literal, back, err)
		}
		if again, err := jcs.Canonical(literal); err != nil || !bytes.Equal(again, literal) {
			t.Fatalf("%q becomes %q, %v", literal, again, err)
		}
	})
}

// FuzzRepair: a candidate is an object's text of bounded length in which
// nothing is left to repair, made of the text's own bytes and escapes.
func FuzzRepair(f *testing.F) {
	for _, s := range []string{
		"```json\n{\"a\":1}\n```", "```{.json}\n{\"a\":{}}", "x {\"a\":\"\n\\\n\"} y", "[{}]", `"{}"`, "{\"a\":\"}", "{}{}", "```json {\n}```",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := jcs.Repair(text)
		if !ok {
			if got != "" {
				t.Fatalf("%q: not ok, yet %q", text, got)
			}
			return
		}
		if len(got) < 2 || got[0] != '{' || got[len(got)-1] != '}' || len(got) > 6*len(text) {
			t.Fatalf("%q: %q", text, got)
		}
		if again, ok := jcs.Repair(got); ok {
			t.Fatalf("%q is repaired to %q and again to %q", text, got, again)
		}
		if _, err := jcs.ParseStrict([]byte(text)); err == nil {
			t.Fatalf("%q needs no repair, yet becomes %q", text, got)
		}
	})
}
