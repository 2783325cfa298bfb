package otel

import (
	"context"
	"sync"

	otelapi "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	rulvar "github.com/rulvar/rulvar-go"
)

// scope is the name of the instrumentation.
const scope = "github.com/rulvar/rulvar-go/otel"

// DefaultMaxContent is the default of [Options.MaxContent].
const DefaultMaxContent = 16 << 10

// Options say where telemetry goes and how much of it there is.
type Options struct {
	// TracerProvider and MeterProvider make the spans and the metrics. Default:
	// the global ones.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Content puts inputs and results of tools into gen_ai.tool.call.arguments
	// and gen_ai.tool.call.result, as far as events have them
	// ([rulvar.Config.EventContent]). Default: they stay out.
	Content bool
	// MaxContent is how many bytes of each are kept. Default: 16 KiB.
	MaxContent int
}

// Bridge turns events into telemetry. It may be used by any number of runs at
// once.
type Bridge struct {
	opts    Options
	tracer  trace.Tracer
	metrics metrics
}

// New makes a bridge; nil options are the defaults. An instrument that the meter
// refuses, and a negative size, is an [rulvar.ErrConfig].
func New(opts *Options) (*Bridge, error) {
	if opts == nil {
		opts = &Options{}
	}
	b := &Bridge{opts: *opts}
	o := &b.opts
	if o.TracerProvider == nil {
		o.TracerProvider = otelapi.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otelapi.GetMeterProvider()
	}
	if o.MaxContent == 0 {
		o.MaxContent = DefaultMaxContent
	}
	if o.MaxContent < 0 {
		return nil, &rulvar.Error{Code: rulvar.ErrConfig, Op: "otel.New", Path: "Options.MaxContent", Msg: "a size is negative; zero means the default"}
	}
	b.tracer = o.TracerProvider.Tracer(scope)
	if err := b.metrics.make(o.MeterProvider.Meter(scope)); err != nil {
		return nil, &rulvar.Error{Code: rulvar.ErrConfig, Op: "otel.New", Path: "Options.MeterProvider", Msg: "an instrument cannot be made", Err: err}
	}
	return b, nil
}

// Listener returns a listener for RunOptions.OnEvent. The spans of its runs are
// children of the span in ctx, if there is one; ctx is used for nothing else. A
// listener may serve several runs, also at once. What it holds of a run it lets
// go with the run's end event.
func (b *Bridge) Listener(ctx context.Context) func(rulvar.Event) {
	parent := trace.ContextWithSpan(context.Background(), trace.SpanFromContext(ctx))
	var mu sync.Mutex
	runs := map[string]*run{}
	return func(ev rulvar.Event) {
		mu.Lock()
		defer mu.Unlock()
		r := runs[ev.RunID]
		if r == nil {
			if _, ended := ev.Body.(rulvar.RunEnded); ended {
				return
			}
			r = newRun(b, parent)
			runs[ev.RunID] = r
		}
		r.take(ev)
		if _, ended := ev.Body.(rulvar.RunEnded); ended {
			delete(runs, ev.RunID)
		}
	}
}
