package launch

// Capabilities returns the capabilities of root inside the sandbox: what
// package managers and build tools need. NET_ADMIN and SYS_ADMIN are not among
// them (SR-5), nor NET_RAW, which would let a process forge packets beneath the
// derived network policy, nor MKNOD.
func Capabilities() []string {
	return []string{
		"CAP_AUDIT_WRITE",
		"CAP_CHOWN",
		"CAP_DAC_OVERRIDE",
		"CAP_FOWNER",
		"CAP_FSETID",
		"CAP_KILL",
		"CAP_NET_BIND_SERVICE",
		"CAP_SETFCAP",
		"CAP_SETGID",
		"CAP_SETPCAP",
		"CAP_SETUID",
		"CAP_SYS_CHROOT",
	}
}
