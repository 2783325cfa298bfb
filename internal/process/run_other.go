//go:build !unix

package process

import (
	"context"
	"errors"
)

// Supported says whether [Run] works here.
const Supported = false

// Run is an error: there are no process groups and no signals here to end a
// program with.
func Run(context.Context, *Spec) (*Result, error) {
	return nil, errors.ErrUnsupported
}
