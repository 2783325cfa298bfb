// Package policy times one permission decision per tool call, with the same
// policy written for each engine.
//
// The policy: deny beats ask beats allow.
//
//	deny  1  tool in {rm_rf, drop_table, format_disk}
//	deny  2  risk == critical
//	deny  3  tool starts with "secrets."
//	ask   1  tool in {shell, deploy, git_push}
//	ask   2  risk == high
//	ask   3  tool starts with "db." and is not read-only
//	allow    everything else
//
// Every engine must return the verdict itself (deny, ask or allow), not only a
// boolean, and TestAgree holds them to one answer on the full input matrix.
package policy

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"
	"github.com/cedar-policy/cedar-go"
	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

type verdict string

const (
	deny  verdict = "deny"
	ask   verdict = "ask"
	allow verdict = "allow"
)

// call is what a permission chain sees of one tool call.
type call struct {
	Tool     string `expr:"tool"`
	Risk     string `expr:"risk"`
	ReadOnly bool   `expr:"read_only"`
}

type decider func(call) (verdict, error)

// engines lists ours and the peers; the last is the hand-written lower bound.
var engines = []struct {
	name string
	make func() (decider, error)
}{
	{"rulvar", newRulvar},
	{"cedar-go", newCedar},
	{"cedar-go-prebuilt-request", newCedarPrebuilt},
	{"opa", newOPA},
	{"opa-parsed-input", newOPAParsed},
	{"casbin", newCasbin},
	{"expr", newExpr},
	{"cel-go", newCEL},
	{"hand-bound", newHand},
}

var cases = []struct {
	name string
	c    call
	want verdict
}{
	{"allow", call{"read_file", "low", true}, allow}, // no rule matches: the worst case
	{"deny", call{"secrets.read", "low", true}, deny},
	{"ask", call{"db.insert", "low", false}, ask},
}

func BenchmarkDecide(b *testing.B) {
	for _, c := range cases {
		for _, e := range engines {
			b.Run(c.name+"/"+e.name, func(b *testing.B) {
				d, err := e.make()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					got, err := d(c.c)
					if err != nil || got != c.want {
						b.Fatalf("got %q, %v; want %q", got, err, c.want)
					}
				}
			})
		}
	}
}

func TestAgree(t *testing.T) {
	hand, _ := newHand()
	tools := []string{"rm_rf", "drop_table", "format_disk", "secrets.read", "shell", "deploy", "git_push", "db.query", "db.insert", "read_file"}
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			d, err := e.make()
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range tools {
				for _, risk := range []string{"low", "high", "critical"} {
					for _, ro := range []bool{false, true} {
						c := call{tool, risk, ro}
						got, err := d(c)
						if want, _ := hand(c); err != nil || got != want {
							t.Errorf("%+v: got %q, %v; want %q", c, got, err, want)
						}
					}
				}
			}
		})
	}
}

// Cedar knows permit and forbid only: ask is a forbid that carries an
// annotation, told from a deny by the ids in the diagnostic.
const cedarPolicies = `
@id("allow") permit (principal, action == Action::"call", resource);
@id("deny1") forbid (principal, action == Action::"call", resource) when { ["rm_rf","drop_table","format_disk"].contains(context.tool) };
@id("deny2") forbid (principal, action == Action::"call", resource) when { context.risk == "critical" };
@id("deny3") forbid (principal, action == Action::"call", resource) when { context.tool like "secrets.*" };
@id("ask1") forbid (principal, action == Action::"call", resource) when { ["shell","deploy","git_push"].contains(context.tool) };
@id("ask2") forbid (principal, action == Action::"call", resource) when { context.risk == "high" };
@id("ask3") forbid (principal, action == Action::"call", resource) when { context.tool like "db.*" && !context.read_only };
`

func cedarSet() (*cedar.PolicySet, error) {
	list, err := cedar.NewPolicyListFromBytes("p.cedar", []byte(cedarPolicies))
	if err != nil {
		return nil, err
	}
	ps := cedar.NewPolicySet()
	for _, p := range list {
		ps.Add(cedar.PolicyID(p.Annotations()["id"]), p)
	}
	return ps, nil
}

