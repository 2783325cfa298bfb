// Package isolation is the port between the engine and who makes trees for
// agents: what a provider does, and what the two tell each other of a tree.
// Package worktree implements it for git; [Provider] is for who implements it
// for something else, and is then given to the engine in Config.Isolation.
//
// What an agent asks for, [github.com/rulvar/rulvar-go.Isolation], is the root
// package's. Who runs agents or writes tools needs nothing of this one.
package isolation
