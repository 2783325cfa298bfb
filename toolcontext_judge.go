package rulvar

import "github.com/rulvar/rulvar-go/internal/argv"

// JudgeArgv holds an argv that the handler is about to execute, after every
// expansion, against the deny and ask tables of the chain that admitted the
// call. A handler that runs commands must execute nothing for which the answer
// is not [VerdictPass]:
//
//   - deny: a deny rule matches; it is returned. Deny without a rule means that
//     there is nothing to judge by (an empty argv, a ToolContext that no engine
//     made).
//   - ask: an ask rule matches, or without a rule: some rule may match, because
//     the argv runs what its words do not show. Nobody has approved it.
//   - pass: no rule has anything against it.
//
// Where somebody approved the call, what would ask passes for every argv that
// the approved text already showed as static words. An argv that appears only
// after an expansion is judged as if there were no approval. It may be called
// by any number of goroutines until the handler returns.
func (c *ToolContext) JudgeArgv(argv []string) (Verdict, Rule) {
	if c == nil {
		return VerdictDeny, Rule{}
	}
	verdict, rule := c.chain.judgeArgv(c.tool, argv)
	if verdict == VerdictAsk && c.approved {
		if text := readCommand(c.input); text != nil && text.ShowsArgv(argv) {
			return VerdictPass, Rule{}
		}
	}
	return verdict, rule
}

// JudgeRedirect is [ToolContext.JudgeArgv] for a file that a redirection of the
// call's command is about to open: op is ">" (created or emptied), ">>"
// (appended to) or "<" (read), whatever descriptor it is for, and target the
// file as the shell names it after expansion. aliases are other names of the
// same file, such as the absolute one, for rules that are written with those.
// The target /dev/null always passes. A rule whose pattern names a command
// beside the redirection is held against the command where the text of the call
// shows it, and may match where it does not.
func (c *ToolContext) JudgeRedirect(op, target string, aliases ...string) (Verdict, Rule) {
	if c == nil || target == "" {
		return VerdictDeny, Rule{}
	}
	var text *argv.Command
	if c.chain.compiled() {
		text = readCommand(c.input)
	}
	verdict, rule := c.chain.judgeRedirect(c.tool, op, append([]string{target}, aliases...), text)
	switch {
	case verdict == VerdictPass:
	case target == "/dev/null" && c.chain.compiled() && knownRedirect(op):
		return VerdictPass, Rule{}
	case verdict == VerdictAsk && c.approved && text != nil && showsRedirect(text, op, target):
		return VerdictPass, Rule{}
	}
	return verdict, rule
}

// JudgeHost holds a host that the handler is about to connect to
// ("example.com", "example.com:8443", "[2001:db8::1]:443"; names in their ASCII
// form) against the domain rules of the chain that admitted the call. A handler
// that enforces them connects to nothing for which the answer is not
// [VerdictPass], redirects included:
//
//   - deny: a deny rule matches; it is returned. Deny without a rule means that
//     the text is no host, or that there is nothing to judge by.
//   - ask: an ask rule matches, and nobody has approved it.
//   - pass: no rule has anything against it.
//
// Where somebody approved the call, what would ask passes for the hosts that
// the approved input names, as [ToolConfig.Hosts] tells them. It may be called
// by any number of goroutines until the handler returns.
func (c *ToolContext) JudgeHost(host string) (Verdict, Rule) {
	if c == nil {
		return VerdictDeny, Rule{}
	}
	verdict, rule := c.chain.judgeHost(c.tool, host)
	if verdict == VerdictAsk && c.approved && c.showsHost(host) {
		return VerdictPass, Rule{}
	}
	return verdict, rule
}

// showsHost reports whether the input that somebody approved names the host.
func (c *ToolContext) showsHost(host string) (shown bool) {
	if c.hosts == nil {
		return false
	}
	want, ok := readHost(host)
	if !ok {
		return false
	}
	guardHosts(c.hosts, c.input, func(h string) Verdict {
		if got, ok := readHost(h); ok && got == want {
			shown = true
		}
		return VerdictPass
	})
	return shown
}

// Approved reports whether somebody approved the call with just the input that
// is being executed. A hook or CanUseTool that allows a call is no approval.
func (c *ToolContext) Approved() bool { return c != nil && c.approved }
