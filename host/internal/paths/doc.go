// Package paths owns where Lazaret keeps things on the host: the data root
// and the Domain Roots in it, prepared lowers, the private runtime directory,
// and the names that become part of socket addresses. It canonicalises the
// Agent Workspace and refuses those that would hand the sandbox Lazaret's own
// files. It runs in the Client CLI and in the Host Coordinator.
//
// Directories are created and opened component by component, relative to a
// descriptor, without following symbolic links, and their owner and mode are
// checked on the descriptor. The package never removes anything, takes no
// lock, reads no configuration and prints nothing.
package paths
