// Package openai is an [llm.Provider] for OpenAI's models, on OpenAI's own
// SDK and its Responses API, and for the many services that speak its older
// chat dialect: Ollama, vLLM, llama.cpp, gateways.
//
//	gpt, err := openai.New(nil) // the key is in OPENAI_API_KEY
//	local, err := openai.Compatible("ollama", "http://localhost:11434/v1", nil)
//	engine, err := rulvar.NewEngine(rulvar.Config{
//		Store: store, Providers: []llm.Provider{gpt, local}, Model: "openai:gpt-6.2-sol",
//	})
//
// # What is sent
//
// The conversation, the tools' names, descriptions and schemas, the schema of
// the answer, the effort and the bound on the answer's length; the key in a
// header; the SDK's own headers, which name its version, the Go version and the
// system. An agent's type and label, run ids and metadata are not sent. The
// service is told to store nothing: the whole conversation goes along each
// time, and the reasoning in it is encrypted by the service. The SDK's retries
// are off, since the engine's are bounded by its journal and budget. Nothing but
// OPENAI_API_KEY is read from the environment, and that only by [New] and where
// Options hold no key.
//
// The key is in no error, event, log or journal, also where the service or a
// gateway repeats it. A redirect to another host is refused, because the key
// would go with it.
//
// # Answers
//
// Tool calls are handed over when the whole answer is there. A stream that
// ends early, in whatever place, is a fault that is worth a retry and never
// half a call. In the chat dialect the end is its closing mark, or a reason
// together with the usage. Reasoning is private: its items go back to the
// account that they came from, byte for byte and at their place.
//
// A schema that the service can decode by strictly is sent so; the assertions
// that strict decoding does not know are put into the description, and the
// engine checks them. Prompts are cached by the service itself.
//
// # Prices
//
// The table of models holds what OpenAI's pages said on [PricesCheckedAt], in
// dollars for a million tokens, for standard requests without discounts and
// surcharges. From the GPT-5.6 family on, a request of more than 272,000 input
// tokens costs twice as much for input and half as much again for output, which
// the table does not express. Config.Pricing overrides all of it. A model that
// is not in the table has no price, and gets no effort. Compatible services
// have no prices.
package openai
