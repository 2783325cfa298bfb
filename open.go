package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/replay"
)

func resumeSegment[A, R any](ctx context.Context, s *segment, w *Workflow[A, R], opts *ResumeOptions[A]) (args A, err error) {
	if err := s.openExisting(ctx, opts.Invalidate); err != nil {
		return args, err
	}
	defer func() {
		if err != nil {
			s.abandonOpen()
		}
	}()
	refuse := func(msg string, cause error) error { return errs.Wrap(errs.Config, "Resume", s.runID, msg, cause) }
	if s.meta.WorkflowName != "" && s.meta.WorkflowName != w.name {
		return args, refuse(fmt.Sprintf("the run belongs to the workflow %q, not %q", s.meta.WorkflowName, w.name), nil)
	}
	if have := s.meta.ConfigFingerprint; have != "" && opts.ConfigFingerprint != "" && have != opts.ConfigFingerprint {
		return args, refuse(fmt.Sprintf("the run was started under the configuration %q, not %q", have, opts.ConfigFingerprint), nil)
	}
	if err := s.checkVersion(w.hash(), w.version, opts.RefuseVersion); err != nil {
		return args, err
	}
	if err := s.refuseOpenIntents(opts.AcknowledgeWireIntents); err != nil {
		return args, err
	}
	text := s.meta.Args
	if opts.Args != nil {
		_, hash, err := encodeArgs(*opts.Args)
		if err != nil {
			return args, refuse("the arguments cannot be written as JSON", err)
		}
		if recorded, err := s.recordedArgsHash(); err != nil || recorded != "" && hash != recorded {
			return args, refuse("the arguments are not those that the run was started with", nil)
		}
		args = *opts.Args
	} else if text != nil {
		if canonical, err := jcs.Canonical(text); err != nil || s.meta.ArgsHash != "" && jcs.Sum(canonical) != s.meta.ArgsHash {
			return args, errs.Wrap(errs.JournalIntegrity, "Resume", s.runID, "the recorded arguments are not those that their hash was made of: the metadata is damaged", err)
		}
		if err := json.Unmarshal(text, &args); err != nil {
			return args, refuse("the recorded arguments do not fit the workflow's type", err)
		}
	} else if s.meta.ArgsProvided {
		return args, refuse("the run's arguments are not recorded: give them in ResumeOptions.Args", nil)
	}
	return args, s.beginResume(ctx, opts.BudgetUSD)
}

// recordedArgsHash is the hash of the arguments that the run was started with,
// "" where nothing is known of them.
func (s *segment) recordedArgsHash() (string, error) {
	if s.meta.ArgsHash != "" || s.meta.Args == nil {
		return s.meta.ArgsHash, nil
	}
	canonical, err := jcs.Canonical(s.meta.Args)
	return jcs.Sum(canonical), err
}

// checkVersion compares the workflow's version with the recorded one. A journal
// of another writer carries a hash that means nothing here.
func (s *segment) checkVersion(hash, version string, refuse bool) error {
	if s.meta.WorkflowHash == "" || s.meta.WorkflowHash == hash || s.foreign() {
		return nil
	}
	if refuse {
		return errs.New(errs.Config, "Resume", s.runID, fmt.Sprintf("the run was started under another version of the workflow than %q", version))
	}
	s.versionWarning = true
	return nil
}

// foreign reports whether another system began the run: it does not record
// arguments in the metadata.
func (s *segment) foreign() bool { return s.meta.Args == nil }

func (e *Engine) newSegment(ctx context.Context, workflow string) *segment {
	s := &segment{
		e: e, workflow: workflow, number: 1, span: "s0", // the bus's first

		kick: make(chan struct{}, 1), quiet: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan struct{}),
		slots: newSlots(e.cfg.Concurrency), parked: make(map[int64]*parkedCall), sites: make(map[string]int64), awaited: make(map[awaitedKey]bool),
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// openNew takes the lock of a run that must not exist and writes its metadata.
func (s *segment) openNew(ctx context.Context) (err error) {
	if s.lock, err = s.e.store.Lock(ctx, s.runID, owner()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.abandonOpen()
		}
	}()
	meta, entries, err := s.e.store.Load(ctx, s.runID, -1)
	if err != nil {
		return err
	}
	if meta != nil || len(entries) > 0 {
		return errs.New(errs.Config, "Run", s.runID, "the run exists: Resume continues it, and another run needs another id")
	}
	if err := s.index(nil, nil); err != nil {
		return err
	}
	if err := s.e.remember(s); err != nil {
		return err
	}
	return s.e.store.PutMeta(ctx, s.meta, s.lock)
}

