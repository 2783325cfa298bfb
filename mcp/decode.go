package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// decodeLine returns the messages of a line; none if it is something else, such
// as what a program prints. A line that was meant as a message and cannot be
// read is an error: somebody may wait for it.
func decodeLine(line []byte) ([]jsonrpc.Message, error) {
	line = validText(line)
	if len(line) == 0 || line[0] != '[' {
		msg, err := decodeMessage(line)
		if err != nil {
			return nil, unreadable(line, err)
		}
		return []jsonrpc.Message{msg}, nil
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(line, &raws); err != nil {
		return nil, unreadable(line, err)
	}
	var batch []jsonrpc.Message
	for _, raw := range raws {
		msg, err := decodeMessage(raw)
		if err != nil {
			return nil, unreadable(raw, err)
		}
		batch = append(batch, msg)
	}
	return batch, nil
}

func unreadable(line []byte, err error) error {
	if !bytes.Contains(line, []byte(`"jsonrpc"`)) {
		return nil
	}
	return fmt.Errorf("the server sends a message that cannot be read: %s", clip(foreignText(err.Error())))
}

// decodeMessage reads a message of JSON-RPC 2.0. Names count exactly as they
// are written, as in the SDK's own reader, which takes 32 KiB for each.
func decodeMessage(text []byte) (jsonrpc.Message, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	if string(m["jsonrpc"]) != `"2.0"` {
		return nil, errors.New("it is not of JSON-RPC 2.0")
	}
	var number any
	if raw, ok := m["id"]; ok {
		if err := json.Unmarshal(raw, &number); err != nil {
			return nil, err
		}
	}
	id, err := jsonrpc.MakeID(number)
	if err != nil {
		return nil, err
	}
	if raw, ok := m["method"]; ok {
		req := &jsonrpc.Request{ID: id, Params: m["params"]}
		return req, json.Unmarshal(raw, &req.Method)
	}
	if !id.IsValid() {
		return nil, errors.New("it is an answer to nothing")
	}
	resp := &jsonrpc.Response{ID: id, Result: m["result"]}
	if raw, ok := m["error"]; ok && string(raw) != "null" {
		refusal := &jsonrpc.Error{}
		if err := json.Unmarshal(raw, refusal); err != nil {
			return nil, err
		}
		resp.Error = refusal
	}
	return resp, nil
}
