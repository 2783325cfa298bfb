//go:build !unix

package shell

import (
	"context"
	"errors"
)

// There are no process groups, no signals and no inherited pipes here: a
// command could not be ended with what it has started.
const supported = false

func (r *runner) run(context.Context, *job) (*Result, error) {
	return nil, errors.New("the shell tool needs a Unix system")
}
