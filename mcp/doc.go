// Package mcp makes the tools of an MCP server (Model Context Protocol) tools
// of an agent. It is built on the official SDK,
// github.com/modelcontextprotocol/go-sdk.
//
//	files, err := mcp.New(&mcp.Stdio{Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", dir}},
//		&mcp.Options{
//			Prefix:   "fs",
//			Allow:    []string{"read_text_file", "write_file"},
//			Risk:     map[string]rulvar.Risk{"read_text_file": rulvar.RiskRead, "write_file": rulvar.RiskWrite},
//			Approval: map[string]bool{"write_file": true},
//		})
//	defer files.Close()
//	… rulvar.AgentOptions{Tools: []rulvar.ToolSource{files}}
//
// # What a server may say, and what it may not
//
// A server gives names, descriptions and schemas. They enter the toolset hash
// like those of any other tool, and every call passes the same chain. What a
// tool may do is said by the host alone, in Options.Risk and Options.Approval:
// a server's annotations are not read. A tool without an entry has undeclared
// risk, which the presets ask about.
//
// # The life of a source
//
// A [Source] connects when its tools are first asked for, keeps the list until
// the server says that it has changed, and connects again when the server has
// gone. A call that was under way when the server went is not sent again: it
// may have had its effect. Close ends the server, its process group included,
// and is final.
//
// # A change of the tools
//
// Under [DriftRekey] a changed tool has another hash, so a resumed agent with
// the old one is not matched and runs anew; an agent that is running keeps the
// tools it has. Under [DriftRefuse] nothing is listed and nothing is called
// once the tools differ from the first list. Options.Attestation pins the tools
// across processes: make it with [rulvar.AttestToolset], keep it as JSON.
//
// # Bounds
//
// Connecting, a page of the list, the whole list and a call each have a
// time-out; the number of tools and pages, the size of schemas, of messages and
// of results, and the rate at which a server may say what it was not asked for
// are bounded. What breaks a bound becomes an error of [Source.Tools] or an
// error result of the call, whose error is a [*CallError]; the run goes on.
package mcp
