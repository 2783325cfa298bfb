package argv

import "strings"

// A plain line is what most commands are: words of harmless characters or with
// one pair of quotes around all of them, the separators ; && || | |& & and
// newline, descriptor duplications and redirections to /dev/null. Every shell
// reads it the same way and nothing in it expands, so it needs neither the
// strict reader nor a syntax tree.
//
//	line    = command { separator command } [";" | "&" | newline]
//	command = word { word | duplication }
//	word    = bare... | "'" any... "'" | '"' any but $ ` \ ! '"'
//
// plainLine holds the words of all commands in one slice, so that a caller who
// reuses it reads a line without allocating.
type plainLine struct {
	words []Word
	ends  []int  // index in words at which each command ends
	cuts  []int  // index in the line of the separator behind each command
	line  string // the line that was read
}

// Bytes by what they do in a plain line.
const (
	spoils  uint8 = iota // not plain: expansion, escape, comment, group, ...
	bare                 // may stand in an unquoted word
	blank                // space or tab
	breaks               // separator
	angle                // redirection
	quotes               // ' or "
	assigns              // =, bare except in the word a command begins with
)

var plainClass = func() (t [256]uint8) {
	for c := range 256 {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("_-./:,@%+", byte(c)) >= 0 {
			t[c] = bare
		}
	}
	t[' '], t['\t'] = blank, blank
	t[';'], t['&'], t['|'], t['\n'] = breaks, breaks, breaks, breaks
	t['<'], t['>'] = angle, angle
	t['\''], t['"'] = quotes, quotes
	t['='] = assigns
	return t
}()

// read fills l from line and tells whether the line is plain. What l holds
// afterwards is meaningless if it is not.
func (l *plainLine) read(line string) bool {
	l.words, l.ends, l.cuts, l.line = l.words[:0], l.ends[:0], l.cuts[:0], line
	start := 0 // first word of the command being read
	for i := 0; i < len(line); {
		switch plainClass[line[i]] {
		case blank:
			i++
		case bare, assigns:
			j, ok := bareWord(line, i, len(l.words) == start)
			if !ok {
				return false
			}
			if j < len(line) && plainClass[line[j]] == angle {
				if j = duplication(line, i, j); j < 0 || len(l.words) == start {
					return false
				}
			} else {
				l.words = append(l.words, Word{Text: line[i:j]})
			}
			i = j
		case quotes:
			j := quotedWord(line, i)
			if j < 0 {
				return false
			}
			l.words = append(l.words, Word{Text: line[i+1 : j-1], flags: quoted})
			i = j
		case angle:
			if i = duplication(line, i, i); i < 0 || len(l.words) == start {
				return false
			}
		case breaks:
			j := separator(line, i)
			if len(l.words) == start {
				// Only an empty line may stand where a command should.
				if line[i] != '\n' {
					return false
				}
			} else {
				l.ends, l.cuts = append(l.ends, len(l.words)), append(l.cuts, i)
				start = len(l.words)
			}
			if opens(line[i:j]) && !continues(line[j:]) {
				return false
			}
			i = j
		default:
			return false
		}
	}
	if len(l.words) > start {
		l.ends, l.cuts = append(l.ends, len(l.words)), append(l.cuts, len(line))
	}
	return len(l.ends) > 0
}

// bareWord returns where the unquoted word at i ends; it is not ok if the word
// is no plain one.
func bareWord(line string, i int, first bool) (int, bool) {
	j := i
	for j < len(line) {
		c := plainClass[line[j]]
		if c != bare && (c != assigns || first) {
			break
		}
		j++
	}
	if j < len(line) {
		switch plainClass[line[j]] {
		case spoils, quotes, assigns:
			return j, false
		}
	}
	return j, !first || !isReserved(line[i:j])
}

// quotedWord returns the index after the quoted word at i, or -1.
func quotedWord(line string, i int) int {
	q := line[i]
	n := strings.IndexByte(line[i+1:], q)
	if n < 0 {
		return -1
	}
	body := line[i+1 : i+1+n]
	if !plainQuoted(body, q) {
		return -1
	}
	j := i + n + 2
	if j < len(line) {
		if c := plainClass[line[j]]; c != blank && c != breaks {
			return -1
		}
	}
	return j
}

// plainQuoted tells whether nothing in a quoted text means anything to a shell,
// or would to a builtin that evaluates its arguments.
func plainQuoted(body string, q byte) bool {
	for k := 0; k < len(body); k++ {
		switch c := body[k]; {
		case c == '`' || c == '$' && (q == '"' || k+1 < len(body) && body[k+1] == '('):
			return false
		case q == '"' && (c == '\\' || c == '!'):
			return false
		case c < ' ' && c != '\t' && c != '\n' || c >= 0x7f:
			return false
		}
	}
	return true
}

// separator returns the index after the separator at i.
func separator(line string, i int) int {
	c := line[i]
	if i+1 < len(line) {
		switch n := line[i+1]; {
		case (c == '&' || c == '|') && n == c, c == '|' && n == '&':
			return i + 2
		}
	}
	return i + 1
}

// opens tells whether a separator needs a command behind it.
func opens(sep string) bool { return len(sep) == 2 || sep == "|" }

// continues tells whether text begins with a command, after blank lines.
func continues(text string) bool {
	i := 0
	for i < len(text) && (plainClass[text[i]] == blank || text[i] == '\n') {
		i++
	}
	return i < len(text) && plainClass[text[i]] != breaks
}

// duplication returns the index after a redirection that names no file, of
// which the digits begin at i and the operator at j, or -1 if it is any other.
func duplication(line string, i, j int) int {
	if i < j && (j-i > 1 || line[i] < '0' || line[i] > '9') {
		return -1 // not all shells know descriptors of two digits
	}
	k := j + 1
	if k < len(line) && line[k] == '&' { // >&1 2>&-
		from := k + 1
		for k = from; k < len(line) && line[k] >= '0' && line[k] <= '9'; k++ {
		}
		if k == from && k < len(line) && line[k] == '-' {
			k++
		}
		if k == from {
			return -1
		}
		return wordEnd(line, k)
	}
	for k < len(line) && plainClass[line[k]] == blank {
		k++
	}
	const null = "/dev/null"
	if !strings.HasPrefix(line[k:], null) {
		return -1
	}
	return wordEnd(line, k+len(null))
}

// wordEnd returns k if a word ends there, else -1.
func wordEnd(line string, k int) int {
	if k < len(line) {
		if c := plainClass[line[k]]; c != blank && c != breaks {
			return -1
		}
	}
	return k
}

// isReserved tells whether an unquoted word in the place of a command is part
// of the grammar in some shell.
func isReserved(w string) bool {
	switch w {
	case "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
		"if", "in", "select", "then", "time", "until", "while", "foreach", "repeat":
		return true
	}
	return false
}