func cedarRequest(c call) cedar.Request {
	return cedar.Request{
		Principal: cedar.NewEntityUID("Agent", "main"),
		Action:    cedar.NewEntityUID("Action", "call"),
		Resource:  cedar.NewEntityUID("Tool", cedar.String(c.Tool)),
		Context: cedar.NewRecord(cedar.RecordMap{
			"tool": cedar.String(c.Tool), "risk": cedar.String(c.Risk), "read_only": cedar.Boolean(c.ReadOnly),
		}),
	}
}

func cedarVerdict(d cedar.Decision, diag cedar.Diagnostic) (verdict, error) {
	if d == cedar.Allow {
		return allow, nil
	}
	if len(diag.Errors) > 0 {
		return "", fmt.Errorf("cedar: %s", diag.Errors[0].Message)
	}
	for _, r := range diag.Reasons {
		if strings.HasPrefix(string(r.PolicyID), "deny") {
			return deny, nil
		}
	}
	return ask, nil
}

func newCedar() (decider, error) {
	ps, err := cedarSet()
	if err != nil {
		return nil, err
	}
	return func(c call) (verdict, error) {
		return cedarVerdict(cedar.Authorize(ps, cedar.EntityMap{}, cedarRequest(c)))
	}, nil
}

// newCedarPrebuilt leaves the building of the request out of the timing.
func newCedarPrebuilt() (decider, error) {
	ps, err := cedarSet()
	if err != nil {
		return nil, err
	}
	var last call
	var req cedar.Request
	return func(c call) (verdict, error) {
		if c != last {
			last, req = c, cedarRequest(c)
		}
		return cedarVerdict(cedar.Authorize(ps, cedar.EntityMap{}, req))
	}, nil
}

const regoModule = `package tools

default verdict := "allow"

verdict := "deny" if {
	denied
} else := "ask" if {
	asked
}

denied if input.tool in {"rm_rf", "drop_table", "format_disk"}
denied if input.risk == "critical"
denied if startswith(input.tool, "secrets.")
asked if input.tool in {"shell", "deploy", "git_push"}
asked if input.risk == "high"
asked if {
	startswith(input.tool, "db.")
	not input.read_only
}
`

func prepareOPA() (rego.PreparedEvalQuery, error) {
	return rego.New(rego.Query("data.tools.verdict"), rego.Module("tools.rego", regoModule)).PrepareForEval(context.Background())
}

func opaVerdict(rs rego.ResultSet, err error) (verdict, error) {
	if err != nil {
		return "", err
	}
	s, ok := rs[0].Expressions[0].Value.(string)
	if !ok {
		return "", fmt.Errorf("opa: %v", rs)
	}
	return verdict(s), nil
}

func newOPA() (decider, error) {
	q, err := prepareOPA()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(c call) (verdict, error) {
		return opaVerdict(q.Eval(ctx, rego.EvalInput(map[string]any{"tool": c.Tool, "risk": c.Risk, "read_only": c.ReadOnly})))
	}, nil
}

// newOPAParsed hands OPA its own term type, which saves the JSON round trip.
func newOPAParsed() (decider, error) {
	q, err := prepareOPA()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	tool, risk, ro := ast.StringTerm("tool"), ast.StringTerm("risk"), ast.StringTerm("read_only")
	return func(c call) (verdict, error) {
		in := ast.NewObject([2]*ast.Term{tool, ast.StringTerm(c.Tool)}, [2]*ast.Term{risk, ast.StringTerm(c.Risk)}, [2]*ast.Term{ro, ast.BooleanTerm(c.ReadOnly)})
		return opaVerdict(q.Eval(ctx, rego.EvalParsedInput(in)))
	}, nil
}

// Casbin's effects are allow and deny too: the verdict rides along as a field
// of the matching row, which EnforceEx returns.
const casbinModel = `
[request_definition]
r = tool, risk, ro
[policy_definition]
p = tool, risk, ro, verdict, eft
[policy_effect]
e = priority(p.eft) || deny
[matchers]
m = keyMatch(r.tool, p.tool) && (p.risk == "*" || p.risk == r.risk) && (p.ro == "*" || p.ro == r.ro)
`

