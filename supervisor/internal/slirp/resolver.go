package slirp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// ExecMode is the supervisor's mode that gives slirp4netns a private /etc.
const ExecMode = "_slirp"

// Exec replaces the calling process by slirp4netns, in a mount namespace whose
// /etc holds nothing but a resolv.conf with one nameserver. args are the
// nameserver, slirp4netns's path, and its argument vector. It returns only an
// error. The caller must be single-threaded in effect: the calling thread is
// the one that survives.
//
// slirp4netns follows the host's resolv.conf by itself; this is for hosts
// whose file is a link to where its own sandbox does not look.
func Exec(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: " + ExecMode + " NAMESERVER PATH ARG…")
	}
	ns, err := netip.ParseAddr(args[0])
	if err != nil {
		return fmt.Errorf("nameserver: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare CLONE_NEWNS", err)
	}
	// Nothing of this may show in the supervisor's namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("make / private", err)
	}
	if err := unix.Mount("tmpfs", "/etc", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
		return os.NewSyscallError("mount tmpfs on /etc", err)
	}
	if err := os.WriteFile("/etc/resolv.conf", []byte("nameserver "+ns.String()+"\n"), 0o644); err != nil {
		return err
	}
	return os.NewSyscallError("exec slirp4netns", unix.Exec(args[1], args[2:], os.Environ()))
}
