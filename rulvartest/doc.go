// Package rulvartest helps to test code that uses rulvar: a scripted model, an
// engine that checks what it leaves behind, assertions on policy, a recorder of
// real models ([Cassette]), a suite for adapters ([RunProviderSuite]), and a way
// to kill a process at a named point and see what a resume makes of it.
//
// A test of a policy needs no engine and no model:
//
//	rulvartest.RequireVerdict(t, chain, deploy, map[string]any{"service": "api"}, rulvar.VerdictAsk)
//
// A test of a workflow runs it against a script:
//
//	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
//		{Calls: []rulvartest.Call{{Tool: "deploy", Args: map[string]any{"service": "api"}}}},
//		{Text: "deployed"},
//	}})
//	e := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:model"})
package rulvartest
