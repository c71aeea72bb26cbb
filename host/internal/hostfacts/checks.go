package hostfacts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/hostfacts/distro"
	"lazaret.dev/lazaret/host/internal/hostfacts/subid"
)

// Examine runs every check, all at once, each for at most three seconds. It
// cannot fail: what cannot be found out is said in the report.
func Examine(ctx context.Context, e Env) Report {
	h := host{Env: e, tools: Locate(e), ids: lookupIDs(ctx, e)}
	probes := []struct {
		id, name string
		run      func(context.Context) Check
	}{
		{"uid", "ordinary user", always(h.uid)},
		{"supervisor", "lazaret-supervisor", always(h.supervisor)},
		{"escalate", "lazaret-escalate", always(h.escalate)},
		{"runsc", "runsc", h.runsc},
		{"D1", "namespaces", h.namespaces},
		{"D2", "newuidmap and newgidmap", h.idTools},
		{"D3", "subordinate ids", always(h.subordinateIDs)},
		{"D4", "slirp4netns", h.slirp},
		{"D5", "/dev/fuse", always(h.fuse)},
		{"D6", "/dev/net/tun", always(h.tun)},
		{"D12", "XDG_RUNTIME_DIR", always(h.runtimeDir)},
		{"kernel", "kernel", always(h.kernel)},
		{"data-root", "data root", always(h.dataRoot)},
	}
	r := Report{Checks: make([]Check, len(probes))}
	var wait sync.WaitGroup
	for i, p := range probes {
		wait.Go(func() {
			r.Checks[i] = within(ctx, limit+time.Second/2, p.run)
			r.Checks[i].ID, r.Checks[i].Name = p.id, p.name
		})
	}
	wait.Wait()
	return r
}

func always(f func() Check) func(context.Context) Check {
	return func(context.Context) Check { return f() }
}

// within gives up on a probe that does not come back. The kernel can hold a
// look at a dead network filesystem for ever, and nothing can end it: its
// goroutine is then left to the end of the process, and writes to nobody.
func within(ctx context.Context, d time.Duration, run func(context.Context) Check) Check {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	done := make(chan Check, 1)
	go func() { done <- run(ctx) }()
	select {
	case c := <-done:
		return c
	case <-ctx.Done():
		return Check{
			Status: Block, Why: "The check did not come back: " + ctx.Err().Error() + ".",
			Fix: "run lazaret doctor again; look for a hanging filesystem or program",
		}
	}
}

func (h host) uid() Check {
	c := Check{ID: "uid", Status: OK, Found: h.User}
	if h.UID == 0 {
		c.Status, c.Why = Block, "Lazaret does not run as root: the sandbox must hold no authority of the host's root."
		c.Fix = "run lazaret as an ordinary user"
	}
	return c
}

func (h host) supervisor() Check {
	return h.own("supervisor", "lazaret-supervisor", h.tools.Supervisor)
}
func (h host) escalate() Check { return h.own("escalate", "lazaret-escalate", h.tools.Escalate) }

func (h host) own(id, name, path string) Check {
	if path != "" {
		return Check{ID: id, Status: OK, Found: path}
	}
	return Check{
		ID: id, Status: Block, Why: fmt.Sprintf("%s is missing from %s.", name, h.Libexec()),
		Fix: "install Lazaret again (in its source tree: make build)",
	}
}

// idTools is D2, with a try of what was found: a mount with nosuid or a wrong
// owner shows only there.
func (h host) idTools(ctx context.Context) Check {
	c := h.idToolsFound()
	if _, ok := h.ids.Usable(); !ok || c.Status != OK || h.tools.Supervisor == "" {
		return c
	}
	u, g := h.ids.UIDs(), h.ids.GIDs()
	out, err := h.System.Run(ctx, h.tools.Supervisor, "probe-userns", "--newuidmap", h.tools.NewUIDMap, "--newgidmap", h.tools.NewGIDMap,
		"--uid-range", fmt.Sprintf("%d:%d", u.Start, u.Count), "--gid-range", fmt.Sprintf("%d:%d", g.Start, g.Count))
	// Any other step that fails is D1's to report.
	if err == nil && out.Status != 0 && strings.HasPrefix(out.Stderr, "idmap: ") {
		c.Status, c.Found, c.Why = Block, "", "The subordinate ids cannot be mapped: "+failure(out, nil)+"."
		c.Fix = fmt.Sprintf("look whether %s and %s belong to root, are setuid, and lie on a filesystem without nosuid (findmnt -T %[1]s)",
			h.tools.NewUIDMap, h.tools.NewGIDMap)
	}
	return c
}

