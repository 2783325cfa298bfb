package rulvar

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/llm"
)

// Config is what an [Engine] is made of. The zero Config makes an engine that
// keeps its runs in memory and can list and resolve; to run agents it needs a
// provider and a model.
type Config struct {
	// Store keeps journals and transcripts. Default: in memory, which the
	// log says once, because such runs die with the process.
	Store Store
	// Providers speak to models; their IDs must differ.
	Providers []llm.Provider
	// Model is the default model, "provider:model".
	Model string
	// Effort is the default reasoning effort, or "".
	Effort string
	// Routes are the models that agents are served by beside their loop.
	Routes Routes
	// Profiles are the agent profiles by name, for AgentOptions.AgentType.
	Profiles map[string]*AgentProfile
	// Toolsets are tools registered under a name, for [Toolset].
	Toolsets map[string][]ToolSource
	// Permissions is the engine's layer of the permission chain.
	Permissions *PermissionConfig
	// RequireAttestation refuses an agent that has tools but whose profile
	// pins none.
	RequireAttestation bool
	// Limits are the default limits of agents.
	Limits *UsageLimits
	// Concurrency bounds the requests of one run that are under way at once.
	// Default 12. ProviderConcurrency bounds those of all runs of this engine
	// to a provider, by its id; there is no default bound.
	Concurrency         int
	ProviderConcurrency map[string]int
	// Pricing is what models cost, by model reference. It goes before what the
	// provider says. RunOptions.BudgetUSD sees only priced models.
	Pricing map[string]llm.Pricing
	// ReserveUSD is what an agent must find unspent to be admitted under a
	// budget. Default 0.5.
	ReserveUSD float64
	// WireIntents records each request to a model durably before it is sent, and
	// its end: one more synced write a request, and one that need not wait. A
	// resume of a run that died in between is refused until it is told, by
	// ResumeOptions.AcknowledgeWireIntents, that a request may be paid twice.
	WireIntents bool
	// Retry is when failed requests are sent again; nil is the default.
	Retry *RetryPolicy
	// MaxDepth is how deep workflows may nest. Default 1; at most 4.
	MaxDepth int
	// Executors serve tools that do not run in process.
	Executors map[ExecutorKind]ToolExecutor
	// OnInterrupted says what a resume does with a call that was being
	// executed when the process died. Default: [InterruptedRerun].
	OnInterrupted OnInterrupted
	// OnCorruptCheckpoint says what a resume does with an agent whose
	// checkpoint cannot be read, or is missing though the agent has asked for
	// an approval from it. Default: [CorruptRefuse].
	OnCorruptCheckpoint OnCorruptCheckpoint
	// Isolation makes the trees of agents under worktree isolation; sub-package
	// worktree has one for git. Default: none, and such an agent is refused.
	Isolation isolation.Provider
	// Cwd is the directory tools work in. Default: the process's.
	Cwd string
	// PollInterval is how often a run with open suspensions looks for answers
	// from other processes. Default 200 ms.
	PollInterval time.Duration
	// EventBuffer is how many events of a run are kept for readers that come
	// late or read slowly. Default 4096. Approvals are never dropped.
	EventBuffer int
	// EventContent puts the inputs and results of tools into tool:end events,
	// with what looks like a secret masked. Default: they stay out of events.
	EventContent bool
	// Logger gets warnings. Default: slog.Default().
	Logger *slog.Logger
}

// OnInterrupted says what becomes of an interrupted call on resume. A tool
// that declares itself idempotent, or of risk read, always runs again.
type OnInterrupted string

// The answers. Rerun executes the call again: at least once. Report tells the
// model that the outcome is unknown. Ask suspends for an approval. Report and
// Ask cost one more durable write before each call that is not idempotent.
const (
	InterruptedRerun  OnInterrupted = "rerun"
	InterruptedReport OnInterrupted = "report"
	InterruptedAsk    OnInterrupted = "ask"
)

// OnCorruptCheckpoint says what becomes of an agent whose checkpoint is
// damaged.
type OnCorruptCheckpoint string

