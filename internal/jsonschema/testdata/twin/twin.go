// Package twin has a type with the same name as one of the tests.
package twin

// Same is the other one.
type Same struct {
	There int `json:"there"`
}
