package rulvar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/llm"
)

// A checkpoint is the state of an agent at a turn boundary, or in the middle
// of a turn whose calls are pending. It is a blob:
//
//	0x01                      format
//	{"v":1,                   UTF-8 JSON
//	 "messages":[…], "turns":n, "usage":{…}, "usageByModel":[…],
//	 "toolCallsUsed":n, "schemaAttempts":n, "compaction":[…],
//	 "pending":{"executed":[{"id","name","result","isError"?}],
//	            "awaiting":{"id","name","args"},
//	            "remaining":[{"id","name","args"}]}}
//
// under the name <runId>/ckpt/<seq of the agent's running entry>. Lists are
// written [] when empty, never null: other readers discard a null. Members
// this library adds: pending.dispatched, the call whose execution was about to
// start when the checkpoint was written, elapsedMs, how long the agent has
// worked, callIds, the calls of what a summary has taken the place of,
// modelRetries, how many [ModelRetry] answers in a row each tool has given, and
// tree, what the worktree of a parked agent held.

const checkpointFormat = 0x01

type checkpoint struct {
	V              int             `json:"v"`
	Messages       []llm.Message   `json:"messages"`
	Turns          int             `json:"turns"`
	Usage          llm.Usage       `json:"usage"`
	UsageByModel   []modelUsage    `json:"usageByModel"`
	ToolCallsUsed  int             `json:"toolCallsUsed"`
	SchemaAttempts int             `json:"schemaAttempts"`
	Compaction     []int           `json:"compaction"`
	ProviderCalls  json.RawMessage `json:"providerCalls,omitempty"`
	Pending        *pendingTurn    `json:"pending,omitempty"`
	ElapsedMs      int64           `json:"elapsedMs,omitempty"`
	CallIDs        []string        `json:"callIds,omitempty"`
	ModelRetries   map[string]int  `json:"modelRetries,omitempty"`
	Tree           *checkpointTree `json:"tree,omitempty"`
}

// modelUsage is what one model used in one role.
type modelUsage struct {
	ServedBy string    `json:"servedBy"`
	Usage    llm.Usage `json:"usage"`
	Role     string    `json:"role,omitempty"`
}

// pendingTurn is a turn whose calls are not all answered.
type pendingTurn struct {
	Executed   []executedCall `json:"executed"`
	Awaiting   pendingCall    `json:"awaiting"`
	Remaining  []pendingCall  `json:"remaining"`
	Dispatched string         `json:"dispatched,omitempty"`
}

type executedCall struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Result  json.RawMessage `json:"result"`
	IsError bool            `json:"isError,omitempty"`
}

type pendingCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

func checkpointRef(runID string, agentSeq int64) string {
	return fmt.Sprintf("%s/ckpt/%d", runID, agentSeq)
}

func encodeCheckpoint(c *checkpoint) ([]byte, error) {
	out := *c
	out.V = 1
	if out.Messages == nil {
		out.Messages = []llm.Message{}
	}
	if out.UsageByModel == nil {
		out.UsageByModel = []modelUsage{}
	}
	if out.Compaction == nil {
		out.Compaction = []int{}
	}
	if out.Pending != nil {
		p := *out.Pending
		if p.Executed == nil {
			p.Executed = []executedCall{}
		}
		if p.Remaining == nil {
			p.Remaining = []pendingCall{}
		}
		out.Pending = &p
	}
	var b bytes.Buffer
	b.WriteByte(checkpointFormat)
	if err := encodeJSON(&b, out); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// decodeCheckpoint reads a checkpoint of any writer. Anything that is not one
// is an [ErrJournalIntegrity] that names the blob, in Data under "blob", and
// where its text breaks off the byte, under "offset".
func decodeCheckpoint(ref string, blob []byte) (*checkpoint, error) {
	bad := func(msg string, err error) (*checkpoint, error) {
		e := errs.Wrap(errs.JournalIntegrity, "checkpoint", ref, msg, err)
		e.Data = map[string]any{"blob": ref}
		if at := textOffset(err); at >= 0 {
			e.Data["offset"] = 1 + at // behind the format byte
		}
		return nil, e
	}
	if len(blob) < 2 || blob[0] != checkpointFormat {
		return bad("the blob does not start with format byte 1", nil)
	}
	if _, err := jcs.Parse(blob[1:]); err != nil {
		return bad("the blob is not JSON", err)
	}
	var c checkpoint
	if err := json.Unmarshal(blob[1:], &c); err != nil {
		return bad("the blob has a wrong shape", err)
	}
	if c.V != 1 {
		return bad(fmt.Sprintf("version %d is not known", c.V), nil)
	}
	if c.Messages == nil || c.Turns < 0 || c.ToolCallsUsed < 0 || c.SchemaAttempts < 0 || c.ElapsedMs < 0 || !validUsage(c.Usage) {
		return bad("a counter is negative or the messages are missing", nil)
	}
	for tool, n := range c.ModelRetries {
		if n < 0 {
			return bad(fmt.Sprintf("the retries of %q are negative", tool), nil)
		}
	}
	open, err := checkMessages(c.Messages)
	if err != nil {
		return bad("the conversation is broken", err)
	}
	if err := c.checkPending(open); err != nil {
		return bad("the pending calls do not fit the conversation", err)
	}
	return &c, nil
}

// textOffset is where a JSON text is not what it should be, or -1.
func textOffset(err error) int64 {
	if e, ok := errors.AsType[*jcs.SyntaxError](err); ok {
		return int64(e.Offset)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return e.Offset
	}
	return -1
}

// checkPending holds the pending calls to the open calls of the last turn:
// executed, awaiting and remaining are those calls in order.
func (c *checkpoint) checkPending(open []llm.Part) error {
	if c.Pending == nil {
		if len(open) > 0 {
			return fmt.Errorf("%d calls have no result and are not pending", len(open))
		}
		return nil
	}
	ids := make([]string, 0, len(open))
	for _, e := range c.Pending.Executed {
		if !json.Valid(e.Result) {
			return fmt.Errorf("call %q has no result", e.ID)
		}
		ids = append(ids, e.ID)
	}
	ids = append(ids, c.Pending.Awaiting.ID)
	for _, r := range c.Pending.Remaining {
		ids = append(ids, r.ID)
	}
	if len(ids) != len(open) {
		return fmt.Errorf("%d calls are pending, %d are open", len(ids), len(open))
	}
	for i, id := range ids {
		if id != open[i].ID {
			return fmt.Errorf("call %q is pending where %q is open", id, open[i].ID)
		}
	}
	// Only the ids are taken from the pending list: name and arguments come
	// from the conversation, so that the two cannot disagree.
	k := len(c.Pending.Executed)
	c.Pending.Awaiting = pendingCall{ID: open[k].ID, Name: open[k].Name, Args: open[k].Args}
	for i := range c.Pending.Remaining {
		o := open[k+1+i]
		c.Pending.Remaining[i] = pendingCall{ID: o.ID, Name: o.Name, Args: o.Args}
	}
	return nil
}

func validUsage(u llm.Usage) bool {
	return u.InputTokens >= 0 && u.OutputTokens >= 0 && u.CacheReadTokens >= 0 && u.CacheWriteTokens >= 0 && u.ReasoningTokens >= 0
}

// encodeJSON writes v without HTML escaping and without a final newline.
func encodeJSON(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1)
	return nil
}

func marshalJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := encodeJSON(&b, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
