package worktree

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"time"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// An index as our git writes it, version 2 without flags:
//
//	DIRC, version, number of entries                 12 bytes
//	entry: 10 numbers, hash, flags with the length   62 bytes
//	       of the name, the name, 1 to 8 zeros
//	an extension TREE, or none
//	SHA-1 of all that                                20 bytes
//
// It is read three times in a turn of an agent, so this form has a reader of
// its own, in one pass over the bytes. Whatever is not just so is left to
// go-git, to read or to refuse.
const (
	indexHead  = 12
	indexEntry = 62
	longName   = 0xfff // and longer ones have another form
)

// readPlainIndex reads an index of that form; nil is any other.
func readPlainIndex(text []byte) *index.Index {
	if len(text) < indexHead+sha1.Size || string(text[:4]) != "DIRC" || binary.BigEndian.Uint32(text[4:]) != 2 {
		return nil
	}
	body, sum := text[:len(text)-sha1.Size], text[len(text)-sha1.Size:]
	if have := sha1.Sum(body); !bytes.Equal(have[:], sum) {
		return nil
	}
	n := uint64(binary.BigEndian.Uint32(body[8:]))
	body = body[indexHead:]
	if n > uint64(len(body)/indexEntry) {
		return nil
	}
	list := make([]index.Entry, n)
	idx := &index.Index{Version: 2, Entries: make([]*index.Entry, n)}
	for i := range list {
		if body = readPlainEntry(body, &list[i]); body == nil {
			return nil
		}
		idx.Entries[i] = &list[i]
	}
	if len(body) > 0 && (len(body) < 8 || string(body[:4]) != "TREE" || uint64(binary.BigEndian.Uint32(body[4:])) != uint64(len(body)-8)) {
		return nil
	}
	return idx
}

// readPlainEntry reads one entry and returns what follows it, nil where it is
// none of that form.
func readPlainEntry(b []byte, e *index.Entry) []byte {
	if len(b) < indexEntry {
		return nil
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	flags := binary.BigEndian.Uint16(b[indexEntry-2:])
	size := int(flags & longName)
	end := (indexEntry + size + 8) &^ 7 // of the zeros, of which there is one at least
	if flags&^longName != 0 || size == 0 || size == longName || len(b) < end {
		return nil
	}
	name := b[indexEntry : indexEntry+size]
	if bytes.IndexByte(name, 0) >= 0 || len(bytes.Trim(b[indexEntry+size:end], "\x00")) > 0 {
		return nil
	}
	e.CreatedAt, e.ModifiedAt = indexTime(word(0), word(1)), indexTime(word(2), word(3))
	e.Dev, e.Inode, e.Mode = word(4), word(5), filemode.FileMode(word(6))
	e.UID, e.GID, e.Size = word(7), word(8), word(9)
	copy(e.Hash[:], b[40:])
	e.Name = string(name)
	return b[end:]
}

func indexTime(sec, nsec uint32) time.Time {
	if sec == 0 && nsec == 0 {
		return time.Time{}
	}
	return time.Unix(int64(sec), int64(nsec))
}
