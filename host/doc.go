// Package host is the facade of Lazaret's host side: what the commands of the
// CLI do, and the Host Coordinator's main.
//
// It joins the packages below its internal directory and decides little itself.
// It prints nothing: what a person is to see goes through UI or is returned. It
// runs in the CLI and in the coordinator, always in the host's namespaces.
package host
