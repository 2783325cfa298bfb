// Package worktree gives agents git worktrees of their own: a
// [isolation.Provider] on the git command and go-git.
//
//	provider, err := worktree.NewGitProvider(&worktree.GitOptions{RepoRoot: "."})
//	engine, err := rulvar.NewEngine(rulvar.Config{Isolation: provider, …})
//
// An agent's tree is a linked worktree with a detached HEAD: git in it works as
// usual, commits go to the repository's object store, and no branch is made. A
// worktree parts files. It is no containment: what runs in it reaches whatever
// its process reaches, the main repository's .git included.
//
// # What a patch holds
//
// A patch takes the recorded base to the tree as it stands: edits, new and
// deleted files, modes, symbolic links, binary files, names of any bytes, what
// the agent has committed and what it has not. It does not hold files that git
// ignores, unless the agent has added them to its index; those are named in
// Ignored. Repositories that an agent makes or clones inside its tree are taken
// as plain files. [ApplyPatch] applies a patch, and nothing else here does.
//
// Files are checked out and collected as their bytes are: no line ending is
// converted and no filter is run, so that an attribute which the agent writes
// cannot change what is collected. Files of git LFS are therefore their
// pointers. Directories of submodules are empty; a tree in which one was filled
// cannot be collected and is kept. Sparse checkouts are checked out in full.
// Refused, by name: repositories with SHA-256 objects, and trees whose objects
// are not all there (partial clones).
//
// # What is not run
//
// The repository's configuration is data of whoever wrote the repository, and
// after an agent has worked, of the agent. None of our git calls reads it: each
// tree has a git directory of ours, with a configuration that we write and the
// repository's objects as an alternate. Hooks, fsmonitor, filters, text
// conversion, external diff, aliases, pagers, signing, ssh and includes have no
// place in it; the environment, the user's and the system's configuration are
// left out too. The one call that works in the repository itself resolves a
// revision, with all of these off.
//
// # What outlives what
//
// A process may die at any moment: its trees stay with all that was written,
// their agents go on in them, and what was half made or half removed is swept.
// Trees are not synced to the disk. An agent that was at work when the machine
// went down therefore begins again, and its tree is kept for a person; where
// the system does not tell that the machine was started anew (any but Linux and
// macOS), it goes on with what the disk has. A parked agent's tree is compared
// with what the agent left, before it goes on in it. Patches are in the store
// and as durable as that.
//
// Any number of providers, processes and stores may share a directory. What
// becomes of a tree is decided by one of them at a time, under a lock that goes
// with its process, and each engine sweeps the trees of its own store.
//
// # Who reads what
//
// go-git reads the repository's configuration, HEAD, branches, and index files
// of any form but the one that our own git call writes. The git command does what go-git cannot: it writes checkouts in
// parallel and with their stat data, knows every ignore rule, writes binary
// patches, resolves revisions other than branches, opens repositories whose
// format go-git refuses, and peels tags without reading a large pack's index
// into memory.
package worktree
