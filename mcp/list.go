package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	rulvar "github.com/rulvar/rulvar-go"
)

// Listing is what the server's list of tools has become.
type Listing struct {
	// Server and ServerVersion are what the server calls itself, Protocol the
	// version that is spoken.
	Server, ServerVersion, Protocol string
	// Imported are the tools, in the server's order.
	Imported []ImportedTool
	// Skipped are the tools that could not be imported, under Options.Lenient.
	Skipped []SkippedTool
	// Unmatched are names in Options that the server has no tool for.
	Unmatched []string
}

// ImportedTool is a tool that an agent gets.
type ImportedTool struct {
	// Wire is the server's name, Name the one that models and rules see.
	Wire, Name string
}

// SkippedTool is a tool that was left out.
type SkippedTool struct {
	// Wire is the server's name, as far as it could be read.
	Wire string
	// Err says why.
	Err error
}

func (l *Listing) clone() Listing {
	c := *l
	c.Imported, c.Skipped, c.Unmatched = slices.Clone(l.Imported), slices.Clone(l.Skipped), slices.Clone(l.Unmatched)
	return c
}

// listing is a list that was read.
type listing struct {
	sess   *session // that it was read from
	tools  []*rulvar.Tool
	report Listing
}

// fetch lists the tools of the live server.
func (s *Source) fetch() (*listing, error) {
	sess, err := s.session(s.ctx)
	if err != nil {
		return nil, s.fault("the server could not be reached", err)
	}
	raw, err := s.pages(sess)
	if err != nil {
		return nil, s.fault("the tools could not be listed", err)
	}
	l, err := s.build(raw)
	if err != nil {
		return nil, err
	}
	l.sess = sess
	if r := sess.cs.InitializeResult(); r != nil {
		l.report.Protocol = r.ProtocolVersion
		if r.ServerInfo != nil {
			l.report.Server, l.report.ServerVersion = foreignText(r.ServerInfo.Name), foreignText(r.ServerInfo.Version)
		}
	}
	return l, nil
}

// pages reads the whole list. It ends at a page without a cursor; a cursor that
// was there before, too many pages, tools or bytes, and time end it with an
// error.
func (s *Source) pages(sess *session) ([]json.RawMessage, error) {
	o := &s.opts
	cause := &timeoutError{"reading all pages of the list", o.Timeouts.Discovery.String()}
	ctx, cancel := context.WithTimeoutCause(s.ctx, o.Timeouts.Discovery, cause)
	defer cancel()
	var tools []json.RawMessage
	sess.pages.limit(o.MaxMessageBytes)
	size, cursor, visited := 0, "", map[string]bool{"": true}
	for page := 1; ; page++ {
		text, err := sess.listPage(ctx, cursor, o.Timeouts.List)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", page, err)
		}
		if size += len(text); size > o.MaxMessageBytes {
			return nil, fmt.Errorf("the list has more than %d bytes (Options.MaxMessageBytes)", o.MaxMessageBytes)
		}
		more, next, err := readPage(text)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", page, err)
		}
		tools = append(tools, more...)
		switch {
		case len(tools) > o.MaxTools:
			return nil, fmt.Errorf("the server lists more than %d tools (Options.MaxTools)", o.MaxTools)
		case next == "":
			return tools, nil
		case next == cursor:
			return nil, fmt.Errorf("page %d repeats its own cursor %q", page, clip(next))
		case visited[next]:
			return nil, fmt.Errorf("page %d returns to the cursor %q", page, clip(next))
		case page >= o.MaxPages:
			return nil, fmt.Errorf("the list has more than %d pages (Options.MaxPages)", o.MaxPages)
		}
		visited[next] = true
		cursor = next
	}
}

func clip(text string) string { return text[:min(len(text), 80)] }

// readPage reads a result of tools/list:
//
//	{"tools":[{"name":…,"description":…,"inputSchema":{…},"outputSchema":{…}},…],"nextCursor":…}
func readPage(text json.RawMessage) (tools []json.RawMessage, next string, err error) {
	m, err := members(text)
	if err != nil {
		return nil, "", err
	}
	if json.Unmarshal(m["tools"], &tools) != nil || tools == nil {
		return nil, "", errors.New("the answer holds no list of tools")
	}
	if c, ok := m["nextCursor"]; ok && json.Unmarshal(c, &next) != nil {
		return nil, "", errors.New("the answer's cursor is no text")
	}
	return tools, next, nil
}

// members reads the members of an object, by their exact names; of two with one
// name the last counts.
func members(text json.RawMessage) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(validText(text), &m); err != nil || m == nil {
		return nil, errors.New("it is not a JSON object")
	}
	return m, nil
}
