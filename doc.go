// Package rulvar lets a language model call tools safely and durably.
//
// # The idea
//
// A tool is a typed Go function with a JSON Schema. A model that is given the
// tool may call it; every call is judged by a permission chain that answers
// allow, deny or ask. An ask suspends the run: the process may exit, a person
// answers a day later from another machine, and the run goes on in the middle
// of the same turn, with nothing paid or executed twice. That works because
// everything a run does is recorded in a journal before anyone is told, and
// completed work is replayed from it.
//
//	greet := rulvar.MustTool(rulvar.NewTool(
//		rulvar.ToolConfig{Name: "greet", Description: "Greet somebody.", Risk: rulvar.RiskRead},
//		func(tc *rulvar.ToolContext, in struct {
//			Name string `json:"name"`
//		}) (string, error) {
//			return "hello, " + in.Name, nil
//		}))
//
//	hello := rulvar.DefineWorkflow("hello", func(c *rulvar.Ctx, name string) (string, error) {
//		return rulvar.Agent[string](c, "Greet "+name+".", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{greet}})
//	})
//
//	store, err := rulvar.OpenFileStore("runs", nil)
//	engine, err := rulvar.NewEngine(rulvar.Config{Store: store, Providers: providers, Model: "anthropic:claude-sonnet-5"})
//	run, err := rulvar.Run(ctx, engine, hello, "Ada", nil)
//	outcome, err := run.Result(ctx)
//
// The package's example runs this program against a scripted model.
//
// # The words
//
// A workflow ([DefineWorkflow]) is a Go function that calls agents, steps and
// the other primitives of its [Ctx]. A run is one execution of it, with an id.
// A segment is the part of a run that one process lives through, from [Run] or
// [Resume] until it settles; at most one segment works on a run at a time.
//
// An agent ([Agent]) is a conversation with a model: turns, in which the model
// calls tools, until it answers. After each turn a checkpoint is written.
//
// A verdict is what the chain says of a call. Its steps are, in order: hooks,
// deny rules, ask rules, CanUseTool, and the default, which is allow unless
// the tool needs approval. Its layers are the engine's, the inherited one and
// the agent profile's. [EvaluatePermission] is the dry run, for tests.
//
// The journal is the run's list of records. An operation has a content key,
// made of what it is and not of when it ran; a resume runs the workflow again
// from the top and finds each operation by its key. Its disposition says
// whether it is replayed, run again or run for the first time. A suspension is
// a record that waits; a resolution ([Engine.Resolve]) closes it, and the first
// one wins.
//
// # Promises
//
// What was judged is what runs: arguments are decoded, checked and completed
// once, and that value is judged, shown to the approver and executed. What
// goes wrong never means allow: zero values, panics, unknown words and missing
// records deny or ask. A record is durable before the thing it licenses
// happens and before anyone is told.
//
// A step, and a tool call between its effect and the next checkpoint, is
// at-least-once: a process that dies there runs it again. Give tools natural
// idempotency keys, or see [Config.OnInterrupted].
//
// Policy governs what is dispatched, not what running code does. Tools in
// process are not contained.
package rulvar
