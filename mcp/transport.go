package mcp

import (
	"io"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Transport says how a server is reached: [*Stdio], [*HTTP] or [*InProcess].
type Transport interface {
	// check refuses what cannot work and returns a private copy.
	check() (Transport, error)
	// id names the transport in errors; it holds no secret.
	id() string
	// open prepares one connection.
	open(s *Source) (link, error)
}

// link is one connection to a server, with all that belongs to it.
type link interface {
	sdk.Transport
	// cut breaks the connection without waiting. err is why; nil for no fault
	// of the server.
	cut(err error)
	// finish waits until nothing is left of the connection, or what is left
	// was given up. Call it after cut.
	finish(grace time.Duration)
	// why says why the connection broke by itself, or nil.
	why() error
	// hint is what the server said last about itself, for the host.
	hint() string
}

// Stdio starts a server as a child process and speaks to it over its standard
// input and output. The child leads a process group, which ends with it or with
// the source; a descendant that leaves the group is not followed.
type Stdio struct {
	// Command is the program; one without a slash is looked up in PATH.
	Command string
	Args    []string
	// Dir is the child's working directory. Default: the host's.
	Dir string
	// Env is added to the child's environment. Of the host's environment the
	// child gets HOME, LOGNAME, PATH, SHELL, TERM and USER (on Windows the
	// variables of the same use), and what InheritEnv names; nothing else.
	Env        map[string]string
	InheritEnv []string
	// Stderr gets what the child writes to its standard error. Default: it is
	// dropped; the last of it stands in the error of a failed connection.
	Stderr io.Writer
}

func (t *Stdio) check() (Transport, error) {
	if t == nil || t.Command == "" {
		return nil, refuse("Stdio.Command", "name the program that is the server")
	}
	for name, value := range t.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return nil, refuse("Stdio.Env", "%q is no name, or its value no text, of an environment variable", name)
		}
	}
	c := *t
	c.Args, c.InheritEnv = slices.Clone(t.Args), slices.Clone(t.InheritEnv)
	c.Env = make(map[string]string, len(t.Env))
	for name, value := range t.Env {
		c.Env[name] = value
	}
	return &c, nil
}

func (t *Stdio) id() string { return "mcp:stdio:" + t.Command }

// environment returns the child's environment.
func (t *Stdio) environment(lookup func(string) (string, bool)) []string {
	names := []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
	if runtime.GOOS == "windows" {
		names = []string{
			"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
			"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
		}
	}
	env := []string{} // nil would mean all of the host's
	for _, name := range slices.Concat(names, t.InheritEnv) {
		if _, own := t.Env[name]; own {
			continue
		}
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range t.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return slices.Compact(env)
}

// HTTP reaches a server over streamable HTTP. Redirects are followed within the
// scheme, host and port of URL alone, so that neither headers nor arguments
// reach another server. At protocol 2026-07-28 and later a server may have the
// SDK copy arguments into headers named Mcp-Param-…; keep those out of logs.
type HTTP struct {
	// URL is the server's endpoint, http or https.
	URL string
	// Headers are sent with each request.
	Headers http.Header
	// HeaderFunc, if there is one, is asked before each request for headers
	// that go before Headers, such as a fresh token. It may be called several
	// times at once. Its error fails the request.
	HeaderFunc HeaderFunc
	// Client sends the requests. Its CheckRedirect is asked after the rule
	// above; a Timeout of it ends streams too. Default: a client of its own.
	Client *http.Client
}

func (t *HTTP) check() (Transport, error) {
	if t == nil || t.URL == "" {
		return nil, refuse("HTTP.URL", "name the server's endpoint")
	}
	u, err := url.Parse(t.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, refuse("HTTP.URL", "want http://HOST/… or https://HOST/…") // the URL may hold a secret
	}
	if name, bad := reservedHeader(t.Headers); bad {
		return nil, refuse("HTTP.Headers", "the header %q belongs to the protocol", name)
	}
	c := *t
	c.Headers = t.Headers.Clone()
	return &c, nil
}

func (t *HTTP) id() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return "mcp:http"
	}
	return "mcp:http:" + (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// InProcess reaches a server of the SDK that lives in this process. Its tools
// run in this process too, and a panic of one is a panic of the process. Where
// a Go function is all there is, [rulvar.NewTool] is the shorter way.
type InProcess struct {
	// Server is the server. It may serve other sources at once.
	Server *sdk.Server
}

func (t *InProcess) check() (Transport, error) {
	if t == nil || t.Server == nil {
		return nil, refuse("InProcess.Server", "the server is nil")
	}
	c := *t
	return &c, nil
}

func (t *InProcess) id() string { return "mcp:inprocess" }