// idToolsFound is the part of D2 that looks only. It blocks where the user has subordinate ids: a start without
// them would make State Anchors that the next start, with them, must refuse.
func (h host) idToolsFound() Check {
	c := Check{ID: "D2", Status: OK, Found: h.tools.NewUIDMap + ", " + h.tools.NewGIDMap}
	var missing, plain []string
	for name, path := range map[string]string{"newuidmap": h.tools.NewUIDMap, "newgidmap": h.tools.NewGIDMap} {
		if path == "" {
			missing = append(missing, name)
		} else if fi, err := os.Stat(path); err != nil || fi.Mode()&os.ModeSetuid == 0 && !h.System.FileCaps(path) {
			plain = append(plain, path)
		}
	}
	switch {
	case len(missing) > 0:
		c.Found, c.Why = "", listed(missing)+" not found."
	case len(plain) > 0:
		c.Found, c.Why = "", listed(plain)+" neither setuid nor with capabilities."
	default:
		return c
	}
	c.Status = Warn
	if _, ok := h.ids.Usable(); ok {
		c.Status = Block
	}
	c.Fix = h.install(map[distro.Family]string{
		distro.Debian: "uidmap", distro.Fedora: "shadow-utils",
		distro.SUSE: "shadow", distro.Arch: "shadow", distro.Alpine: "shadow-uidmap",
	})
	if len(missing) == 0 {
		c.Fix = "sudo chmod u+s " + strings.Join(slices.Sorted(slices.Values(plain)), " ")
	}
	return c
}

func (h host) subordinateIDs() Check {
	why, ok := h.ids.Usable()
	if ok {
		u, g := h.ids.UIDs(), h.ids.GIDs()
		return Check{ID: "D3", Status: OK, Found: fmt.Sprintf("uids %d-%d, gids %d-%d", u.Start, u.End()-1, g.Start, g.End()-1)}
	}
	free := h.ids.Free()
	return Check{
		ID: "D3", Status: Warn, Why: why,
		Fix:  fmt.Sprintf("sudo usermod --add-subuids %d-%d --add-subgids %[1]d-%[2]d %s", free, free+subid.Need-1, h.User),
		Note: "Then log in again. Until then the sandbox has a single user id, in which some packages cannot be installed.",
	}
}

func (h host) slirpFound() Check {
	if h.tools.Slirp4netns != "" {
		return Check{ID: "D4", Status: OK, Found: h.tools.Slirp4netns}
	}
	return Check{ID: "D4", Status: Block, Why: "slirp4netns not found.", Fix: h.install(map[distro.Family]string{distro.Debian: "slirp4netns"})}
}

func (h host) slirp(ctx context.Context) Check {
	c := h.slirpFound()
	if c.Status != OK {
		return c
	}
	out, err := h.System.Run(ctx, h.tools.Slirp4netns, "--version")
	if err != nil || out.Status != 0 {
		c.Status, c.Why = Block, fmt.Sprintf("%s does not run: %s.", h.tools.Slirp4netns, failure(out, err))
		c.Fix = h.install(map[distro.Family]string{distro.Debian: "slirp4netns"})
		return c
	}
	line, _, _ := strings.Cut(out.Stdout, "\n")
	c.Found += ", " + line
	return c
}

func (h host) fuse() Check { return h.device("D5", "/dev/fuse", "fuse") }
func (h host) tun() Check  { return h.device("D6", "/dev/net/tun", "tun") }

func (h host) device(id, path, module string) Check {
	c := Check{ID: id, Status: OK, Found: "opens"}
	err := h.System.Open(h.Root + path)
	if err == nil {
		return c
	}
	c.Status, c.Found = Block, ""
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		c.Why = path + " is missing: the kernel module " + module + " is not loaded."
		c.Fix = fmt.Sprintf("sudo modprobe %s; persist: echo %[1]s | sudo tee /etc/modules-load.d/%[1]s.conf", module)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		mode := "not open to you"
		if fi, err := os.Stat(h.Root + path); err == nil {
			mode = fmt.Sprintf("%04o", fi.Mode().Perm())
		}
		c.Why = fmt.Sprintf("%s is %s; expected 0666 (systemd default).", path, mode)
		c.Fix = "Check local udev rules, then sudo udevadm trigger " + path
	default:
		c.Why = fmt.Sprintf("%s does not open: %v.", path, err)
		c.Fix = "sudo modprobe " + module + ", then look at sudo dmesg"
	}
	return c
}

