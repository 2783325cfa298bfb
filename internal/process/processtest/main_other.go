//go:build !linux

package processtest

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs a package's tests, is called by its TestMain and does not return.
// Goroutines that are left when they have ended fail the package; processes are
// found on Linux alone.
func Main(m *testing.M) { goleak.VerifyTestMain(m) }
