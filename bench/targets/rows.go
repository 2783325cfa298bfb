package main

// row is one figure of TARGETS.md.
type row struct {
	id, item string
	// of and by are benchmarks of the item, whose times are divided.
	of, by string
	// unit names a figure that the benchmark of reports itself; by is not
	// used then.
	unit string
	// cpu: processor time is divided.
	cpu bool
	// atLeast: the figure should be high, else low.
	atLeast bool
	// goal is what the figure should reach, and first what it has to reach
	// before; 0 is none.
	goal, first float64
}

func most(id, item, of, by string, goal, first float64) row {
	return row{id: id, item: item, of: of, by: by, goal: goal, first: first}
}

func least(id, item, of, by string, goal float64) row {
	return row{id: id, item: item, of: of, by: by, goal: goal, atLeast: true}
}

func own(id, item, of, unit string, goal, first float64) row {
	return row{id: id, item: item, of: of, unit: unit, goal: goal, first: first}
}

// cpu has a row divide processor times.
func cpu(r row) row {
	r.cpu = true
	return r
}

var rows = []row{
	most("a1", "a_policy", "Decide/allow/rulvar", "Decide/allow/hand-bound", 2, 0),
	own("a1", "a_policy", "Decide/allow/rulvar", "allocs/op", 0, 0),
	least("a1", "a_policy", "Decide/allow/expr", "Decide/allow/rulvar", 4),
	least("a1", "a_policy", "Decide/allow/cedar-go", "Decide/allow/rulvar", 40),
	most("a2", "a_policy", "Many/rulvar", "Many/hand-indexed-bound", 5, 0),
	most("a2", "a_policy", "Many/rulvar", "Decide/ask/rulvar", 1.5, 0),
	least("a2", "a_policy", "Many/cedar-go", "Many/rulvar", 200),

	most("b1", "b_shell", "Judge/npm/rulvar", "Judge/npm/byte-loop-bound", 8, 0),
	most("b1", "b_shell", "Judge/git/rulvar", "Judge/git/byte-loop-bound", 8, 0),
	most("b1", "b_shell", "Judge/chain/rulvar", "Judge/chain/byte-loop-bound", 8, 0),
	own("b1", "b_shell", "Judge/chain/rulvar", "allocs/op", 0, 0),
	least("b1", "b_shell", "Judge/npm/mvdan-sh-argv", "Judge/npm/rulvar", 25),
	least("b1", "b_shell", "Judge/git/mvdan-sh-argv", "Judge/git/rulvar", 25),
	least("b1", "b_shell", "Judge/chain/mvdan-sh-argv", "Judge/chain/rulvar", 25),
	cpu(most("b2", "b_shell", "Judge/2kB/rulvar", "Judge/2kB/mvdan-sh-argv", 1.15, 2.2)),

	cpu(most("c1", "c_canon", "Toolset/tree/rulvar", "Toolset/tree/sha256-bound", 6, 6)),
	own("c1", "c_canon", "Toolset/tree/rulvar", "allocs/op", 0, 0),
	cpu(least("c1", "c_canon", "Toolset/tree/encoding-json-marshal-jsontext", "Toolset/tree/rulvar", 4)),
	cpu(least("c1", "c_canon", "Toolset/tree/encoding-json-marshal-jcs", "Toolset/tree/rulvar", 12)),
	cpu(most("c1 kept", "c_canon", "Contracts/rulvar-toolset-hash", "Contracts/sha256-bound", 1.5, 1.5)),
	cpu(most("c2", "c_canon", "Toolset/text/rulvar", "Toolset/text/sha256-bound", 11, 0)),
	cpu(most("c2", "c_canon", "Toolset/text/rulvar", "Toolset/text/jsontext-canonicalize", 0.7, 0)),
	cpu(least("c2", "c_canon", "Toolset/text/gowebpki-jcs", "Toolset/text/rulvar", 6.5)),

	cpu(most("d1", "d_schema", "CheckAndDecode/rulvar", "CheckAndDecode/struct-unmarshal-bound", 1.6, 8)),
	cpu(least("d1", "d_schema", "CheckAndDecode/xeipuuv", "CheckAndDecode/rulvar", 3.3)),
	cpu(least("d1", "d_schema", "CheckAndDecode/google-jsonschema-go", "CheckAndDecode/rulvar", 6)),
	cpu(least("d2", "d_schema", "Reflect/google-For-and-Resolve", "Reflect/rulvar-first", 4)),
	cpu(most("d2", "d_schema", "Reflect/rulvar-first", "Reflect/reflect-walk-bound", 35, 0)),
	cpu(least("d2 again", "d_schema", "Reflect/google-For-and-Resolve", "Reflect/rulvar-again", 4)),
	cpu(most("d2 again", "d_schema", "Reflect/rulvar-again", "Reflect/reflect-walk-bound", 35, 0)),

	own("e1", "e_journal", "Paired/one/rulvar-file-store", "x-bound", 1.05, 0),
	own("e1", "e_journal", "Paired/one/rulvar-file-store", "x-growing", 1.05, 0),
	own("e2", "e_journal", "Paired/group64/rulvar-file-store", "x-bound", 1.15, 0),
	own("e2", "e_journal", "Paired/group64/rulvar-file-store", "x-growing", 1.15, 0),
	most("e3", "e_journal", "Concurrent64/rulvar-file-store", "Concurrent64/file-group-commit-fdatasync", 1.2, 0),
	least("e3", "e_journal", "Concurrent64/bbolt-batch", "Concurrent64/rulvar-file-store", 3),
	cpu(most("e4", "e_journal", "Replay/decode/rulvar-load", "Replay/decode/lines-scan-bound", 8, 40)),
	cpu(least("e4", "e_journal", "Replay/decode/goccy", "Replay/decode/rulvar-load", 2.5)),
	cpu(least("e4", "e_journal", "Replay/decode/encoding-json", "Replay/decode/rulvar-load", 10)),

	most("f1 cold", "f_worktree", "Acquire/rulvar-cold", "Acquire/git-cli-worktree-add", 0.7, 1.1),
	most("f1 reused", "f_worktree", "Acquire/rulvar-pooled", "Acquire/git-cli-worktree-add", 0.15, 0.15),
	most("f2", "f_worktree", "Cycle/rulvar-pooled", "Cycle/git-cli-pooled-reset", 1, 0),
	most("f2", "f_worktree", "Cycle/rulvar-pooled", "Cycle/git-cli-worktree", 0.15, 0),
	most("f3", "f_worktree", "Diff/rulvar-collect", "Diff/git-add-N-and-diff", 0.6, 1.3),
	most("f3", "f_worktree", "Diff/rulvar-collect", "Diff/lstat-walk-bound", 4, 0),

	most("g", "g_durable", "Steps/rulvar-file-store", "Steps/jsonl-fdatasync-bound", 1.1, 1.2),
	own("g paired", "g_durable", "Paired/rulvar", "x-bound", 1.1, 1.2),
	least("g", "g_durable", "Steps/dbos-postgres", "Steps/rulvar-file-store", 4),
	cpu(least("g unsynced", "g_durable", "Steps/dbos-sqlite-NOT-DURABLE", "Steps/rulvar-file-store-NOT-DURABLE", 20)),

	cpu(most("h", "h_mcp", "Call/rulvar-parts", "Call/direct-typed-bound", 1.5, 6)),
	cpu(most("h engine", "h_mcp", "Call/rulvar-engine-memory", "Call/direct-typed-bound", 1.5, 6)),
	cpu(most("h MCP", "h_mcp", "Call/rulvar-engine-mcp", "Call/mcp-typed-in-memory", 1.1, 0)),
	cpu(least("h", "h_mcp", "Call/mcp-typed-in-memory", "Call/rulvar-parts", 45)),

	own("j", "j_executor", "Paired", "x-bare/rulvar-subprocess", 1.3, 0),
}
