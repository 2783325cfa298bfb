package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	maxName    = 64
	suffixSize = 8 // hex digits
	// maxWireName bounds what a server may call a tool; a name is repeated in
	// errors and maps.
	maxWireName = 1024
)

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// toolName returns the name under which a model sees a tool.
func toolName(prefix, wire string, mode NameMode) (string, error) {
	switch {
	case wire == "":
		return "", fmt.Errorf("it has no name")
	case len(wire) > maxWireName:
		return "", fmt.Errorf("its name has %d bytes, more than %d", len(wire), maxWireName)
	case !utf8.ValidString(wire):
		return "", fmt.Errorf("its name is not UTF-8")
	}
	full := wire
	if prefix != "" {
		full = prefix + "_" + wire
	}
	if namePattern.MatchString(full) {
		return full, nil
	}
	if mode != NamesShorten {
		return "", fmt.Errorf("%q is no tool name (1 to 64 characters of a-z, A-Z, 0-9, _ and -): set Options.Names to shorten, or leave the tool out", full)
	}
	return shorten(full), nil
}

// shorten makes a legal name. The sum at its end is that of the whole name, so
// that names which differ only in what is cut or replaced stay apart.
func shorten(full string) string {
	clean := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && namePattern.MatchString(string(r)) {
			return r
		}
		return '_'
	}, full)
	sum := sha256.Sum256([]byte(full))
	return clean[:min(len(clean), maxName-suffixSize-1)] + "_" + hex.EncodeToString(sum[:])[:suffixSize]
}
