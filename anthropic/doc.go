// Package anthropic is an [llm.Provider] for Claude models, on Anthropic's
// own SDK and its Messages API:
//
//	claude, err := anthropic.New(nil) // the key is in ANTHROPIC_API_KEY
//	engine, err := rulvar.NewEngine(rulvar.Config{
//		Store: store, Providers: []llm.Provider{claude}, Model: "anthropic:claude-opus-5-5",
//	})
//
// # What is sent
//
// The conversation, the tools' names, descriptions and schemas, the schema of
// the answer, the effort and the bound on the answer's length, with
// breakpoints for the prompt cache; the key in a header; the SDK's own headers,
// which name its version, the Go version and the system. An agent's type and
// label, run ids and metadata are not sent. The SDK's retries are off, since
// the engine's are bounded by its journal and budget, and so are its traces.
// Nothing but ANTHROPIC_API_KEY is read from the environment, and that only
// where Options hold no key.
//
// The key is in no error, event, log or journal, also where the service or a
// gateway repeats it. A redirect to another host is refused, because the key
// would go with it.
//
// # Answers
//
// Tool calls are handed over when the whole answer is there. A stream that
// ends early, in whatever place, is a fault that is worth a retry and never
// half a call. The thinking of a model is private: its blocks go back to the
// account, and where the service wants that to the model, that they came from,
// byte for byte and at their place.
//
// A schema that the service can decode by is sent along; the assertions that
// it does not know are put into the description, and the engine checks them. A
// model that always thinks cannot be made to call a tool, so such a choice
// becomes automatic.
//
// # Prices
//
// The table of models holds what Anthropic's pages said on [PricesCheckedAt],
// in dollars for a million tokens, for standard requests without discounts and
// surcharges. Claude Haiku 5.5 costs five times as much for prompts above
// 100,000 tokens, which the table does not express. A cache that lives for an
// hour is written at twice the input price; the table follows Options.Cache.
// Config.Pricing overrides all of it. A model that is not in the table has no
// price, answers without a native schema, and gets no effort.
package anthropic
