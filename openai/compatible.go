package openai

import (
	"maps"
	"net/http"
	"slices"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/llm"
)

// CompatibleOptions say more of a service that speaks the chat dialect. The
// zero value of a field is its default.
type CompatibleOptions struct {
	// APIKey is sent with each request. Default: no key.
	APIKey string
	// HTTPClient is as in [Options].
	HTTPClient *http.Client
	// Models describe the service's models by name, Default all others. Without
	// it a model is held to be small (8,192 tokens, 4,096 of them for the
	// answer), unpriced, and asked for schemas in words. With
	// [rulvar.StructuredNative] schemas go into response_format, and arguments
	// are decoded by the tools' schemas.
	Models  map[string]llm.Capabilities
	Default *llm.Capabilities
	// Efforts are the words that the service takes for an effort. Others are
	// left out of requests. Default: none.
	Efforts []string
	// MaxCompletionTokens bounds answers under that newer name, which OpenAI's
	// own models want. Default: max_tokens, which the others know.
	MaxCompletionTokens bool
}

// String shows the options without the key.
func (o CompatibleOptions) String() string { return "openai.CompatibleOptions" }

// GoString is [CompatibleOptions.String].
func (o CompatibleOptions) GoString() string { return o.String() }

// Compatible makes a provider for a service that speaks the chat dialect at
// baseURL, which usually ends with "/v1"; id is the name before the colon in a
// model reference. Nil options are the defaults. It is an [rulvar.ErrConfig]
// where id or baseURL cannot be used. The service is not asked.
func Compatible(id, baseURL string, opts *CompatibleOptions) (*Provider, error) {
	o := CompatibleOptions{}
	if opts != nil {
		o = *opts
	}
	if id == "" {
		return nil, errs.New(errs.Config, "openai.Compatible", "id", "it is empty")
	}
	p := &Provider{
		id: id, retention: retention(id), models: maps.Clone(o.Models), chat: true,
		efforts: slices.Clone(o.Efforts), completion: o.MaxCompletionTokens,
	}
	if o.Default != nil {
		d := *o.Default
		p.fallback = &d
	}
	return p, p.connect("openai.Compatible", baseURL, o.APIKey, o.HTTPClient)
}
