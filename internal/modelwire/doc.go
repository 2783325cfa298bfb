// Package modelwire holds what the adapters for model services have in common:
// identities of tool calls, the classes of faults, secrets that must not show,
// schemas for constrained decoding, and the HTTP client.
package modelwire
