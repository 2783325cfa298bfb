package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// AgentProfile is a named kind of agent, registered in [Config.Profiles].
type AgentProfile struct {
	Description string
	// Model and Effort override the engine's.
	Model, Effort string
	// Fallbacks are models to ask, in order, when the one before stays
	// overloaded, rate-limited or out of reach after its retries.
	Fallbacks []string
	// Routes are the models of its agents beside their loop.
	Routes Routes
	// Tools are the tools of its agents where the call names none.
	Tools []ToolSource
	// Attestation pins the toolset; a spawn with another is an [ErrConfig].
	Attestation *ToolsetAttestation
	// Permissions is the profile's layer of the chain.
	Permissions *AgentProfilePermissions
	// Isolation is that of its agents where the call sets none.
	Isolation *Isolation
	// Limits are laid over the engine's.
	Limits *UsageLimits
	// Escalation gives its agents the tool escalate where the call sets none.
	Escalation *EscalationOptions
}

// AgentOptions refine an agent call. Fields that are not set are taken from
// the profile, then from the engine. Model, Effort, Tools, Isolation, Schema,
// AgentType and the prompt (or Key) are the call's identity; changing one makes
// another agent. The rest may change between segments.
type AgentOptions struct {
	// AgentType names a profile. Empty is an agent without one.
	AgentType string
	// Model is "provider:model".
	Model  string
	Effort string
	// Fallbacks replace the profile's.
	Fallbacks []string
	// Routes go before the profile's and the engine's, field by field.
	Routes Routes
	// Tools replace the profile's; an empty, non-nil list is no tools.
	Tools []ToolSource
	// Isolation replaces the profile's.
	Isolation *Isolation
	// Schema is the JSON Schema of the answer, for results of type
	// json.RawMessage or any. Other types bring their own.
	Schema json.RawMessage
	// Key stands in for the prompt in the call's identity.
	Key string
	// SecondAttempt makes another agent of the call where the first has failed.
	SecondAttempt *SecondAttempt
	// Approach names the way in which the task is tried. It is recorded once,
	// for those who compare attempts, and is no part of the identity.
	Approach string
	// Label is for events and policy closures.
	Label  string
	Limits *UsageLimits
	// Stream emits text as it arrives.
	Stream bool
	// Replay is where the journal is asked for the call. Default: in its scope.
	Replay ReplayMode
	// MemoizeOutcome makes a resume keep a failure that a retry cannot mend,
	// and a reached limit, instead of trying again.
	MemoizeOutcome bool
	// Escalation gives the agent the tool escalate, with which it says that it
	// cannot do its task as it is set; it replaces the profile's. The tool is
	// part of the identity. Default: none.
	Escalation *EscalationOptions

	spawn *spawning // of an orchestrating agent
}

// ReplayMode is where a call looks for what it did in an earlier segment.
type ReplayMode string

// The modes: in the call's own scope, anywhere in the run, or nowhere.
const (
	ReplayScoped ReplayMode = ""
	ReplayCache  ReplayMode = "cache"
	ReplayNever  ReplayMode = "never"
)

// AgentStatus is how an agent ended.
type AgentStatus string

// The statuses of an agent.
const (
	AgentOK        AgentStatus = "ok"
	AgentErrored   AgentStatus = "error"
	AgentLimit     AgentStatus = "limit"
	AgentCancelled AgentStatus = "cancelled"
	AgentSkipped   AgentStatus = "skipped"
	AgentEscalated AgentStatus = "escalated"
)

// AgentResult is how an agent ended, in full.
type AgentResult[T any] struct {
	Status AgentStatus
	// Output is the answer; the zero value unless Status is ok.
	Output T
	Usage  llm.Usage
	// Turns is how many requests were made; zero under a replay.
	Turns int
	// ServedBy is the model that answered.
	ServedBy string
	// TranscriptRef is the blob of the whole conversation.
	TranscriptRef string
	// Err says why Status is not ok; its Data holds "kind" and "status".
	Err *Error
	// EntryRef is the record that holds the result.
	EntryRef int64
	// Artifacts are what the agent leaves beside its answer: the patch of its
	// worktree, whatever its status, and a tree that was kept.
	Artifacts []Artifact
	// Escalation is what the agent has reported where Status is escalated.
	Escalation *Escalation
}

// Agent asks a model, lets it call tools, and returns its answer. A string T
// takes the answer's text; another T has the model answer with JSON of the
// type's schema, and asks again, twice at most, where it does not fit. An agent
// that ends otherwise than ok is an [ErrAgent].
//
// The answer is journaled: a replay returns it without asking. An agent whose
// process died goes on at its last checkpoint. A tool call that needs an
// approval parks the calling goroutine until it is answered, and suspends the
// run when nothing else can go on.
func Agent[T any](c *Ctx, prompt string, opts *AgentOptions) (T, error) {
	r, err := AgentFull[T](c, prompt, opts)
	if err == nil && r.Err != nil {
		err = r.Err
	}
	return r.Output, err
}

