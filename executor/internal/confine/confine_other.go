//go:build !linux

package confine

import "errors"

// Command is an error: there is no Landlock here.
func Command(*Policy, string, []string) (string, []string, error) {
	return "", nil, errors.New("Landlock is a part of Linux")
}
