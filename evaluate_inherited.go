package rulvar

// What a chain inherits can only make its answers stricter than its own layers
// would. An inherited deny rule or hook denies ahead of them. An inherited ask
// is held until they have spoken, so that it hides no deny of theirs. An
// inherited allow is no opinion: a spawning agent grants its child nothing. An
// inherited rewrite counts where the chain's own layers let pass what the call
// was and what it has become.

// splits reports whether the inherited layer has to be judged apart from the
// chain's own. Without CanUseTool the strictest rule of all tables decides, and
// nothing else can.
func (c *PermissionChain) splits() bool {
	return c.own != nil && (c.own.all.canUse.run != nil || c.inherited.all.canUse.run != nil)
}

// consider has the evaluator read the tables of a part of its chain.
func (e *evaluator) consider(part *PermissionChain) {
	e.chain, e.tables, e.hosts = part, part.index.tables(e.call.Tool), hostsText{}
}

// runSplit decides a call that the hooks have not: first what is inherited
// denies, then the chain's own layers speak, and where they allow what is
// inherited may still ask.
func (e *evaluator) runSplit() {
	whole := e.chain
	defer e.consider(whole)
	e.consider(whole.inherited)
	e.scan(DecidedByDenyRule, e.tables.deny[riskSlot(e.call.Risk)], e.chain.all.deny)
	if e.out.Verdict != VerdictNone || e.judgeHosts(VerdictDeny) {
		return
	}
	e.consider(whole.own)
	if !e.readTables() && !e.runCanUseTool() {
		e.runDefault()
	}
	if e.out.Verdict == VerdictAllow {
		e.restrict(whole)
	}
}

// restrict holds a call that the chain's own layers allow against what is
// inherited, whose objection decides.
func (e *evaluator) restrict(whole *PermissionChain) {
	allowed := e.out
	e.out = Evaluation{Trace: allowed.Trace}
	e.consider(whole.inherited)
	if !e.readTables() && !(e.runCanUseTool() && e.out.Verdict != VerdictAllow) {
		allowed.Trace = e.out.Trace
		e.out = allowed
	}
}

// noteRewrite notes what a closure of the inherited layer has made of the call.
func (e *evaluator) noteRewrite(layer Layer) {
	if layer == LayerInherited {
		call := e.call
		e.rewrote = &call
	}
}

// checkRewrite asks the chain's own layers about a call that an inherited
// closure has rewritten: about the call as it was made, which they might have
// refused, and about what it was made into, which those that come before the
// closure have not seen. Their closures run again.
func (e *evaluator) checkRewrite(made Call) {
	if e.rewrote == nil {
		return
	}
	for _, call := range []Call{made, *e.rewrote} {
		own := evaluator{chain: e.chain.own, tc: e.tc, tool: e.tool, call: call}
		own.run(true)
		e.note(string(own.out.DecidedBy), own.out.Layer, 0, string(own.out.Verdict), "without what is inherited: "+own.out.Reason, call.Input)
		if o := own.out; o.Verdict == VerdictDeny && e.out.Verdict != VerdictDeny || o.Verdict == VerdictAsk && e.out.Verdict == VerdictAllow {
			e.out.Verdict, e.out.DecidedBy, e.out.Layer, e.out.Rule, e.out.Reason = o.Verdict, o.DecidedBy, o.Layer, o.Rule, o.Reason
		}
	}
}

// holdInherited takes the answer of an inherited hook that does not deny: an
// ask is held, an allow is nothing. It reports whether the answer was one.
func (e *evaluator) holdInherited(h *placedHook, d Decision) bool {
	if h.layer != LayerInherited || d.Verdict != VerdictAllow && d.Verdict != VerdictAsk {
		return false
	}
	outcome := outcomeHeld
	if d.Verdict == VerdictAllow {
		outcome = outcomeFallsThrough
	} else if e.held == nil {
		e.held = &d
	}
	e.note(string(DecidedByHook), h.layer, h.index, outcome, string(d.Verdict), e.call.Input)
	return true
}

// release lets a held ask decide where everything else allows.
func (e *evaluator) release() {
	if e.held != nil && e.out.Verdict == VerdictAllow {
		e.decide(VerdictAsk, DecidedByHook, LayerInherited, e.held.Reason)
		e.out.Rule = Rule{}
	}
}
