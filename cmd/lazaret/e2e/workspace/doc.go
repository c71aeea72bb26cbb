// Package workspace holds the end-to-end tests of the workspace view: what a
// session inside sees and does in a project, what the host sees of it, and what
// neither may do to the other. It is in no binary.
package workspace
