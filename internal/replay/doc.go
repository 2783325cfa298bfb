// Package replay is the pure core of resuming a run: it decides, from the
// entries of a journal alone, what a call of the current segment means.
//
// Vocabulary. A run is executed in segments; each segment runs the workflow
// body from the top. A call has a scope (where in the workflow it stands) and
// a content key (what it asks for). An operation is what one call left in the
// journal: a running entry and its terminal, one single entry, or one
// suspended entry. The disposition says what a new call does with the
// operation it binds to: replay the recorded result, run again, continue a
// dangling dispatch, wait for a resolution, or go live.
//
//	entries ──CheckVersions──▶ NewFold ──▶ NewMatcher ──▶ Match / Approval
//	            (window.go)    (fold.go)    (match.go, approval.go)
//
// Nothing here does I/O, reads a clock or starts a goroutine. Time is an
// argument, schema validation is a function of the caller. The types are not
// safe for concurrent use; a segment holds its own lock around them.
package replay
