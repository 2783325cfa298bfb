//go:build linux && !amd64 && !arm64

package confine

import "errors"

// denySockets refuses: the filter is written for other machines.
func denySockets() error {
	return errors.New("the network cannot be taken away on this kind of machine: allow it, or use bubblewrap")
}
