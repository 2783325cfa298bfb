//go:build !race

package rulvar_test

const raceEnabled = false
