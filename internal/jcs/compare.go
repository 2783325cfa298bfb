package jcs

// Compare orders two texts by their UTF-16 code units, as RFC 8785 orders the
// members of an object. It returns -1, 0 or +1.
func Compare(a, b string) int { return compareUTF16(a, b) }