func (h host) runtimeDir() Check {
	c := Check{ID: "D12", Status: Warn, Fix: "Log in through a normal session (pam_systemd), or run loginctl enable-linger " + h.User}
	if h.RuntimeDir == "" {
		c.Why = "XDG_RUNTIME_DIR is not set; a private directory below /tmp is used."
		return c
	}
	var st unix.Stat_t
	switch err := unix.Lstat(h.RuntimeDir, &st); {
	case err != nil:
		c.Why = fmt.Sprintf("XDG_RUNTIME_DIR is %s: %v; a private directory below /tmp is used.", h.RuntimeDir, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR, int(st.Uid) != h.UID, st.Mode&0o777 != 0o700:
		c.Why = fmt.Sprintf("XDG_RUNTIME_DIR is %s, which is not a directory of yours with mode 0700; a private directory below /tmp is used.", h.RuntimeDir)
	default:
		return Check{ID: "D12", Status: OK, Found: h.RuntimeDir}
	}
	return c
}

// kernel demands overlayfs in a user namespace, with userxattr (5.11), and mount_setattr (5.12).
func (h host) kernel() Check {
	release, err := h.System.Release()
	if err != nil {
		return Check{ID: "kernel", Status: Warn, Why: fmt.Sprintf("The kernel's version is not known: %v.", err)}
	}
	c := Check{ID: "kernel", Status: OK, Found: release}
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	switch {
	case err1 != nil || err2 != nil:
		c.Status, c.Why = Warn, "The kernel's version cannot be read; at least 5.12 is needed."
	case x < 5 || x == 5 && y < 12:
		c.Status, c.Why = Block, "Linux "+release+" cannot mount what a sandbox needs for ordinary users; at least 5.12 is needed."
		c.Fix = "install a newer kernel of your distribution (uname -r shows the running one)"
	}
	return c
}

// unsuitable are the filesystems that the kernel refuses as an overlay's upper
// layer, or that do not keep what it needs.
var unsuitable = map[int64]string{
	0x6969:     "nfs",
	0x65735546: "fuse",
	0xf15f:     "ecryptfs",
	0x794c7630: "overlay",
	0x61756673: "aufs",
	0xff534d42: "cifs",
	0xfe534d42: "smb2",
	0x517b:     "smb",
	0x01021997: "9p",
	0x00c36400: "ceph",
	0x5346414f: "afs",
	0x786f4256: "vboxsf",
	0x4d44:     "vfat",
	0x2011bab0: "exfat",
	0x5346544e: "ntfs",
	0x7366746e: "ntfs3",
	0x73717368: "squashfs",
}

// dataRoot looks at the filesystem below the data root, before anything is
// pulled or made there (case 103).
func (h host) dataRoot() Check {
	if h.DataRoot == "" {
		return Check{ID: "data-root", Status: OK}
	}
	dir := filepath.Clean(h.DataRoot)
	magic, err := h.System.FSType(dir)
	for errors.Is(err, unix.ENOENT) && dir != "/" {
		dir = filepath.Dir(dir)
		magic, err = h.System.FSType(dir)
	}
	c := Check{
		ID: "data-root", Status: OK, Found: h.DataRoot,
		Fix: "set storage.data_root in the configuration to a directory on a local filesystem such as ext4, xfs or btrfs",
	}
	magic &= 0xffffffff // signed on some architectures
	switch name, bad := unsuitable[magic]; {
	case err != nil:
		c.Status, c.Why = Block, fmt.Sprintf("The data root %s cannot be reached: %v.", h.DataRoot, err)
	case bad:
		c.Status, c.Why = Block, fmt.Sprintf("The data root %s is on a filesystem of type %s, which cannot hold an overlay's upper layer.", h.DataRoot, name)
	default:
		c.Fix = ""
	}
	return c
}

// install returns this host's command that installs a package.
func (e Env) install(names map[distro.Family]string) string {
	text := e.read("/etc/os-release")
	if text == "" {
		text = e.read("/usr/lib/os-release")
	}
	return distro.Of(text).Install(names)
}

// listed reads "a is" or "a and b are", in a fixed order.
func listed(names []string) string {
	slices.Sort(names)
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, " and ") + " are"
}

// failure says in one line how a program failed.
func failure(out Output, err error) string {
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return line
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(out.Stderr), "\n"); line != "" {
		return line
	}
	return "it exits with status " + strconv.Itoa(out.Status)
}
