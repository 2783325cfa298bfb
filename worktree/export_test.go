package worktree

// SetStep has fn told of each place at which a process may die.
func SetStep(fn func(string)) { step = fn }
