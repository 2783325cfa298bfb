package rulvar

import (
	"fmt"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// CompilePermissionPreset returns the deny and ask rules that a preset stands
// for, for inspection or as a base to extend. A profile's preset is appended to
// the tables after the profile's own rules; it is not a step of its own.
//
//	risk          strict   standard   open
//	read          allow    allow      allow
//	write         ask      allow      allow
//	network       ask      ask        allow
//	execute       ask      ask        allow
//	destructive   deny     ask        allow
//	undeclared    ask      ask        allow
//
// Where the table says allow there is no rule, so a tool that needs approval
// still asks. An unknown preset is an [ErrConfig]; so is "", which is no
// preset.
func CompilePermissionPreset(p Preset) (deny, ask []Rule, err error) {
	switch p {
	case PresetStrict:
		return []Rule{RiskRule(RiskDestructive)},
			[]Rule{RiskRule(RiskWrite, RiskNetwork, RiskExecute), RiskRule(RiskUndeclared)}, nil
	case PresetStandard:
		return []Rule{}, []Rule{RiskRule(RiskNetwork, RiskExecute, RiskDestructive), RiskRule(RiskUndeclared)}, nil
	case PresetOpen:
		return []Rule{}, []Rule{}, nil
	}
	return nil, nil, errs.New(errs.Config, "CompilePermissionPreset", "preset", unknownPreset(string(p)))
}

func unknownPreset(word string) string {
	return fmt.Sprintf("unknown preset %q: use strict, standard or open", word)
}

// readonlyRule is what readonly isolation adds at the end of the deny table.
// Tools that declare no risk are not blocked: it makes a mistake smaller, it
// does not contain anybody.
func readonlyRule() Rule { return RiskRule(RiskWrite, RiskDestructive) }
