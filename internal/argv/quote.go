package argv

import "strings"

// Quote spells a word so that a shell, and a pattern, read it as exactly s.
func Quote(s string) string {
	if s != "" && s != "*" && s != "**" && strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// QuoteAll spells the words of a command, the first of which is its name: an
// assignment and a reserved word are quoted there.
func QuoteAll(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
			b.WriteString(Quote(w))
			continue
		}
		b.WriteString(quoteName(w))
	}
	return b.String()
}

func quoteName(s string) string {
	if q := Quote(s); q != s || !strings.Contains(s, "=") && !isReserved(s) {
		return q
	}
	return "'" + s + "'"
}

// unsafeRune tells whether c means something to a shell, or looks as if it did.
func unsafeRune(c rune) bool {
	return c >= 0x80 || c < ' ' || c == 0x7f || strings.ContainsRune(" \"'\\$`;&|<>()*?[]{}~!#", c)
}

// Suggest returns the narrowest pattern that covers the segment, for a person
// who wants not to be asked again, or "" if there is none: the words as they are,
// quoted where a character could be taken for a wildcard, a quoted expansion as
// *, the redirections and the assignments spelled. A word that may become any
// number of words has no narrow pattern.
func (s *Segment) Suggest() string {
	if s.Problem != "" || len(s.Words) == 0 {
		return ""
	}
	var parts []string
	for i := range s.Assigns {
		a := &s.Assigns[i]
		if a.odd || !a.Value.IsStatic() {
			return ""
		}
		parts = append(parts, a.Name+"="+quoteValue(a.Value.Text))
	}
	for i := range s.Words {
		w := spelling(&s.Words[i])
		if i == 0 && s.Words[0].kind == fixed {
			w = quoteName(s.Words[0].Text)
		}
		if w == "" {
			return ""
		}
		parts = append(parts, w)
	}
	for i := range s.Redirects {
		r := &s.Redirects[i]
		if r.Harmless() {
			continue
		}
		w := spelling(&r.Target)
		if w == "" {
			return ""
		}
		parts = append(parts, r.FD+r.Op, w)
	}
	text := strings.Join(parts, " ")
	if p, err := CompilePattern(text); err != nil || !s.Allows(p, nil) {
		return ""
	}
	return text
}

// spelling returns w as a word of a pattern, or "".
func spelling(w *Word) string {
	switch {
	case !w.IsOne():
		return ""
	case w.kind == one:
		return "*"
	case w.flags&glob != 0:
		// Unquoted, a wildcard inside a word stands for itself in a pattern and
		// covers the same unquoted word.
		if w.Text == "*" || w.Text == "**" || strings.ContainsAny(w.Text, " \t\n\"'\\$`;&|<>()#") {
			return ""
		}
		return w.Text
	}
	return Quote(w.Text)
}

func quoteValue(s string) string {
	if s == "" {
		return ""
	}
	return Quote(s)
}
