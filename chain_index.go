package rulvar

import "slices"

// chainIndex finds the rules that can match a call without looking at the
// others: what two hundred tools' rules cost is one map look-up.
type chainIndex struct {
	byName map[string]*toolTables // tools that some rule names
	rest   *toolTables            // every other tool: risk rules only
}

// riskCount is how many risk classes there are, undeclared and control among
// them.
const riskCount = 7

// riskSlot numbers the risk classes. A tool cannot declare an unknown one.
func riskSlot(r Risk) int {
	switch r {
	case RiskRead:
		return 1
	case RiskWrite:
		return 2
	case RiskNetwork:
		return 3
	case RiskExecute:
		return 4
	case RiskDestructive:
		return 5
	case RiskControl:
		return 6
	}
	return 0
}

// toolTables are the parts of the deny and ask tables that can match calls of
// one tool name, for each risk, in table order.
type toolTables struct {
	deny, ask [riskCount][]*placedRule
	denyArgv  bool   // an argv rule of the deny table names the tool
	askArgv   bool   // one of the ask table does
	advisory  []Rule // domain rules that name the tool, deny before ask; enforced for a tool with Hosts
}

func (x *chainIndex) tables(name string) *toolTables {
	if t, ok := x.byName[name]; ok {
		return t
	}
	return x.rest
}

func newChainIndex(deny, ask []*placedRule) chainIndex {
	x := chainIndex{byName: map[string]*toolTables{}, rest: &toolTables{}}
	for _, table := range [][]*placedRule{deny, ask} {
		for _, r := range table {
			for _, name := range r.rule.spec.tool.words {
				x.byName[name] = &toolTables{}
			}
		}
	}
	x.fill(deny, func(t *toolTables) (*[riskCount][]*placedRule, *bool) { return &t.deny, &t.denyArgv })
	x.fill(ask, func(t *toolTables) (*[riskCount][]*placedRule, *bool) { return &t.ask, &t.askArgv })
	return x
}

// fill hands each rule of one table to the tools it can match.
func (x *chainIndex) fill(table []*placedRule, side func(*toolTables) (*[riskCount][]*placedRule, *bool)) {
	for _, r := range table {
		spec := r.rule.spec
		if spec.kind == ruleRisk {
			for _, t := range x.byName {
				lists, _ := side(t)
				r.appendByRisk(lists)
			}
			lists, _ := side(x.rest)
			r.appendByRisk(lists)
			continue
		}
		for i, name := range spec.tool.words {
			if slices.Contains(spec.tool.words[:i], name) {
				continue
			}
			t := x.byName[name]
			lists, argv := side(t)
			switch spec.kind {
			case ruleDomains:
				t.advisory = append(t.advisory, r.rule)
				continue
			case ruleArgv:
				*argv = true
			}
			for slot := range lists {
				lists[slot] = append(lists[slot], r)
			}
		}
	}
}

func (r *placedRule) appendByRisk(lists *[riskCount][]*placedRule) {
	for slot, on := range r.rule.spec.risks {
		if on {
			lists[slot] = append(lists[slot], r)
		}
	}
}
