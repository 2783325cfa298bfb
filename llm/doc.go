// Package llm is how the engine speaks to a model service. Who writes an
// adapter starts here; who writes tools, workflows and policies needs none of
// it beyond the names of a [Message] and a [Usage] that results and events hold.
//
// An adapter is a [Provider]: it says what a model can do ([Capabilities]), puts
// a [Request] into the service's own words, and yields what comes back as a
// sequence of [StreamEvent], the last of them of type [StreamFinish]. It keeps
// to these rules:
//
//   - A failure is an [*Error] with its [ErrorKind]: the engine decides by it
//     whether to ask again, to ask another model, or to give up. An adapter does
//     not retry by itself.
//   - A tool call is yielded when all of it is there, with the argument text as
//     the model sent it. Half a call is never yielded.
//   - A private block of the service, its reasoning for instance, is yielded as
//     [StreamRaw] and comes back as a [PartRaw] in later requests, byte for byte,
//     where the retention key still fits.
//   - The service's key is in no error and no event.
//
// The package's example is the smallest one that answers.
// rulvartest.RunProviderSuite holds an adapter to all of that against a service
// that misbehaves; packages anthropic and openai are two to read, and
// rulvartest.Provider is a model that follows a script.
//
// The package depends on nothing else of the library that is public: an adapter
// imports it alone.
package llm
