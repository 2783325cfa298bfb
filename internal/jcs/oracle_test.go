package jcs_test

import (
	"bytes"
	"encoding/json"
	"math/big"
)

// hasDuplicate reports, by the standard library's tokens, whether some object
// of the valid JSON text src has two members with one name.
func hasDuplicate(src []byte) bool {
	type container struct {
		names map[string]bool // nil for an array
		value bool            // a value comes next, not a name
	}
	var open []container
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		top := len(open) - 1
		if name, ok := token.(string); ok && top >= 0 && open[top].names != nil && !open[top].value {
			if open[top].names[name] {
				return true
			}
			open[top].names[name], open[top].value = true, true
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, container{names: map[string]bool{}})
			continue
		case json.Delim('['):
			open = append(open, container{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
			top--
		}
		if top >= 0 {
			open[top].value = false
		}
	}
}

// rational returns the exact value of a JSON number.
func rational(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("not a number: " + text)
	}
	return r
}
