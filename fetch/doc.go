// Package fetch is a tool that fetches URLs under the permission chain of
// package rulvar, to the end: domain rules that name it are enforced, by the
// same decision, before the call is dispatched and again before every
// connection.
//
//	tool, err := fetch.New(&fetch.Options{
//		Allow: []string{"docs.example.com", "*.vendor.example:8443"},
//		Ask:   []string{"partner.example"},
//	})
//	…
//	rulvar.Agent[string](c, prompt, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
//
// with rules for the tool's name, as in
//
//	rulvar.PermissionConfig{
//		Deny: []rulvar.Rule{rulvar.DomainRule("fetch", "*.internal.example.com")},
//		Ask:  []rulvar.Rule{rulvar.DomainRule("fetch", "pay.example.com")},
//	}
//
// # What is decided, and when
//
// A URL has one reading or none. The host is mapped to its ASCII form; what two
// programs could read as two hosts (a user name, a backslash, an address in
// another notation than the plain one, a zone, a percent sign) is refused. Then,
// and the first that applies decides:
//
//   - [Options.Deny], or a deny rule of the chain: denied;
//   - a host that neither [Options.Allow] nor [Options.Ask] names on its port:
//     denied;
//   - Ask, or an ask rule of the chain: asks;
//   - otherwise: nothing against it.
//
// The chain gets that answer when it judges the call ([rulvar.ToolConfig.Hosts]),
// so that a denied host is denied with its rule in the tool:end event, and an ask
// waits for somebody who is shown the URL. A rule of the chain never opens a
// host. The tool decides again before each request, redirects included. A hook
// that allows a call is no approval: it skips the rules of the chain, and the
// tool reads them all the same.
//
// Then the name is looked up, once. Every address it has must be one of the
// public internet (or of [Options.AllowPrivate]): this host, private networks,
// link-local addresses and with them the metadata services of clouds, shared and
// documentation ranges, multicast, and the IPv6 forms that hold an IPv4 address
// are not. The connection goes to one of those addresses, which is looked at once
// more when the socket is connected; nothing is looked up a second time. Names of
// local networks (localhost, one label, .internal, .local and their like) are
// refused always.
//
// # Redirects
//
// At most [Options.MaxRedirects] are followed, each decided about like a URL of a
// call. From https to http, back to a URL that was there before, and to a host
// that needs an approval there is none, but for the very origin that was approved.
// What the model has set in headers goes to the origin that it named and to no
// other. Refresh headers and meta tags are data.
//
// # What else is fixed
//
// GET and HEAD; HTTP/1.1 over a connection of its own for each request; TLS 1.2
// or later, always verified; no proxy, whatever the environment says; no cookies,
// no Referer, no credentials. Any status is an answer. A body is read to
// [Options.MaxBody] bytes after decompression and handed on as text that the
// result says not to trust, if its type is one of [Options.ContentTypes].
//
// A refusal is an error result with a code, which is in the tool:end event too:
// domain-denied, domain-not-allowed, port, ip-blocked, ip-ambiguous, dns-blocked,
// redirect-needs-approval and so on. Where the chain has refused the call, the
// code is the beginning of the event's reason. Every request is in the log of the
// run, with the address it went to and its query masked.
//
// # A server of one's own
//
// A server on this machine or in a private network, a test's for instance, is
// named by its address and port, and opened four times over:
//
//	fetch.Options{
//		Allow: []string{"127.0.0.1:8080"}, AllowIPLiteral: true, AllowHTTP: true,
//		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
//	}
//
// # What this does not do
//
// An allowed host may itself fetch for others; data can leave in a path, a query
// or a name below a wildcard, and in how long a look-up takes. The host list is a
// policy about where requests go, not about what they say. "*" beside an approval
// is what the approver makes of it.
package fetch
