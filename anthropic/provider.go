package anthropic

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"os"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// family names the private blocks of these models in a journal.
const family = "anthropic"

// Options say how to reach the service. The zero value of a field is its
// default.
type Options struct {
	// ID is the name before the colon in a model reference. Default
	// "anthropic".
	ID string
	// APIKey is sent with each request. Default: ANTHROPIC_API_KEY of the
	// environment, read once.
	APIKey string
	// BaseURL is where the service is, without "/v1". Default Anthropic's own.
	BaseURL string
	// HTTPClient sends the requests; a proxy, a certificate or further headers
	// go in there. It is not changed. Default: a new one on Go's default
	// transport.
	HTTPClient *http.Client
	// Account keeps the private blocks of accounts apart, where several with
	// one history are in use. Any name will do.
	Account string
	// Cache is how long the service keeps the prompt for the next request.
	Cache Cache
	// Models describe models that the table lacks, or describe them otherwise,
	// by name. A RetentionKey in them is not used.
	Models map[string]llm.Capabilities
	// ShowThinking asks for summaries of the thinking, which come as reasoning
	// deltas. The default is what the model does by itself.
	ShowThinking bool
	// LooseTools keeps the service from decoding arguments by the tools'
	// schemas. The engine checks arguments in any case.
	LooseTools bool
}

// String shows the options without the key.
func (o Options) String() string { return "anthropic.Options(" + o.BaseURL + ")" }

// GoString is [Options.String].
func (o Options) GoString() string { return o.String() }

// Cache is a policy for the prompt cache.
type Cache string

// The policies: five minutes, an hour, no breakpoints at all.
const (
	CacheMinutes Cache = ""
	CacheHour    Cache = "1h"
	CacheOff     Cache = "off"
)

// Provider speaks to the Messages API. Make one with [New]; it is safe for
// concurrent use.
type Provider struct {
	id, account string
	cache       Cache
	models      map[string]llm.Capabilities
	show, loose bool

	client  sdk.Client // holds the key in closures only
	secrets modelwire.Secrets
	ids     *modelwire.IDs
}

// New makes a provider; nil options are the defaults. It is an
// [rulvar.ErrConfig] where there is no key, or an option has no meaning. The
// service is not asked.
func New(opts *Options) (*Provider, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	refuse := func(field, msg string) error { return errs.New(errs.Config, "anthropic.New", field, msg) }
	if o.ID == "" {
		o.ID = "anthropic"
	}
	if o.APIKey == "" {
		o.APIKey = os.Getenv("ANTHROPIC_API_KEY")
	}
	if o.APIKey == "" {
		return nil, refuse("APIKey", "there is no key: set the option or ANTHROPIC_API_KEY")
	}
	if o.Cache != CacheMinutes && o.Cache != CacheHour && o.Cache != CacheOff {
		return nil, refuse("Cache", "unknown policy "+string(o.Cache))
	}
	settings := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithEnvironmentProduction(),
		option.WithHTTPClient(modelwire.Client(o.HTTPClient)),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(),
		option.WithAPIKey(o.APIKey),
	}
	if o.BaseURL != "" {
		if err := modelwire.CheckURL("anthropic.New", o.BaseURL); err != nil {
			return nil, err
		}
		settings = append(settings, option.WithBaseURL(o.BaseURL))
	}
	return &Provider{
		id: o.ID, account: o.Account, cache: o.Cache, models: maps.Clone(o.Models), show: o.ShowThinking, loose: o.LooseTools,
		client: sdk.NewClient(settings...), secrets: modelwire.HideSecrets(o.APIKey), ids: modelwire.NewIDs("toolu_"),
	}, nil
}

// ID implements [llm.Provider].
func (p *Provider) ID() string { return p.id }

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		m, _ := lookUp(req.Model)
		body, err := p.body(req, &m)
		if err != nil {
			yield(llm.StreamEvent{}, err)
			return
		}
		// The SDK's own stream decodes each event into a union of all events
		// there are and takes a missing end for an end. So the answer is read
		// from its decoder of server-sent events.
		var res *http.Response
		err = p.client.Post(ctx, "v1/messages", body, &res, option.WithJSONSet("stream", true))
		if err != nil {
			yield(llm.StreamEvent{}, p.fault(ctx, err))
			return
		}
		res.Body = modelwire.Body(res.Body)
		defer func() { _ = res.Body.Close() }()
		a := answer{p: p, ctx: ctx, model: &m, yield: yield}
		a.read(res)
	}
}

// fault classifies an error of the SDK. The SDK's error itself is dropped: it
// holds the request and with it the key.
func (p *Provider) fault(ctx context.Context, err error) error {
	api, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		return p.secrets.Transport(ctx, "the service cannot be reached", err)
	}
	a := modelwire.Answer{Status: api.StatusCode, Word: string(api.Type()), Message: messageOf(api.RawJSON())}
	if api.Response != nil {
		a.Header = api.Response.Header
	}
	return p.secrets.Fault(a)
}
