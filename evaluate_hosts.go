package rulvar

import (
	"encoding/json"
	"fmt"
)

// The hosts of a call whose tool declares them are judged by the domain rules:
// here before the call is dispatched, and by the tool before each connection,
// through [ToolContext.JudgeHost].

// hostsText is what the domain rules say of the hosts that a call's input
// names, found at most once an input.
type hostsText struct {
	read    bool
	verdict Verdict
	rule    *placedRule // the strictest that matches, if it decides
	reason  string
}

// enforcesHosts reports whether domain rules decide for the tool.
func (e *evaluator) enforcesHosts() bool { return e.tool != nil && e.tool.cfg.Hosts != nil }

// judgeHosts decides the call where its hosts have just this verdict, deny or
// ask, and reports whether it has.
func (e *evaluator) judgeHosts(verdict Verdict) bool {
	if !e.enforcesHosts() {
		return false
	}
	if !e.hosts.read {
		e.hosts = e.readHosts()
	}
	h := &e.hosts
	if h.verdict != verdict {
		if verdict == VerdictAsk {
			e.note(stepHosts, "", 0, string(h.verdict), h.reason, nil)
		}
		return false
	}
	by := DecidedByDenyRule
	if verdict == VerdictAsk {
		by = DecidedByAskRule
	}
	if h.rule == nil {
		e.note(stepHosts, "", 0, string(verdict), h.reason, nil)
		return e.decide(verdict, by, "", h.reason)
	}
	e.out.decide(verdict, by, h.rule)
	if h.reason != "" {
		e.out.Reason += ": " + h.reason
	}
	e.note(stepHosts, h.rule.layer, h.rule.index, string(verdict), fmt.Sprintf("%s: %s", h.rule.rule, e.out.Reason), nil)
	return true
}

// readHosts asks the tool which hosts the input names and what it makes of
// them. The strictest answer counts.
func (e *evaluator) readHosts() hostsText {
	h := hostsText{read: true, verdict: VerdictPass}
	asked := false
	d, ok := guardHosts(e.tool.cfg.Hosts, e.call.Input, func(host string) Verdict {
		asked = true
		v, rule := e.chain.matchHost(e.call.Tool, host)
		if strictness(v) > strictness(h.verdict) {
			h.verdict, h.rule = v, rule
		}
		return v
	})
	switch {
	case !ok:
		return hostsText{read: true, verdict: VerdictDeny, reason: reasonPolicyError}
	case d.Verdict == VerdictPass && !asked:
		return hostsText{read: true, verdict: VerdictDeny, reason: "the tool names no host to judge"}
	case strictness(d.Verdict) > strictness(h.verdict):
		h.verdict, h.rule = d.Verdict, nil
	}
	h.reason = d.Reason
	if h.reason == "" && h.verdict != VerdictPass && h.rule == nil {
		h.reason = "the host is refused"
	}
	return h
}

// strictness orders the verdicts that hosts can have.
func strictness(v Verdict) int {
	switch v {
	case VerdictPass:
		return 0
	case VerdictAsk:
		return 1
	}
	return 2
}

// guardHosts calls a tool's Hosts. ok is false where it panicked or answered
// what it may not.
func guardHosts(hosts func(json.RawMessage, func(string) Verdict) Decision, input json.RawMessage, judge func(string) Verdict) (d Decision, ok bool) {
	defer func() {
		if recover() != nil {
			d, ok = Decision{}, false
		}
	}()
	d = hosts(append(json.RawMessage(nil), input...), judge)
	switch d.Verdict {
	case VerdictPass, VerdictAsk, VerdictDeny:
		return d, d.Input == nil
	}
	return d, false
}

// judgeHost holds a host ("example.com", "example.com:8443", "[2001:db8::1]";
// names in their ASCII form) that tool is about to connect to against the
// domain rules that name it. Deny beats ask; a text that is no host is denied
// without a rule. Pass says that no rule has anything against it.
func (c *PermissionChain) judgeHost(tool, host string) (Verdict, Rule) {
	verdict, placed := c.matchHost(tool, host)
	if placed == nil {
		return verdict, Rule{}
	}
	return verdict, placed.rule
}

func (c *PermissionChain) matchHost(tool, text string) (Verdict, *placedRule) {
	host, ok := readHost(text)
	if !ok || !c.compiled() {
		return VerdictDeny, nil
	}
	for _, side := range []struct {
		verdict Verdict
		rules   []*placedRule
	}{{VerdictDeny, c.all.deny}, {VerdictAsk, c.all.ask}} {
		for _, r := range side.rules {
			spec := r.rule.spec
			if spec.kind != ruleDomains || !spec.names(tool) {
				continue
			}
			for _, p := range spec.hosts {
				if p.matches(host.name, host.port) {
					return side.verdict, r
				}
			}
		}
	}
	return VerdictPass, nil
}

// namedHost is a host in its one spelling; port is "" where it is not known.
type namedHost struct{ name, port string }

func readHost(text string) (h namedHost, ok bool) {
	host, port, cut := cutPort(text)
	if cut && !validPort(port) {
		return h, false
	}
	name, why := canonicalHost(host)
	return namedHost{name, port}, why == ""
}
