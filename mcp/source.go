package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/errs"
)

// Source is a [rulvar.ToolSource] over an MCP server. It is safe for concurrent
// use; agents of any number of runs may share it. Nothing is started before
// the tools are first asked for.
type Source struct {
	id        string
	transport Transport
	opts      Options

	ctx  context.Context // the source's life
	stop context.CancelCauseFunc
	work sync.WaitGroup // dials, sweeps and watchers

	mu      sync.Mutex
	closed  bool
	gen     int               // counts what may have changed the tools
	sess    *session          // the live session, or nil
	dialing *flight[*session] // while one is being made
	listing *flight[*listing] // while one is being made
	list    *listing          // the current one, or nil
	last    *listing          // the last one, for Listing
	pin     *rulvar.ToolsetAttestation
	drifted error // why the tools are refused for good
}

// flight is work that several callers wait for.
type flight[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func newFlight[T any]() *flight[T] { return &flight[T]{done: make(chan struct{})} }

func (f *flight[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}

func (f *flight[T]) land(value T, err error) {
	f.value, f.err = value, err
	close(f.done)
}

// New makes a source. Nil options are the defaults. A wrong option is a
// [rulvar.ErrConfig]. Close it when no run uses it any more.
func New(transport Transport, opts *Options) (*Source, error) {
	if transport == nil {
		return nil, refuse("", "the transport is nil: use Stdio, HTTP or InProcess")
	}
	t, err := transport.check()
	if err != nil {
		return nil, err
	}
	o, err := resolve(opts)
	if err != nil {
		return nil, err
	}
	s := &Source{id: o.ID, transport: t, opts: o}
	if s.id == "" {
		s.id = t.id()
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s, nil
}

// ID returns the source's name in errors and logs.
func (s *Source) ID() string { return s.id }

// Tools implements [rulvar.ToolSource]: it lists the server's tools, or
// returns the list that is still good. Concurrent calls share one listing. A
// failure is a [rulvar.ErrConfig] and does not last, except for drift that
// Options.Drift refuses and after Close.
func (s *Source) Tools(ctx context.Context) ([]*rulvar.Tool, error) {
	l, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(l.tools), nil
}

// Listing tells what the last list of the server has become; false before the
// first.
func (s *Source) Listing() (Listing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return Listing{}, false
	}
	return s.last.report.clone(), true
}

// current returns the list that is good now.
func (s *Source) current(ctx context.Context) (*listing, error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, s.fault("", errClosed)
	case s.drifted != nil:
		s.mu.Unlock()
		return nil, s.drifted
	case s.list != nil:
		l := s.list
		s.mu.Unlock()
		return l, nil
	}
	f := s.listing
	if f == nil {
		f = newFlight[*listing]()
		s.listing = f
		s.work.Go(func() { s.sweep(f) })
	}
	s.mu.Unlock()
	l, err := f.wait(ctx)
	if err != nil && errs.CodeOf(err) == "" {
		err = s.fault("the tools could not be listed", err)
	}
	return l, err
}

// maxSweeps is how often a list that changes while it is read is read again.
const maxSweeps = 3

// sweep lists the tools for all who wait for f.
func (s *Source) sweep(f *flight[*listing]) {
	for n := 1; ; n++ {
		s.mu.Lock()
		gen := s.gen
		s.mu.Unlock()
		l, err := s.fetch()
		s.mu.Lock()
		fresh := gen == s.gen
		if err == nil && !fresh && n < maxSweeps {
			s.mu.Unlock()
			continue
		}
		if err == nil {
			err = s.adopt(l, fresh)
		}
		s.listing = nil
		s.mu.Unlock()
		if err != nil {
			l = nil
		}
		f.land(l, err)
		return
	}
}

// adopt compares a list with what is pinned and keeps it if nothing has changed
// since it was begun. s.mu is held.
func (s *Source) adopt(l *listing, fresh bool) error {
	if s.closed {
		return s.fault("", errClosed)
	}
	if s.drifted != nil {
		return s.drifted
	}
	if s.opts.Attestation != nil {
		if err := s.opts.Attestation.Enforce(l.tools); err != nil {
			return s.fault("the server's tools are not the attested ones", &driftError{err})
		}
	}
	if s.opts.Drift == DriftRefuse {
		switch {
		case !fresh:
			return s.fault("", errors.New("the server's tools change all the time"))
		case s.pin == nil:
			pin := rulvar.AttestToolset(l.tools)
			s.pin = &pin
		default:
			if err := s.pin.Enforce(l.tools); err != nil {
				s.drifted = s.fault("the server's tools have changed since the first list, which Options.Drift refuses: look at them, then make a new source", &driftError{err})
				return s.drifted
			}
		}
	}
	s.last = l
	if fresh {
		s.list = l
	}
	return nil
}

// trusted returns the session that a call may use. Where the tools are pinned,
// it is one whose tools were compared with the pin; nothing is read for that
// unless the server or its session has changed.
func (s *Source) trusted(ctx context.Context) (*session, error) {
	if s.opts.Drift != DriftRefuse && s.opts.Attestation == nil {
		return s.session(ctx)
	}
	for range maxSweeps {
		l, err := s.current(ctx)
		if err != nil {
			return nil, err
		}
		if l.sess.alive() {
			return l.sess, nil
		}
		s.mu.Lock()
		if s.list == l {
			s.list = nil
		}
		s.mu.Unlock()
	}
	return nil, errors.New("the server goes as soon as it has come")
}

// changed is called when the server says that its tools have changed.
func (s *Source) changed(sess *session) {
	sess.pages.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	s.list = nil
}

// session returns the live session, or makes one. Concurrent calls share it.
func (s *Source) session(ctx context.Context) (*session, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	if s.sess != nil && s.sess.alive() {
		sess := s.sess
		s.mu.Unlock()
		return sess, nil
	}
	f := s.dialing
	if f == nil {
		f = newFlight[*session]()
		s.dialing = f
		s.gen++ // another server may have other tools
		s.list = nil
		s.work.Go(func() { s.connect(f) })
	}
	s.mu.Unlock()
	return f.wait(ctx)
}

// connect makes a session for all who wait for f.
func (s *Source) connect(f *flight[*session]) {
	cause := &timeoutError{"connecting", s.opts.Timeouts.Connect.String()}
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.opts.Timeouts.Connect, cause)
	defer cancel()
	sess, err := dial(ctx, s)
	s.mu.Lock()
	s.dialing = nil
	closed := s.closed
	if err == nil && !closed {
		s.sess = sess
		s.work.Go(func() { s.watch(sess) })
	}
	s.mu.Unlock()
	if err == nil && closed {
		sess.close(s.opts.Timeouts.Close)
		sess, err = nil, errClosed
	}
	f.land(sess, err)
}

// watch waits for a session's end and clears up after it.
func (s *Source) watch(sess *session) {
	why := sess.wait()
	sess.close(s.opts.Timeouts.Close)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sess == sess {
		s.sess, s.list = nil, nil
		s.gen++
	}
	if !s.closed {
		s.opts.Logger.Warn("mcp: the connection to the server has ended; the next call makes a new one", "source", s.id, "error", why, "said", sess.link.hint())
	}
}

// Close ends the server and everything that belongs to it, and returns when
// that is done: after some multiples of Timeouts.Close at the latest. It is
// final and may be called more than once. Calls that are under way end with an
// error result, as do later ones.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	s.gen++
	s.list = nil
	sess := s.sess
	s.mu.Unlock()
	s.stop(errClosed)
	if sess != nil {
		sess.close(s.opts.Timeouts.Close)
	}
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	limit := 5*s.opts.Timeouts.Close + 10*time.Second
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return s.fault("", fmt.Errorf("the server was not gone after %v and was given up", limit))
	}
}
