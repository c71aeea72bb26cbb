// Package config owns the meaning of Lazaret's configuration: which profile is
// chosen, what its settings resolve to for one Agent Workspace, everything that
// is refused before anything starts, and the Configuration Fingerprint. Its
// result is one value, [Domain], which holds all that the Host Coordinator
// needs and can be sent to it as JSON.
//
// It runs in the Client CLI. It makes no directory, starts nothing, reads no
// environment variable but those of paths.Host and those that a caller passes
// in, and prints nothing. Secrets that a profile takes from the caller's
// environment are not in a Domain: package sessionenv resolves them for one session.
package config