func newCasbin() (decider, error) {
	m, err := model.NewModelFromString(casbinModel)
	if err != nil {
		return nil, err
	}
	e, err := casbin.NewEnforcer(m)
	if err != nil {
		return nil, err
	}
	for _, row := range [][]string{
		{"rm_rf", "*", "*", "deny", "deny"}, {"drop_table", "*", "*", "deny", "deny"}, {"format_disk", "*", "*", "deny", "deny"},
		{"*", "critical", "*", "deny", "deny"},
		{"secrets.*", "*", "*", "deny", "deny"},
		{"shell", "*", "*", "ask", "deny"}, {"deploy", "*", "*", "ask", "deny"}, {"git_push", "*", "*", "ask", "deny"},
		{"*", "high", "*", "ask", "deny"},
		{"db.*", "*", "false", "ask", "deny"},
		{"*", "*", "*", "allow", "allow"},
	} {
		if _, err := e.AddPolicy(row); err != nil {
			return nil, err
		}
	}
	return func(c call) (verdict, error) {
		ro := "false"
		if c.ReadOnly {
			ro = "true"
		}
		_, row, err := e.EnforceEx(c.Tool, c.Risk, ro)
		if err != nil {
			return "", err
		}
		return verdict(row[3]), nil
	}, nil
}

const exprSource = `tool in ["rm_rf","drop_table","format_disk"] || risk == "critical" || tool startsWith "secrets." ? "deny" :
 tool in ["shell","deploy","git_push"] || risk == "high" || (tool startsWith "db." && !read_only) ? "ask" : "allow"`

func newExpr() (decider, error) {
	p, err := expr.Compile(exprSource, expr.Env(call{}), expr.AsKind(reflect.String))
	if err != nil {
		return nil, err
	}
	var machine vm.VM
	return func(c call) (verdict, error) {
		out, err := machine.Run(p, c)
		if err != nil {
			return "", err
		}
		return verdict(out.(string)), nil
	}, nil
}

const celSource = `tool in ["rm_rf","drop_table","format_disk"] || risk == "critical" || tool.startsWith("secrets.") ? "deny" :
 (tool in ["shell","deploy","git_push"] || risk == "high" || (tool.startsWith("db.") && !read_only) ? "ask" : "allow")`

func newCEL() (decider, error) {
	env, err := cel.NewEnv(cel.Variable("tool", cel.StringType), cel.Variable("risk", cel.StringType), cel.Variable("read_only", cel.BoolType))
	if err != nil {
		return nil, err
	}
	a, iss := env.Compile(celSource)
	if iss.Err() != nil {
		return nil, iss.Err()
	}
	prg, err := env.Program(a, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, err
	}
	return func(c call) (verdict, error) {
		out, _, err := prg.Eval(map[string]any{"tool": c.Tool, "risk": c.Risk, "read_only": c.ReadOnly})
		if err != nil {
			return "", err
		}
		return verdict(out.Value().(string)), nil
	}, nil
}

// handRule is a compiled rule: each set field narrows the match.
type handRule struct {
	names   map[string]struct{}
	prefix  string
	risk    string
	writing bool // matches only calls that are not read-only
	verdict verdict
}

func (r *handRule) match(c *call) bool {
	if r.names != nil {
		if _, ok := r.names[c.Tool]; !ok {
			return false
		}
	}
	if r.prefix != "" && !strings.HasPrefix(c.Tool, r.prefix) {
		return false
	}
	if r.risk != "" && r.risk != c.Risk {
		return false
	}
	return !(r.writing && c.ReadOnly)
}

// newHand is the lower bound: a loop over compiled rules, deny rules first.
func newHand() (decider, error) {
	set := func(s ...string) map[string]struct{} {
		m := map[string]struct{}{}
		for _, n := range s {
			m[n] = struct{}{}
		}
		return m
	}
	rules := []handRule{
		{names: set("rm_rf", "drop_table", "format_disk"), verdict: deny},
		{risk: "critical", verdict: deny},
		{prefix: "secrets.", verdict: deny},
		{names: set("shell", "deploy", "git_push"), verdict: ask},
		{risk: "high", verdict: ask},
		{prefix: "db.", writing: true, verdict: ask},
	}
	return func(c call) (verdict, error) {
		for i := range rules {
			if rules[i].match(&c) {
				return rules[i].verdict, nil
			}
		}
		return allow, nil
	}, nil
}
