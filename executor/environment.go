package executor

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
)

// The variables that every program has.
const (
	EnvTool           = "RULVAR_TOOL"
	EnvRunID          = "RULVAR_RUN_ID"
	EnvIdempotencyKey = "RULVAR_IDEMPOTENCY_KEY"
)

// Credentials returns variables for the environment of one call's program, anew
// for each call, so that they may be short-lived. They win over what the host
// passes on. The context is the call's; it may be called by several goroutines
// at once. An error means that the program is not started, and is an [ErrSpawn].
type Credentials func(tc *rulvar.ToolContext, call rulvar.ExecutorCall) (map[string]string, error)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkNames holds a list of variables to be names.
func checkNames(op, option string, names []string) error {
	for i, name := range names {
		if !envName.MatchString(name) {
			return configError(op, fmt.Sprintf("Options.%s[%d]", option, i), fmt.Sprintf("%q is no name of a variable; a value is never given here", name))
		}
	}
	return nil
}

// hostValues copies the named variables that the host has.
func hostValues(names []string) map[string]string {
	env := make(map[string]string, len(names)+3)
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	return env
}

// addCredentials asks for the call's credentials, adds them and returns them.
func (a *attempt) addCredentials(env map[string]string) (map[string]string, error) {
	if a.d.credentials == nil {
		return nil, nil
	}
	given, err := a.d.credentials(a.tc, a.call)
	if err != nil {
		return nil, a.fail(ErrSpawn, "its credentials could not be had", nil, err)
	}
	for name, value := range given {
		if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
			return nil, a.fail(rulvar.ErrConfig, fmt.Sprintf("the credential %q is no variable", name), nil, nil)
		}
		env[name] = value
		a.secrets = append(a.secrets, value)
	}
	slices.SortFunc(a.secrets, func(x, y string) int { return len(y) - len(x) }) // one may be a part of another
	return given, nil
}

// addOwn adds what every program has; nothing else has these names.
func (a *attempt) addOwn(env map[string]string) {
	env[EnvTool], env[EnvRunID], env[EnvIdempotencyKey] = a.call.Tool, a.tc.RunID(), a.call.IdempotencyKey
}

// list returns an environment as NAME=value, sorted.
func list(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// lookup finds a program in the PATH of its own environment, which is the one
// that it would have been found in by whoever it starts.
func lookup(command, path string, hasPath bool) (string, string) {
	if strings.Contains(command, "/") {
		return command, ""
	}
	if !hasPath {
		return "", fmt.Sprintf("there is no PATH to look %q up in: name the program by its absolute path, or add PATH to Options.AllowEnv", command)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // it would be one in the empty directory
		}
		file := filepath.Join(dir, command)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, ""
		}
	}
	return "", fmt.Sprintf("there is no program %q in %s", command, path)
}
