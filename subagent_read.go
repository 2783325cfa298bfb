package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// The tools that an orchestrating agent has under ReadResults. They read what
// the journal and its blobs hold of children that have ended, so that a call
// that is repeated after a crash has the result that it had.

const (
	toolChildResult   = "get_child_result"
	toolChildArtifact = "read_child_artifact"
)

// How many characters a page has where the call does not say, and at most.
const (
	readPage = 4000
	readMost = 20000
)

var readTools = []ToolSource{
	controlTool(toolChildResult, "Read the whole answer of an agent that has ended, page by page. Where nextOffset is given there is more.",
		`{"type":"object","additionalProperties":false,"required":["handle"],"properties":{
		"handle":{"type":"integer","minimum":1},`+pageSchema+`}}`),
	controlTool(toolChildArtifact, "Read an artifact of an agent that has ended, page by page. Its id is in the artifactsIndex of the agent's digest.",
		`{"type":"object","additionalProperties":false,"required":["handle","id"],"properties":{
		"handle":{"type":"integer","minimum":1},"id":{"type":"string"},`+pageSchema+`}}`),
}

const pageSchema = `
		"offset":{"type":"integer","minimum":0,"description":"The first character. Default 0."},
		"limit":{"type":"integer","minimum":1,"maximum":20000,"description":"How many characters at most. Default 4000."}`

// readRequest is the input of both tools.
type readRequest struct {
	Handle int64  `json:"handle"`
	ID     string `json:"id"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

// childPage is what both tools answer. Offsets count characters: Unicode code
// points. A byte of an artifact that is no UTF-8 is one, U+FFFD.
type childPage struct {
	Handle int64       `json:"handle"`
	Status AgentStatus `json:"status"`
	ID     string      `json:"id,omitempty"`     // of an artifact
	Kind   string      `json:"kind,omitempty"`   // of an artifact
	Format string      `json:"format,omitempty"` // of an answer: "text", or "json" for the text of a JSON value
	Text   string      `json:"text"`
	Offset int         `json:"offset"`
	Total  int         `json:"total"`
	Next   *int        `json:"nextOffset,omitempty"` // absent on the last page
	Error  string      `json:"error,omitempty"`      // why the agent did not end well
}

func controlChildResult(j *toolJob, input json.RawMessage) (any, error) {
	req, ch, err := j.a.orch.readSettled(input)
	if err != nil {
		return nil, err
	}
	d, err := j.a.orch.digest(ch)
	if err != nil {
		return nil, err
	}
	page := &childPage{Handle: ch.handle, Status: d.Status, Error: d.Error}
	text, answer := "", json.RawMessage(nil)
	if end := j.a.orch.endOf(ch); end != nil {
		answer = end.Value
	}
	switch {
	case d.Status != AgentOK || answer == nil: // it has none, and the digest says why
	case json.Unmarshal(answer, &text) == nil && answer[0] == '"':
		page.Format = "text"
	default:
		text, page.Format = string(answer), "json"
	}
	return page.turnTo(text, req)
}

func controlChildArtifact(j *toolJob, input json.RawMessage) (any, error) {
	o := j.a.orch
	req, ch, err := o.readSettled(input)
	if err != nil {
		return nil, err
	}
	list, err := readableArtifacts(o.endOf(ch))
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(a readableArtifact) bool { return a.ID == req.ID })
	if at < 0 {
		return nil, refuseControl("unknown-artifact", "the agent %d has left no artifact %q", ch.handle, req.ID)
	}
	a := list[at]
	text, err := a.text(j)
	if err != nil {
		return nil, err
	}
	o.a.seg.mu.Lock()
	page := &childPage{Handle: ch.handle, Status: ch.out.status, ID: a.ID, Kind: a.Kind}
	o.a.seg.mu.Unlock()
	return page.turnTo(text, req)
}

// readSettled reads the input of a call and finds the child that it is about.
func (o *orchestrator) readSettled(input json.RawMessage) (*readRequest, *spawned, error) {
	req := &readRequest{Limit: readPage}
	if err := json.Unmarshal(input, req); err != nil {
		return nil, nil, refuseControl(string(errs.InvalidArguments), "%s", err)
	}
	if req.Offset < 0 || req.Limit < 1 || req.Limit > readMost {
		return nil, nil, refuseControl(string(errs.InvalidArguments), "offset is not negative, and limit between 1 and %d", readMost)
	}
	ch, err := o.find(req.Handle)
	if err != nil {
		return nil, nil, err
	}
	if !o.isSettled(ch) {
		return nil, nil, refuseControl("unsettled", "the agent %d has not ended: wait for it first", ch.handle)
	}
	return req, ch, nil
}

// endOf is the entry with which a settled child has ended, nil where it never
// began.
func (o *orchestrator) endOf(ch *spawned) *Entry {
	s := o.a.seg
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.fold.Entry(ch.out.entryRef)
	if end == nil || end.Ref == nil {
		return nil // entry 0 is no child's
	}
	return end
}

// readableArtifact is an artifact as the journal has it: its content is in a
// blob, or beside its name.
type readableArtifact struct {
	ID   string          `json:"id"`
	Kind string          `json:"kind"`
	Ref  string          `json:"ref"`
	Data json.RawMessage `json:"data"`
}

func readableArtifacts(end *Entry) ([]readableArtifact, error) {
	if end == nil || end.Artifacts == nil {
		return nil, nil
	}
	var list []readableArtifact
	if err := json.Unmarshal(end.Artifacts, &list); err != nil {
		return nil, errs.Wrap(errs.JournalOrder, "replay", fmt.Sprintf("entry %d", end.Seq), "the recorded artifacts have a wrong shape", err)
	}
	return list, nil
}

// text is what an artifact holds.
func (a *readableArtifact) text(j *toolJob) (string, error) {
	switch {
	case a.Data != nil:
		var s string
		if json.Unmarshal(a.Data, &s) == nil && a.Data[0] == '"' {
			return s, nil
		}
		return string(a.Data), nil
	case a.Kind == ArtifactTree || a.Ref == "":
		return "", refuseControl("unreadable-artifact", "the artifact %q is no text: it is a place on the machine that the agent ran on", a.ID)
	}
	blob, err := j.a.seg.e.store.Get(context.WithoutCancel(j.a.ctx), a.Ref)
	if err != nil {
		return "", err
	}
	if blob == nil {
		return "", refuseControl("missing-artifact", "what the artifact %q held is not there any more", a.ID)
	}
	return string(blob), nil
}

// turnTo fills the page with the part of the text that was asked for.
func (p *childPage) turnTo(text string, req *readRequest) (any, error) {
	p.Offset, p.Total = req.Offset, utf8.RuneCountInString(text)
	if p.Offset > p.Total {
		return nil, refuseControl("offset-out-of-range", "the offset %d is behind the end: there are %d characters", p.Offset, p.Total)
	}
	rest := text[runeIndex(text, p.Offset):]
	end := runeIndex(rest, req.Limit)
	p.Text = string([]rune(rest[:end]))
	if end < len(rest) {
		next := p.Offset + req.Limit
		p.Next = &next
	}
	return p, nil
}

// runeIndex is where the character n of s begins, its length where there is
// none.
func runeIndex(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