// openExisting takes the lock of a run and reads its journal. Nothing is
// written yet.
func (s *segment) openExisting(ctx context.Context, invalidate []int64) (err error) {
	if !s.dryRun {
		// Looking first keeps a wrong id from leaving a lock file behind.
		if meta, entries, err := s.e.store.Load(ctx, s.runID, -1); err != nil {
			return err
		} else if meta == nil && len(entries) == 0 {
			return errs.New(errs.Config, "Resume", s.runID, "there is no such run")
		}
		if s.lock, err = s.e.store.Lock(ctx, s.runID, owner()); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			s.abandonOpen()
		}
	}()
	meta, entries, err := s.e.store.Load(ctx, s.runID, -1)
	if err != nil {
		return err
	}
	if meta == nil && len(entries) == 0 {
		return errs.New(errs.Config, "Resume", s.runID, "there is no such run")
	}
	if meta == nil {
		meta = &RunMeta{RunID: s.runID, Segments: 1, WorkflowName: s.workflow, ExecKeyDerivation: 2}
	}
	s.meta, s.number = meta, meta.Segments+1
	if err := replay.CheckVersions(entries); err != nil {
		return err
	}
	return s.index(entries, invalidate)
}

// index builds what a segment needs to know of the records before it.
func (s *segment) index(entries []*Entry, invalidate []int64) (err error) {
	if s.fold, err = replay.NewFold(entries, checkPinned); err != nil {
		return err
	}
	s.settled = s.fold.LastRunStatus()
	s.ordinals = replay.SeedOrdinals(entries)
	s.budget = s.e.newBudget(s.meta.BudgetUSD)
	s.budget.blind = func(model string) {
		const msg = "the run's budget does not count a model without a price: give it one in Config.Pricing"
		s.e.log.Warn("rulvar: "+msg, "run", s.runID, "model", model)
		s.logEvent(s.span, "", slog.LevelWarn, msg, "model", model)
	}
	if err := s.budget.seed(entries); err != nil {
		return err
	}
	s.matcher, err = replay.NewMatcher(entries, s.fold, invalidate)
	return err
}

// beginResume writes that a new segment has begun.
func (s *segment) beginResume(ctx context.Context, budgetUSD float64) error {
	recorded := s.meta.BudgetUSD
	if budgetUSD != 0 {
		if !(budgetUSD >= s.budget.spent) || math.IsInf(budgetUSD, 1) {
			return errs.New(errs.Config, "Resume", "BudgetUSD", fmt.Sprintf("the run has spent %.6f USD already", s.budget.spent))
		}
		s.budget.ceiling, s.meta.BudgetUSD = &budgetUSD, &budgetUSD
	}
	if s.dryRun {
		return nil
	}
	if err := s.e.remember(s); err != nil {
		return err
	}
	if budgetUSD != 0 && (recorded == nil || *recorded != budgetUSD) {
		if err := s.recordBudget(recorded, budgetUSD); err != nil {
			s.e.forget(s)
			return err
		}
	}
	if err := s.acknowledgeIntents(); err != nil {
		s.e.forget(s)
		return err
	}
	s.meta.Status, s.meta.Segments, s.meta.UpdatedAt = string(RunRunning), s.number, stamp(time.Now())
	if err := s.e.store.PutMeta(ctx, s.meta, s.lock); err != nil {
		s.e.forget(s)
		return err
	}
	return nil
}

// abandonOpen gives back what a segment holds that does not begin.
func (s *segment) abandonOpen() {
	s.e.forget(s)
	if s.lock != nil {
		if err := s.lock.Release(); err != nil {
			s.e.log.Warn("rulvar: the lock of a run could not be released", "run", s.runID, "error", err)
		}
		s.lock = nil
	}
}

// made refuses what is left of an engine where an error of NewEngine was passed
// over.
func (e *Engine) made(op string) error {
	if e == nil || e.store == nil {
		return errs.New(errs.Config, op, "", "the engine is nil or was not made by NewEngine, which has perhaps returned an error")
	}
	return nil
}

// enter counts a segment that is being opened among the goroutines that Close
// waits for, or refuses it; leave it with goroutines.Done once it has begun.
func (e *Engine) enter(op, runID string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errs.New(errs.Config, op, runID, "the engine is closed")
	}
	e.goroutines.Add(1)
	return nil
}

func (e *Engine) remember(s *segment) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errs.New(errs.Config, "Run", s.runID, "the engine is closed")
	}
	e.live[s.runID] = s
	return nil
}

func (e *Engine) forget(s *segment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live[s.runID] == s {
		delete(e.live, s.runID)
	}
}
