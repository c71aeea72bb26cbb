package mounts

// workspace presents the Agent Workspace, the directory src, at target. It is
// the one place that decides how the workspace is seen: a plain bind mount, as
// it is on the host.
func workspace(src, target int, readOnly bool) error {
	return bind(src, target, readOnly)
}