// The answers. Refuse fails the run with [ErrJournalIntegrity]. Restart begins
// the agent again, which pays its turns and may run its tools a second time.
const (
	CorruptRefuse  OnCorruptCheckpoint = "refuse"
	CorruptRestart OnCorruptCheckpoint = "restart"
)

const defaultConcurrency = 12

const defaultPollInterval = 200 * time.Millisecond

// Engine runs workflows. It is made by [NewEngine] and is safe for concurrent
// use. Several engines, in several processes, may share a store.
type Engine struct {
	cfg       Config
	store     Store
	providers map[string]llm.Provider
	slots     map[string]slots // by provider
	log       *slog.Logger

	goroutines sync.WaitGroup // of all segments

	mu     sync.Mutex
	live   map[string]*segment // by run id
	timers map[suspensionID]*deadline
	closed bool
}

// NewEngine checks cfg and makes an engine of it. The maps and slices of cfg
// are copied; the values they hold must not be changed afterwards.
func NewEngine(cfg Config) (*Engine, error) {
	cfg.Profiles = maps.Clone(cfg.Profiles)
	cfg.Toolsets = maps.Clone(cfg.Toolsets)
	cfg.Executors = maps.Clone(cfg.Executors)
	cfg.Pricing = maps.Clone(cfg.Pricing)
	if cfg.Concurrency == 0 {
		cfg.Concurrency = defaultConcurrency
	}
	if cfg.PollInterval <= 0 {
		cfg.PollInterval = defaultPollInterval
	}
	if cfg.OnInterrupted == "" {
		cfg.OnInterrupted = InterruptedRerun
	}
	if cfg.OnCorruptCheckpoint == "" {
		cfg.OnCorruptCheckpoint = CorruptRefuse
	}
	if cfg.MaxDepth == 0 {
		cfg.MaxDepth = 1
	}
	if cfg.Cwd == "" {
		wd, err := os.Getwd()
		if err != nil {
			return nil, errs.Wrap(errs.Config, "NewEngine", "Cwd", "the working directory is unknown: set Config.Cwd", err)
		}
		cfg.Cwd = wd
	}
	e := &Engine{cfg: cfg, store: cfg.Store, log: cfg.Logger, live: make(map[string]*segment), timers: make(map[suspensionID]*deadline)}
	if e.log == nil {
		e.log = slog.Default()
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	if e.store == nil {
		e.store = NewMemoryStore()
		if len(cfg.Providers) > 0 {
			e.log.Warn("rulvar: runs are kept in memory and die with the process; set Config.Store to keep them")
		}
	}
	return e, nil
}

func (e *Engine) provider(ref string) (llm.Provider, string, error) {
	id, model, err := splitModelRef(ref)
	if err != nil {
		return nil, "", err
	}
	p, ok := e.providers[id]
	if !ok {
		return nil, "", fmt.Errorf("there is no provider %q for the model %q: registered are %s", id, ref, listNames(e.providers))
	}
	return p, model, nil
}

// Runs lists the runs of the store that filter accepts, all where it is nil.
// Runs whose metadata cannot be read make an error beside the others.
func (e *Engine) Runs(ctx context.Context, filter func(*RunMeta) bool) ([]*RunMeta, error) {
	return e.store.ListRuns(ctx, filter)
}

// Close ends the timers of parked approvals, cancels the runs that are live,
// and waits until every goroutine of the engine has ended or ctx is done.
// Parked runs stay as they are in the store. The store itself is the caller's.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	for _, d := range e.timers {
		d.timer.Stop()
	}
	clear(e.timers)
	for _, s := range e.live {
		s.cancel(&cancelled{reason: "the engine was closed"})
	}
	e.mu.Unlock()
	ended := make(chan struct{})
	go func() { e.goroutines.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

// splitModelRef cuts "provider:model" at its first colon.
func splitModelRef(ref string) (provider, model string, err error) {
	provider, model, ok := strings.Cut(ref, ":")
	if !ok || provider == "" || model == "" {
		return "", "", fmt.Errorf("the model reference %q is not of the form provider:model", ref)
	}
	return provider, model, nil
}
