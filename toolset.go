package rulvar

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// ToolSource provides tools: a [*Tool] provides itself, [Toolset] names a
// registration of the engine, an MCP client lists a server's. An agent asks
// its sources once, when it is spawned, and keeps what they answered for its
// life.
type ToolSource interface {
	Tools(ctx context.Context) ([]*Tool, error)
}

// Toolset is the name of a toolset registered in [Config.Toolsets].
type Toolset string

// Tools refuses: a name means something only to the engine that registered it.
func (s Toolset) Tools(context.Context) ([]*Tool, error) {
	return nil, errs.New(errs.Config, "toolset", fmt.Sprintf("toolset %q", string(s)), "a toolset name can be used only where an engine resolves it")
}

// The contract of a tool is the canonical JSON of
//
//	{"description":…,"name":…,"parameters":…,"version":…}
//
// with version left out where there is none. The hash of a toolset is the
// sha256 of the JSON array of its contracts, sorted by name.
func appendContract(dst []byte, name, description string, parameters []byte, version string, hasVersion bool) ([]byte, error) {
	for _, s := range []string{name, description, version} {
		if strings.ToValidUTF8(s, "") != s {
			return nil, fmt.Errorf("the text %q is not valid UTF-8", s)
		}
	}
	dst = append(dst, `{"description":`...)
	dst = jcs.AppendString(dst, description)
	dst = append(dst, `,"name":`...)
	dst = jcs.AppendString(dst, name)
	dst = append(dst, `,"parameters":`...)
	dst = append(dst, parameters...)
	if hasVersion {
		dst = append(dst, `,"version":`...)
		dst = jcs.AppendString(dst, version)
	}
	return append(dst, '}'), nil
}

// ToolsetHash returns the sha256, in hex, of the contracts of tools. The order
// of tools does not matter. It enters the identity of every agent.
func ToolsetHash(tools []*Tool) string {
	h := sha256.New()
	var sorted [32]*Tool
	h.Write([]byte{'['})
	for i, t := range sortTools(append(sorted[:0], tools...)) {
		if i > 0 {
			h.Write([]byte{','})
		}
		h.Write(t.contract)
	}
	h.Write([]byte{']'})
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0]))
}

func sortTools(tools []*Tool) []*Tool {
	slices.SortStableFunc(tools, func(a, b *Tool) int { return jcs.Compare(a.cfg.Name, b.cfg.Name) })
	return tools
}

// resolveToolset asks the sources for their tools, refuses duplicate names and
// returns the snapshot in source order.
func resolveToolset(ctx context.Context, sources []ToolSource, named map[string][]ToolSource) ([]*Tool, error) {
	var tools []*Tool
	for i, src := range sources {
		switch s := src.(type) {
		case nil:
			return nil, errs.New(errs.Config, "spawn", fmt.Sprintf("tools[%d]", i), "the tool source is nil")
		case *Tool:
			if s == nil {
				return nil, errs.New(errs.Config, "spawn", fmt.Sprintf("tools[%d]", i), "the tool is nil")
			}
			tools = append(tools, s)
		case Toolset:
			members, ok := named[string(s)]
			if !ok {
				return nil, errs.New(errs.Config, "spawn", fmt.Sprintf("tools[%d]", i),
					fmt.Sprintf("there is no toolset %q: registered are %s", string(s), listNames(named)))
			}
			more, err := resolveToolset(ctx, members, nil)
			if err != nil {
				return nil, err
			}
			tools = append(tools, more...)
		default:
			more, err := src.Tools(ctx)
			if err != nil {
				return nil, errs.Wrap(errs.Config, "spawn", fmt.Sprintf("tools[%d]", i), "the tool source failed", err)
			}
			tools = append(tools, more...)
		}
	}
	seen := make(map[string]bool, len(tools))
	for i, t := range tools {
		if t == nil || t.contract == nil {
			return nil, errs.New(errs.Config, "spawn", fmt.Sprintf("tools[%d]", i), "the tool was not made by NewTool")
		}
		if seen[t.cfg.Name] {
			return nil, errs.New(errs.Config, "spawn", toolPath(t.cfg.Name), "two tools of the toolset have this name")
		}
		seen[t.cfg.Name] = true
	}
	return tools, nil
}

func listNames[V any](m map[string]V) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