// AgentFull is [Agent] with the whole result. The error is for a call that
// could not be made; an agent that failed is a result.
func AgentFull[T any](c *Ctx, prompt string, opts *AgentOptions) (AgentResult[T], error) {
	if opts == nil {
		opts = &AgentOptions{}
	}
	if err := c.begin("Agent"); err != nil {
		return AgentResult[T]{}, err
	}
	defer c.end()
	schema, err := answerSchema[T](opts)
	if err != nil {
		return AgentResult[T]{}, err
	}
	r, err := c.agent(prompt, opts, schema)
	if err != nil {
		return AgentResult[T]{}, err
	}
	out := AgentResult[T]{
		Status: r.status, Usage: r.usage, Turns: r.turns, ServedBy: r.servedBy,
		TranscriptRef: r.transcriptRef, Err: r.err, EntryRef: r.entryRef, Artifacts: r.artifacts,
	}
	if r.escalation != nil {
		out.Escalation, err = readEscalation(r.escalation)
		return out, err
	}
	if r.status != AgentOK || r.output == nil {
		return out, nil
	}
	out.Output, err = decodeRecorded[T]("Agent", prompt, r.output)
	return out, err
}

// agentOutcome is an agent's end before its answer is decoded.
type agentOutcome struct {
	status        AgentStatus
	output        json.RawMessage
	usage         llm.Usage
	usageByModel  []modelUsage
	turns         int
	servedBy      string
	transcriptRef string
	err           *Error
	entryRef      int64
	artifacts     []Artifact
	escalation    json.RawMessage // an [Escalation]
}

// replayed returns what the journal holds of the agent and retells its start
// and end.
func (a *agentRun) replayed(op *replay.Operation) (agentOutcome, error) {
	en := op.Recorded()
	out := agentOutcome{status: AgentStatus(en.Status), output: en.Value, servedBy: en.ServedBy, entryRef: en.Seq, escalation: en.Escalation}
	if en.TranscriptRef != nil {
		out.transcriptRef = *en.TranscriptRef
	}
	if en.Usage != nil {
		if err := json.Unmarshal(en.Usage, &out.usage); err != nil {
			return out, errs.Wrap(errs.JournalOrder, "replay", fmt.Sprintf("entry %d", en.Seq), "the recorded usage has a wrong shape", err)
		}
	}
	var err error
	if out.artifacts, err = readArtifacts(en); err != nil {
		return out, err
	}
	if out.status != AgentOK {
		out.err = replayedError(en, out.status)
	}
	a.seg.addUsage(out.usage)
	a.emit(true, AgentStarted{AgentType: a.info.Type, Label: a.info.Label, Model: a.modelRef, Role: a.loop.role})
	if a.orch != nil {
		if err := a.orch.retell(op.Start.Seq); err != nil {
			return out, err
		}
	}
	a.emit(true, AgentEnded{AgentType: a.info.Type, Label: a.info.Label, Status: out.status, Usage: out.usage, EntryRef: en.Seq})
	return out, nil
}

func replayedError(en *Entry, status AgentStatus) *Error {
	if e, ok := recordedError(en).(*Error); ok {
		return e
	}
	return agentError(status, "", fmt.Sprintf("the agent ended with status %s", status), false)
}

// agentError is the error of an agent that ended otherwise than ok.
func agentError(status AgentStatus, kind llm.ErrorKind, msg string, retryable bool) *Error {
	e := errs.New(errs.Agent, "Agent", "", msg)
	e.Retryable = retryable
	e.Data = map[string]any{"status": string(status)}
	if kind != "" {
		e.Data["kind"] = string(kind)
	}
	return e
}

func (s *segment) addUsage(u llm.Usage) {
	s.mu.Lock()
	s.usage = s.usage.Add(u)
	s.mu.Unlock()
}

// boot restores the state of an agent whose process died.
func (a *agentRun) boot() error {
	ref := checkpointRef(a.seg.runID, a.running.Seq)
	blob, err := a.seg.e.store.Get(context.WithoutCancel(a.ctx), ref)
	switch {
	case err != nil:
		return err
	case blob == nil && a.isolated():
		return a.restart() // its tree may hold what its history does not tell
	}
	state, err := a.lastCheckpoint(ref, blob)
	if err != nil {
		if a.seg.e.cfg.OnCorruptCheckpoint != CorruptRestart {
			return err
		}
		a.log("an agent starts again: its checkpoint cannot be read", "ref", ref, "error", err)
		if a.isolated() {
			return a.restart()
		}
	}
	if state == nil {
		return nil
	}
	a.state, a.resumed, a.saved = *state, true, true
	for _, u := range a.state.UsageByModel {
		if err := a.seg.budget.book(u.ServedBy, u.Usage); err != nil {
			return err
		}
	}
	if !a.isolated() {
		return nil
	}
	if there, err := a.reattachTree(); there || err != nil {
		return err
	}
	return a.restart()
}

