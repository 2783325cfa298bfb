package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// Program is what a tool runs. As JSON, {"command":"…","args":["…"]}, it is the
// ExecutorSpec of the tool.
type Program struct {
	// Command is an absolute path, or a name without a slash that is looked up
	// in the PATH of the program's own environment; in a container, whatever
	// the image understands.
	Command string `json:"command"`
	// Args are its arguments. What the model says comes on standard input and
	// never in here.
	Args []string `json:"args,omitempty"`
	// InTree starts the program in the agent's own tree, which it may change,
	// in place of its empty directory. The calls of an agent without worktree
	// isolation fail then: the host's own directory is never given to a program.
	InTree bool `json:"inTree,omitempty"`
}

// Spec returns the program as the ExecutorSpec of a [rulvar.ToolConfig]. A
// program that can never be started is an [rulvar.ErrConfig].
func (p Program) Spec() (json.RawMessage, error) {
	if msg := p.wrong(); msg != "" {
		return nil, configError("Program", "", msg)
	}
	spec, err := jcs.Marshal(p)
	if err != nil {
		return nil, configError("Program", "", err.Error())
	}
	return spec, nil
}

// wrong says what is wrong with the program, or "".
func (p Program) wrong() string {
	switch {
	case p.Command == "":
		return "no command is named"
	case strings.Contains(p.Command, "/") && !strings.HasPrefix(p.Command, "/") && !filepath.IsAbs(p.Command):
		return fmt.Sprintf("the command %q is neither a name nor an absolute path: the program does not start where the host is", p.Command)
	}
	for _, word := range append([]string{p.Command}, p.Args...) {
		if strings.ContainsRune(word, 0) || !utf8.ValidString(word) {
			return fmt.Sprintf("the word %q holds a NUL or is not UTF-8", word)
		}
	}
	return ""
}

// NewTool makes a tool that is a program. Its input schema is reflected from
// In, as by [rulvar.NewTool]. cfg.Executor is [rulvar.ExecutorSubprocess] where
// it is not set, and may be [rulvar.ExecutorContainer]; cfg.ExecutorSpec is made
// here and must be empty. A definition that cannot work is an
// [rulvar.ErrConfig].
func NewTool[In any](cfg rulvar.ToolConfig, p Program) (*rulvar.Tool, error) {
	cfg, err := configured(cfg, p)
	if err != nil {
		return nil, err
	}
	return rulvar.NewTool(cfg, outside[In])
}

// NewToolWithSchema is [NewTool] with an explicit schema.
func NewToolWithSchema[In any](cfg rulvar.ToolConfig, schema rulvar.Schema[In], p Program) (*rulvar.Tool, error) {
	cfg, err := configured(cfg, p)
	if err != nil {
		return nil, err
	}
	return rulvar.NewToolWithSchema(cfg, schema, outside[In])
}

// configured fills in what makes a tool one of a program.
func configured(cfg rulvar.ToolConfig, p Program) (rulvar.ToolConfig, error) {
	path := fmt.Sprintf("tool %q", cfg.Name)
	switch {
	case cfg.ExecutorSpec != nil:
		return cfg, configError("NewTool", path, "an ExecutorSpec is given beside the program: leave it out")
	case cfg.Executor == "":
		cfg.Executor = rulvar.ExecutorSubprocess
	case cfg.Executor == rulvar.ExecutorInProcess:
		return cfg, configError("NewTool", path, "a program does not run in process: leave Executor out, or name subprocess or container")
	}
	spec, err := p.Spec()
	if err != nil {
		return cfg, &rulvar.Error{Code: rulvar.ErrConfig, Op: "NewTool", Path: path, Msg: "the program is wrong", Err: err}
	}
	cfg.ExecutorSpec = spec
	return cfg, nil
}

// outside is the handler of a tool that has none: the engine calls the executor
// in its place.
func outside[In any](*rulvar.ToolContext, In) (json.RawMessage, error) {
	return nil, errors.New("the tool is a program and has no handler in this process")
}

// programOf reads the spec of a tool, which nobody but the tool's author has
// written. Where there is none, fallback is meant; its arguments come before
// those of a spec without a command.
func programOf(spec json.RawMessage, fallback *Program) (Program, string) {
	if len(spec) == 0 || string(spec) == "null" {
		if fallback == nil {
			return Program{}, "the tool names no program: make it with executor.NewTool, or set Options.Program"
		}
		return *fallback, ""
	}
	if _, err := jcs.ParseStrict(spec); err != nil {
		return Program{}, "the tool's spec is no JSON: " + err.Error()
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(spec, &members); err != nil {
		return Program{}, `the tool's spec is not of the form {"command":"…","args":["…"],"inTree":true}`
	}
	var p Program
	for name, value := range members {
		var to any
		switch name {
		case "command":
			to = &p.Command
		case "args":
			to = &p.Args
		case "inTree":
			to = &p.InTree
		default:
			return Program{}, fmt.Sprintf("the tool's spec has an unknown member %q: it has command, args and inTree", name)
		}
		if string(value) == "null" || json.Unmarshal(value, to) != nil || bytes.Contains(value, []byte("null")) && hasNull(value) {
			return Program{}, fmt.Sprintf("the tool's spec has a wrong %s: command is a string, args a list of strings and inTree true or false", name)
		}
	}
	if fallback != nil {
		if p.Command == "" {
			p.Command, p.InTree = fallback.Command, p.InTree || fallback.InTree
		}
		p.Args = append(append([]string(nil), fallback.Args...), p.Args...)
	}
	return p, p.wrong()
}

// hasNull reports whether a list of strings holds a null, which would be taken
// for an empty string.
func hasNull(list json.RawMessage) bool {
	var words []*string
	if json.Unmarshal(list, &words) != nil {
		return false // a string
	}
	for _, w := range words {
		if w == nil {
			return true
		}
	}
	return false
}

func configError(op, path, msg string) error {
	return &rulvar.Error{Code: rulvar.ErrConfig, Op: "executor." + op, Path: path, Msg: msg}
}
