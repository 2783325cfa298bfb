package openai

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// Options say how to reach the service. The zero value of a field is its
// default.
type Options struct {
	// ID is the name before the colon in a model reference. Default "openai".
	ID string
	// APIKey is sent with each request. Default: OPENAI_API_KEY of the
	// environment, read once.
	APIKey string
	// BaseURL is where the service is, with "/v1". Default OpenAI's own.
	BaseURL string
	// Organization and Project go into headers where they are set.
	Organization, Project string
	// HTTPClient sends the requests; a proxy, a certificate or further headers
	// go in there. It is not changed. Default: a new one on Go's default
	// transport.
	HTTPClient *http.Client
	// Account keeps the private blocks of accounts apart, where several with
	// one history are in use. Any name will do.
	Account string
	// Models describe models that the table lacks, or describe them otherwise,
	// by name. A RetentionKey in them is not used.
	Models map[string]llm.Capabilities
	// LooseTools keeps the service from decoding arguments by the tools'
	// schemas. The engine checks arguments in any case.
	LooseTools bool
}

// String shows the options without the key.
func (o Options) String() string { return "openai.Options(" + o.BaseURL + ")" }

// GoString is [Options.String].
func (o Options) GoString() string { return o.String() }

// Provider speaks to the Responses API, or the chat dialect of it. Make one
// with [New] or [Compatible]; it is safe for concurrent use.
type Provider struct {
	id, retention string
	models        map[string]llm.Capabilities
	fallback      *llm.Capabilities
	loose         bool

	chat       bool
	efforts    []string // of the chat dialect
	completion bool     // the chat dialect's newer name for the bound

	client  sdk.Client // holds the key in closures only
	secrets modelwire.Secrets
	ids     *modelwire.IDs
}

// New makes a provider on the Responses API; nil options are the defaults. It
// is an [rulvar.ErrConfig] where there is no key, or an option has no meaning.
// The service is not asked.
func New(opts *Options) (*Provider, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.ID == "" {
		o.ID = "openai"
	}
	if o.APIKey == "" {
		o.APIKey = os.Getenv("OPENAI_API_KEY")
	}
	if o.APIKey == "" {
		return nil, errs.New(errs.Config, "openai.New", "APIKey", "there is no key: set the option or OPENAI_API_KEY")
	}
	if o.BaseURL == "" {
		o.BaseURL = "https://api.openai.com/v1"
	}
	p := &Provider{id: o.ID, retention: retention(o.Account), models: maps.Clone(o.Models), loose: o.LooseTools}
	var more []option.RequestOption
	if o.Organization != "" {
		more = append(more, option.WithOrganization(o.Organization))
	}
	if o.Project != "" {
		more = append(more, option.WithProject(o.Project))
	}
	return p, p.connect("openai.New", o.BaseURL, o.APIKey, o.HTTPClient, more...)
}

// retention is whose private blocks come back: the family's, of the account.
func retention(account string) string {
	if account == "" {
		return "openai"
	}
	return "openai#" + account
}

// connect makes the client. NewClient of the SDK is not used, because it takes
// keys, addresses and headers from the environment.
func (p *Provider) connect(op, base, key string, client *http.Client, more ...option.RequestOption) error {
	if err := modelwire.CheckURL(op, base); err != nil {
		return err
	}
	settings := []option.RequestOption{
		option.WithHTTPClient(modelwire.Client(client)),
		option.WithBaseURL(base),
		option.WithMaxRetries(0),
		option.WithAPIKey(key),
	}
	p.client = sdk.Client{Options: slices.Concat(settings, more)}
	p.secrets, p.ids = modelwire.HideSecrets(key), modelwire.NewIDs("call_")
	return nil
}

// ID implements [llm.Provider].
func (p *Provider) ID() string { return p.id }

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		body, path, err := p.body(req)
		if err != nil {
			yield(llm.StreamEvent{}, err)
			return
		}
		// The SDK's own stream decodes each event into a union of all events
		// there are and takes a missing end for an end. So the answer is read
		// from its decoder of server-sent events.
		var res *http.Response
		err = p.client.Post(ctx, path, body, &res, option.WithJSONSet("stream", true))
		if err != nil {
			yield(llm.StreamEvent{}, p.fault(ctx, err))
			return
		}
		res.Body = modelwire.Body(res.Body)
		defer func() { _ = res.Body.Close() }()
		out := &output{p: p, ctx: ctx, yield: yield}
		if p.chat {
			out.read(res, &chatAnswer{output: out})
		} else {
			out.read(res, &answer{output: out})
		}
	}
}

// body writes a request in the service's form, and says where it goes.
func (p *Provider) body(req *llm.Request) (body []byte, path string, err error) {
	if len(req.Messages) == 0 {
		return nil, "", modelwire.Unsendable("it has no messages")
	}
	var private modelwire.Verbatim
	if p.chat {
		params, err := p.chatParams(req)
		if err != nil {
			return nil, "", err
		}
		body, err = private.Body(params)
		return body, "chat/completions", err
	}
	params, err := p.responseParams(req, &private)
	if err != nil {
		return nil, "", err
	}
	body, err = private.Body(params)
	return body, "responses", err
}

// fault classifies an error of the SDK. The SDK's error itself is dropped: it
// holds the request and with it the key.
func (p *Provider) fault(ctx context.Context, err error) error {
	api, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		return p.secrets.Transport(ctx, "the service cannot be reached", err)
	}
	a := modelwire.Answer{Status: api.StatusCode, Word: firstSet(api.Code, api.Type), Message: api.Message}
	if a.Message == "" {
		a.Message = plainMessage(api.RawJSON())
	}
	if api.Response != nil {
		a.Header = api.Response.Header
	}
	return p.secrets.Fault(a)
}

// plainMessage reads bodies of services that say {"error": "…"}.
func plainMessage(body string) string {
	var failure struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(body), &failure) == nil {
		return firstSet(failure.Error, failure.Message)
	}
	var text string
	if json.Unmarshal([]byte(body), &text) == nil {
		return strings.TrimSpace(text)
	}
	return ""
}

func firstSet(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}
