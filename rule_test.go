package rulvar_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
)

// requireConfigError demands an ErrConfig at exactly this place.
func requireConfigError(t *testing.T, err error, path string) {
	t.Helper()
	require.ErrorIs(t, err, rulvar.ErrConfig)
	var e *rulvar.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, path, e.Path, "%v", err)
}

func TestRuleRoundTrip(t *testing.T) {
	for _, row := range []struct {
		name string
		rule rulvar.Rule
		text string
	}{
		{"one tool is a string", rulvar.ToolRule("edit"), `{"tool":"edit"}`},
		{"several tools are an array", rulvar.ToolRule("deploy_service", "send_email"), `{"tool":["deploy_service","send_email"]}`},
		{"one risk", rulvar.RiskRule(rulvar.RiskDestructive), `{"risk":"destructive"}`},
		{"undeclared is a word", rulvar.RiskRule(rulvar.RiskUndeclared), `{"risk":"undeclared"}`},
		{"undeclared by its word", rulvar.RiskRule("undeclared"), `{"risk":"undeclared"}`},
		{"several risks", rulvar.RiskRule(rulvar.RiskWrite, rulvar.RiskUndeclared), `{"risk":["write","undeclared"]}`},
		{"one pattern", rulvar.ArgvRule("shell", "rm **"), `{"tool":"shell","argv":"rm **"}`},
		{"several patterns", rulvar.ArgvRule("shell", "mv *", "cp **"), `{"tool":"shell","argv":["mv *","cp **"]}`},
		{"domains are an array", rulvar.DomainRule("fetch", "*.example.com"), `{"tool":"fetch","domains":["*.example.com"]}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			text, err := json.Marshal(row.rule)
			require.NoError(t, err)
			require.Equal(t, row.text, string(text))
			require.Equal(t, row.text, row.rule.String())
			var back rulvar.Rule
			require.NoError(t, json.Unmarshal(text, &back))
			require.Equal(t, row.rule.String(), back.String())
		})
	}
}

// A policy file is written again as it was read.
func TestRuleKeepsItsSpelling(t *testing.T) {
	for _, text := range []string{
		`{"tool":["edit"]}`,
		`{"risk":["undeclared"]}`,
		`{"tool":["a","b"],"argv":["ls"]}`,
		`{"tool":["fetch"],"domains":"a.test"}`,
		`{"tool":"sh","argv":"rm  x"}`,
	} {
		var r rulvar.Rule
		require.NoError(t, json.Unmarshal([]byte(text), &r), text)
		require.Equal(t, text, r.String())
	}
}

func TestRuleRefusals(t *testing.T) {
	for _, row := range []struct{ name, text, key string }{
		{"empty object", `{}`, ""},
		{"null", `null`, ""},
		{"text", `"edit"`, ""},
		{"array", `[]`, ""},
		{"misspelt tool", `{"tools":"edit"}`, "tools"},
		{"misspelt case", `{"Tool":"edit"}`, "Tool"},
		{"extra member", `{"tool":"edit","extra":1}`, "extra"},
		{"repeated member", `{"tool":"edit","tool":"view"}`, ""},
		{"tool and risk", `{"tool":"edit","risk":"read"}`, "risk"},
		{"risk and argv", `{"risk":"read","argv":"ls"}`, "risk"},
		{"argv and domains", `{"tool":"sh","argv":"x","domains":["d.test"]}`, "domains"},
		{"argv without a tool", `{"argv":"ls"}`, "argv"},
		{"domains without a tool", `{"domains":["d.test"]}`, "domains"},
		{"no tool", `{"tool":[]}`, "tool"},
		{"empty name", `{"tool":""}`, "tool"},
		{"one empty name of two", `{"tool":["edit",""]}`, "tool"},
		{"a wildcard is no name", `{"tool":"*"}`, "tool"},
		{"a prefix is no name", `{"tool":"edit*"}`, "tool"},
		{"a name with a blank", `{"tool":"edit "}`, "tool"},
		{"name of another type", `{"tool":1}`, "tool"},
		{"null name", `{"tool":null}`, "tool"},
		{"element of another type", `{"tool":["edit",1]}`, "tool"},
		{"null element", `{"tool":["edit",null]}`, "tool"},
		{"name is an object", `{"tool":{"name":"edit"}}`, "tool"},
		{"no risk", `{"risk":[]}`, "risk"},
		{"unknown risk", `{"risk":"bogus"}`, "risk"},
		{"risk in capitals", `{"risk":"Destructive"}`, "risk"},
		{"empty risk", `{"risk":""}`, "risk"},
		{"no pattern", `{"tool":"sh","argv":[]}`, "argv"},
		{"empty pattern", `{"tool":"sh","argv":""}`, "argv"},
		{"blank pattern", `{"tool":"sh","argv":"  "}`, "argv"},
		{"misplaced rest", `{"tool":"sh","argv":"** rm"}`, "argv"},
		{"one bad pattern of two", `{"tool":"sh","argv":["ls","a ** b"]}`, "argv"},
		{"half a surrogate pair", `{"tool":"sh","argv":"\ud800"}`, ""},
		{"no domain", `{"tool":"fetch","domains":[]}`, "domains"},
		{"empty domain", `{"tool":"fetch","domains":[""]}`, "domains"},
		{"domain with a scheme", `{"tool":"fetch","domains":["https://example.com"]}`, "domains"},
		{"domain with a path", `{"tool":"fetch","domains":["example.com/path"]}`, "domains"},
		{"partial wildcard", `{"tool":"fetch","domains":["ex*mple.com"]}`, "domains"},
		{"inner wildcard", `{"tool":"fetch","domains":["a.*.com"]}`, "domains"},
		{"leading dot", `{"tool":"fetch","domains":[".example.com"]}`, "domains"},
		{"subdomains of an address", `{"tool":"fetch","domains":["*.10.0.0.1"]}`, "domains"},
		{"port zero", `{"tool":"fetch","domains":["example.com:0"]}`, "domains"},
		{"empty port", `{"tool":"fetch","domains":["example.com:"]}`, "domains"},
		{"name that is not ASCII", `{"tool":"fetch","domains":["bücher.example"]}`, "domains"},
		{"userinfo", `{"tool":"fetch","domains":["u@example.com"]}`, "domains"},
		{"address without brackets", `{"tool":"fetch","domains":["2001:db8::1"]}`, "domains"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := rulvar.ToolRule("kept")
			err := json.Unmarshal([]byte(row.text), &r)
			requireConfigError(t, err, row.key)
			require.Equal(t, `{"tool":"kept"}`, r.String(), "a refused rule must not change the value")
		})
	}
}

// A rule that is wrong can be made in code; it is refused wherever it is used.
func TestBadRulesAreRefusedAtCompile(t *testing.T) {
	for _, row := range []struct {
		name string
		rule rulvar.Rule
		path string
	}{
		{"zero rule", rulvar.Rule{}, "engine.deny[1]"},
		{"no name", rulvar.ToolRule(), "engine.deny[1].tool"},
		{"empty name", rulvar.ToolRule(""), "engine.deny[1].tool"},
		{"wildcard name", rulvar.ToolRule("edit*"), "engine.deny[1].tool"},
		{"invalid UTF-8 in a name", rulvar.ToolRule("a\xff"), "engine.deny[1].tool"},
		{"no risk", rulvar.RiskRule(), "engine.deny[1].risk"},
		{"unknown risk", rulvar.RiskRule("Destructive"), "engine.deny[1].risk"},
		{"no pattern", rulvar.ArgvRule("shell"), "engine.deny[1].argv"},
		{"no tool for a pattern", rulvar.ArgvRule("", "ls"), "engine.deny[1].tool"},
		{"misplaced rest", rulvar.ArgvRule("shell", "ls", "** rm"), "engine.deny[1].argv"},
		{"invalid UTF-8 in a pattern", rulvar.ArgvRule("shell", "a\xff"), "engine.deny[1].argv"},
		{"no domain", rulvar.DomainRule("fetch"), "engine.deny[1].domains"},
		{"URL for a domain", rulvar.DomainRule("fetch", "https://a.test"), "engine.deny[1].domains"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := rulvar.CompilePermissionChain(&rulvar.PermissionConfig{
				Deny: []rulvar.Rule{rulvar.ToolRule("good"), row.rule},
			}, nil, nil)
			requireConfigError(t, err, row.path)
			_, err = json.Marshal(row.rule)
			require.ErrorIs(t, err, rulvar.ErrConfig, "a wrong rule must not be written")
			require.NotPanics(t, func() { _ = row.rule.String() })
		})
	}
}

// A rule keeps the lists that it was made from, whatever becomes of them.
func TestRuleOwnsItsLists(t *testing.T) {
	names := []string{"edit", "view"}
	r := rulvar.ToolRule(names...)
	names[0] = "other"
	require.Equal(t, `{"tool":["edit","view"]}`, r.String())
}

func FuzzRuleJSON(f *testing.F) {
	for _, s := range []string{
		`{"tool":"edit"}`, `{"tool":["a","b"],"argv":["rm **","mv * *"]}`, `{"risk":["undeclared","read"]}`,
		`{"tool":"fetch","domains":["*.example.com:8443","[::1]","*"]}`, `{"tool":"edit","tool":"x"}`, `{}`, `null`,
		`{"risk":"bogus"}`, `{"tool":"sh","argv":"** x"}`, `{"tool":"sh","argv":"\ud800"}`, `{"tool":"sh","argv":"'*' \"**\""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r rulvar.Rule
		if err := r.UnmarshalJSON(data); err != nil {
			require.ErrorIs(t, err, rulvar.ErrConfig)
			return
		}
		text, err := r.MarshalJSON()
		require.NoError(t, err)
		var again rulvar.Rule
		require.NoError(t, again.UnmarshalJSON(text), "%s", text)
		require.Equal(t, string(text), again.String())
		_, err = rulvar.CompilePermissionChain(&rulvar.PermissionConfig{Ask: []rulvar.Rule{r}}, nil, nil)
		require.NoError(t, err, "what unmarshals must compile")
	})
}
