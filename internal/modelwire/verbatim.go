package modelwire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/oklog/ulid/v2"
)

// Verbatim brings blocks into a request byte for byte. The SDKs write JSON
// their own way, so a block's place is held by a stand-in until they have
// written the rest. The zero value is ready; it serves one request.
type Verbatim struct {
	nonce  string // no text of the conversation holds it
	blocks []json.RawMessage
}

// Hold returns the stand-in of a block, which must be JSON.
func (v *Verbatim) Hold(block json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(block) {
		return nil, Unsendable("a private block is no JSON")
	}
	if v.nonce == "" {
		v.nonce = ulid.Make().String()
	}
	v.blocks = append(v.blocks, block)
	return v.standIn(len(v.blocks) - 1), nil
}

func (v *Verbatim) standIn(i int) json.RawMessage {
	return fmt.Appendf(nil, `{"private":"%s-%d"}`, v.nonce, i)
}

// Fill puts the blocks in. A block that has no place is a fault of the adapter.
func (v *Verbatim) Fill(body []byte) ([]byte, error) {
	for i, b := range v.blocks {
		at := v.standIn(i)
		before, after, ok := bytes.Cut(body, at)
		if !ok {
			return nil, Unsendable("a private block is lost")
		}
		body = bytes.Join([][]byte{before, b, after}, nil)
	}
	return body, nil
}

// Body writes a request with its private blocks.
func (v *Verbatim) Body(params json.Marshaler) ([]byte, error) {
	body, err := params.MarshalJSON()
	if err != nil {
		return nil, Unsendable("%v", err)
	}
	return v.Fill(body)
}
