package rulvar

import "github.com/rulvar/rulvar-go/internal/errs"

// Error is the type of every failure that the library itself reports. Its Code
// says what kind it is; ask with errors.Is:
//
//	if errors.Is(err, rulvar.ErrLeaseHeld) { … }
//
// Its fields:
//
//	Code      Code            the kind
//	Op        string          what was being done: "NewTool", "Resume", "append"
//	Path      string          where: a tool, a rule, a file with line and offset, a run id; or ""
//	Msg       string          what is wrong and, where it can, what to do
//	Retryable bool            the same call may succeed later unchanged
//	Data      map[string]any  facts for programs, such as the holder of a lock
//	Err       error           the cause, or nil
type Error = errs.Error

// Code is the kind of an [Error]. A Code is an error itself, so that it can
// stand as the target of errors.Is. The words are those of the journal format.
type Code = errs.Code

// The kinds of failure. Only [ErrLeaseHeld] is worth another try unchanged.
const (
	// ErrConfig: a definition, an option or a rule is wrong. Found before
	// anything runs.
	ErrConfig = errs.Config
	// ErrLeaseHeld: another segment works on the run. Data names its holder.
	ErrLeaseHeld = errs.LeaseHeld
	// ErrInvalidResolution: an answer to a suspension is malformed, or there
	// is no such suspension. Nothing was written.
	ErrInvalidResolution = errs.InvalidResolution
	// ErrJournalOrder: a journal is damaged, or a record does not fit its tail.
	ErrJournalOrder = errs.JournalOrder
	// ErrJournalIntegrity: a record could not be made durable, or a checkpoint
	// cannot be read.
	ErrJournalIntegrity = errs.JournalIntegrity
	// ErrJournalCompat: a record was written under an unknown hash version.
	ErrJournalCompat = errs.JournalCompat
	// ErrJournalMiss: a dry run came to work that the journal does not hold.
	ErrJournalMiss = errs.JournalMiss
	// ErrJournalSealed: the segment has settled and takes no more records.
	ErrJournalSealed = errs.JournalSealed
	// ErrNonSerializable: a value cannot be written as JSON.
	ErrNonSerializable = errs.NonSerializable
	// ErrInvalidArguments: tool arguments do not fit the tool's schema.
	ErrInvalidArguments = errs.InvalidArguments
	// ErrAgent: an agent call ended in another status than ok.
	ErrAgent = errs.Agent
	// ErrAdmissionRejected: a child workflow may not start; Data says why.
	ErrAdmissionRejected = errs.AdmissionRejected
	// ErrBudgetExhausted: a ceiling was reached.
	ErrBudgetExhausted = errs.BudgetExhausted
	// ErrIsolationGone: the tree of an agent is not there any more.
	ErrIsolationGone = errs.IsolationGone
)
