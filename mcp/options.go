package mcp

import (
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/errs"
)

// Options say which of a server's tools are imported, as what, and within what
// bounds. Nil means the defaults. New copies what it keeps.
type Options struct {
	// ID names the source in errors and logs. Default: "mcp:stdio:" and the
	// command, "mcp:http:" and the URL without its query, "mcp:inprocess".
	ID string

	// Allow and Deny choose tools by the name that the server gives them,
	// exactly. Deny goes before Allow. A nil Allow allows all, an empty one
	// nothing.
	Allow, Deny []string
	// Prefix, with an underscore, goes before each name. Default: none.
	Prefix string
	// Names says what becomes of a name that is too long or has other
	// characters than a-z, A-Z, 0-9, _ and -. Default: [NamesRefuse].
	Names NameMode
	// Lenient leaves out a tool that cannot be imported, with a warning and a
	// line in [Listing.Skipped]. Default: one such tool fails the whole list.
	Lenient bool

	// Risk is what a tool may do, by its server's name. Default: undeclared.
	Risk map[string]rulvar.Risk
	// Approval says which tools ask where nothing else decides, by their
	// server's name; ApproveAll is the default of a tool without an entry.
	Approval   map[string]bool
	ApproveAll bool
	// Idempotent says which tools may run twice without harm, by their
	// server's name. Default: none.
	Idempotent map[string]bool

	// Drift is what a change of the tools does. Default: [DriftRekey].
	Drift Drift
	// Attestation, if there is one, pins the imported tools: another list is
	// refused, also the first one.
	Attestation *rulvar.ToolsetAttestation

	// MaxTools bounds the tools that the server lists, before Allow and Deny.
	// Default 1000.
	MaxTools int
	// MaxPages bounds the pages of one list. Default 100.
	MaxPages int
	// MaxSchemaBytes bounds the description and the schemas of one imported
	// tool together. Default 1 MiB.
	MaxSchemaBytes int
	// MaxResultBytes bounds the result of a call. A larger one is an error
	// result. Default 1 MiB.
	MaxResultBytes int
	// MaxMessageBytes bounds a message and all pages of a list together. A
	// larger message ends the connection. Default 16 MiB.
	MaxMessageBytes int
	// RequireBounds refuses options that do not name MaxTools, MaxPages,
	// MaxSchemaBytes and Timeouts.Discovery.
	RequireBounds bool
	// Timeouts bound the time of each phase.
	Timeouts Timeouts

	// ProtocolVersion is offered to the server first. Default: the newest that
	// the SDK knows. A server that cannot bear an unknown request first needs
	// "2025-11-25" or older here.
	ProtocolVersion string
	// Logger gets warnings. Default: slog.Default().
	Logger *slog.Logger
}

// Timeouts bound phases of a source's work.
type Timeouts struct {
	// Connect bounds starting and greeting the server. Default 60 s.
	Connect time.Duration
	// List bounds one page of the list. Default 60 s.
	List time.Duration
	// Discovery bounds all pages of a list. Default 60 s.
	Discovery time.Duration
	// Call bounds a call. Default 60 s.
	Call time.Duration
	// Close is how long a server may take to end by itself, and then again
	// how long after it was told to, before it is killed. Default 2 s.
	Close time.Duration
}

// NameMode says what becomes of a name that no tool may have.
type NameMode string

// The name modes.
const (
	// NamesRefuse refuses the tool, so that a rule never meets a name that the
	// server did not give.
	NamesRefuse NameMode = "refuse"
	// NamesShorten replaces what is not allowed, cuts the name and adds eight
	// hex digits of its sha256. The new name depends on the prefix and the
	// server's name alone, so it stays when other tools come and go.
	NamesShorten NameMode = "shorten"
)

// Drift says what a change of a server's tools does.
type Drift string

// The kinds of drift.
const (
	// DriftRekey takes the new tools for new agents.
	DriftRekey Drift = "rekey"
	// DriftRefuse refuses lists and calls for good once the tools differ from
	// the first list.
	DriftRefuse Drift = "refuse"
)

const (
	defaultTimeout = 60 * time.Second
	defaultClose   = 2 * time.Second
	maxTimeout     = 24 * time.Hour
)

var prefixPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,48}$`)

// resolve copies opts, checks them and fills in the defaults.
func resolve(opts *Options) (Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Allow, o.Deny = slices.Clone(o.Allow), slices.Clone(o.Deny)
	o.Risk, o.Approval, o.Idempotent = maps.Clone(o.Risk), maps.Clone(o.Approval), maps.Clone(o.Idempotent)
	if err := o.bound(); err != nil {
		return o, err
	}
	if o.Names == "" {
		o.Names = NamesRefuse
	}
	if o.Drift == "" {
		o.Drift = DriftRekey
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, o.check()
}

func refuse(path, format string, args ...any) error {
	return errs.New(errs.Config, "mcp.New", path, fmt.Sprintf(format, args...))
}

// bound fills in the bounds and refuses negative ones.
func (o *Options) bound() error {
	if o.RequireBounds {
		if missing := o.unbounded(); missing != "" {
			return refuse("Options.RequireBounds", "set %s", missing)
		}
	}
	for _, n := range []struct {
		name  string
		value *int
		def   int
	}{
		{"MaxTools", &o.MaxTools, 1000}, {"MaxPages", &o.MaxPages, 100}, {"MaxSchemaBytes", &o.MaxSchemaBytes, 1 << 20},
		{"MaxResultBytes", &o.MaxResultBytes, 1 << 20}, {"MaxMessageBytes", &o.MaxMessageBytes, 16 << 20},
	} {
		if *n.value < 0 {
			return refuse("Options."+n.name, "want a positive number, have %d", *n.value)
		}
		if *n.value == 0 {
			*n.value = n.def
		}
	}
	t := &o.Timeouts
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"Connect", &t.Connect, defaultTimeout}, {"List", &t.List, defaultTimeout}, {"Discovery", &t.Discovery, defaultTimeout},
		{"Call", &t.Call, defaultTimeout}, {"Close", &t.Close, defaultClose},
	} {
		if *d.value < 0 || *d.value > maxTimeout {
			return refuse("Options.Timeouts."+d.name, "want more than 0 and at most %v, have %v", maxTimeout, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	return nil
}

// unbounded lists the bounds that RequireBounds misses.
func (o *Options) unbounded() string {
	var missing []string
	for _, b := range []struct {
		name string
		set  bool
	}{
		{"MaxTools", o.MaxTools > 0}, {"MaxPages", o.MaxPages > 0}, {"MaxSchemaBytes", o.MaxSchemaBytes > 0},
		{"Timeouts.Discovery", o.Timeouts.Discovery > 0},
	} {
		if !b.set {
			missing = append(missing, b.name)
		}
	}
	return strings.Join(missing, ", ")
}

func (o *Options) check() error {
	if o.Prefix != "" && !prefixPattern.MatchString(o.Prefix) {
		return refuse("Options.Prefix", "want 1 to 48 characters of a-z, A-Z, 0-9, _ and -, have %q", o.Prefix)
	}
	if o.Names != NamesRefuse && o.Names != NamesShorten {
		return refuse("Options.Names", "unknown mode %q: use refuse or shorten", o.Names)
	}
	if o.Drift != DriftRekey && o.Drift != DriftRefuse {
		return refuse("Options.Drift", "unknown drift %q: use rekey or refuse", o.Drift)
	}
	for name, risk := range o.Risk {
		switch risk {
		case rulvar.RiskUndeclared, rulvar.RiskRead, rulvar.RiskWrite, rulvar.RiskNetwork, rulvar.RiskExecute, rulvar.RiskDestructive:
		default:
			return refuse(fmt.Sprintf("Options.Risk[%q]", name), "unknown risk %q: use read, write, network, execute or destructive, or leave it out", risk)
		}
	}
	if v := o.ProtocolVersion; v != "" && !slices.Contains(sdk.SupportedProtocolVersions(), v) {
		return refuse("Options.ProtocolVersion", "the SDK does not speak %q: use one of %s", v, strings.Join(sdk.SupportedProtocolVersions(), ", "))
	}
	if o.Attestation != nil {
		if err := o.Attestation.Validate(); err != nil {
			return errs.Wrap(errs.Config, "mcp.New", "Options.Attestation", "", err)
		}
	}
	return nil
}

// admits says whether the tool with this server's name is imported.
func (o *Options) admits(wire string) bool {
	return !slices.Contains(o.Deny, wire) && (o.Allow == nil || slices.Contains(o.Allow, wire))
}

// asks says whether the tool asks where nothing else decides.
func (o *Options) asks(wire string) bool {
	if ask, ok := o.Approval[wire]; ok {
		return ask
	}
	return o.ApproveAll
}