// lastCheckpoint reads what the agent's last checkpoint holds; nil where the agent
// had not come so far. That one was lost, an approval tells: the agent has
// asked for it from a checkpoint.
func (a *agentRun) lastCheckpoint(ref string, blob []byte) (*checkpoint, error) {
	if blob != nil {
		return decodeCheckpoint(ref, blob)
	}
	scope := replay.AgentScope(a.scope, a.running.Seq)
	a.seg.mu.Lock()
	defer a.seg.mu.Unlock()
	for sus := range a.seg.fold.Suspensions() {
		if sus.Entry.Scope == scope && sus.Entry.Kind == journal.KindApproval {
			return nil, errs.New(errs.JournalIntegrity, "resume", ref,
				fmt.Sprintf("the checkpoint is missing: the agent has asked for approval %d from one; put it back, or begin the agent again with CorruptRestart", sus.Entry.Seq))
		}
	}
	return nil, nil
}

func firstWords(s string) string {
	r := []rune(s)
	return string(r[:min(len(r), 60)])
}

// finish writes the transcript and the terminal entry and tells the end.
func (a *agentRun) finish(out agentOutcome) (agentOutcome, error) {
	if a.orch != nil {
		if err := a.orch.dismiss(); err != nil {
			return out, err
		}
	}
	out.usage, out.usageByModel, out.turns = a.state.Usage, a.state.UsageByModel, a.state.Turns
	out.servedBy = a.loop.served().ref
	a.seg.addUsage(out.usage)
	release, err := a.collectTree(&out)
	if err != nil {
		return out, err
	}
	ref, err := a.storeTranscript()
	if err != nil {
		return out, err
	}
	out.transcriptRef = ref
	end := terminal(a.running, journal.Status(out.status))
	end.Value, end.ServedBy, end.TranscriptRef = out.output, out.servedBy, &ref
	if a.saved {
		end.CheckpointRef = checkpointRef(a.seg.runID, a.running.Seq)
	}
	if end.Usage, err = marshalJSON(out.usage); err != nil {
		return out, err
	}
	if len(out.usageByModel) > 1 {
		if end.UsageByModel, err = marshalJSON(out.usageByModel); err != nil {
			return out, err
		}
	}
	if out.escalation != nil {
		if out.escalation, err = a.salvaged(out.escalation, ref, out.artifacts); err != nil {
			return out, err
		}
		end.Escalation = out.escalation
	}
	if out.err != nil && (out.status == AgentErrored) {
		end.Error = wireError(out.err)
	}
	if out.artifacts != nil {
		if end.Artifacts, err = marshalJSON(out.artifacts); err != nil {
			return out, err
		}
	}
	if err := a.seg.append(end); err != nil {
		return out, err
	}
	a.releaseTree(release)
	out.entryRef = end.Seq
	a.emit(false, AgentEnded{AgentType: a.info.Type, Label: a.info.Label, Status: out.status, Usage: out.usage, EntryRef: end.Seq})
	return out, nil
}

func (a *agentRun) storeTranscript() (string, error) {
	ref := fmt.Sprintf("%s/tr/%d", a.seg.runID, a.running.Seq)
	blob, err := marshalJSON(struct {
		Messages []llm.Message `json:"messages"`
	}{slices.Concat([]llm.Message{}, a.state.Messages)})
	if err != nil {
		return "", err
	}
	return ref, a.seg.e.store.Put(context.WithoutCancel(a.ctx), ref, blob)
}

// parseAnswer takes the answer's JSON out of its text and validates it.
func (s *compiledSchema) parseAnswer(text string) (json.RawMessage, []string) {
	raw := []byte(text)
	tree, err := jcs.ParseStrict(raw)
	if err != nil {
		candidate, ok := jcs.Repair(text)
		if !ok {
			return nil, []string{fmt.Sprintf("the answer is not JSON: %s", issueText(err))}
		}
		if tree, err = jcs.ParseStrict([]byte(candidate)); err != nil {
			return nil, []string{fmt.Sprintf("the answer is not JSON: %s", issueText(err))}
		}
	}
	effective, issues := s.fit(tree)
	if issues != nil {
		return nil, issues
	}
	out, err := jcs.AppendTree(nil, effective)
	if err != nil {
		return nil, []string{issueText(err)}
	}
	if tooDeep(out) {
		return nil, []string{tooDeepText}
	}
	return out, nil
}
