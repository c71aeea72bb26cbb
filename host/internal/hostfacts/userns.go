package hostfacts

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// packagedSupervisor is where the distribution packages put the supervisor; the
// AppArmor profile that they bring names this path.
const packagedSupervisor = "/usr/libexec/lazaret/lazaret-supervisor"

// namespaceLimits is the part of D1 that reads switches only.
func (h host) namespaceLimits() Check {
	if strings.TrimSpace(h.read("/proc/sys/user/max_user_namespaces")) == "0" {
		return namespacesOff()
	}
	if strings.TrimSpace(h.read("/proc/sys/kernel/unprivileged_userns_clone")) == "0" {
		return namespacesForbidden()
	}
	return Check{ID: "D1", Status: OK}
}

func namespacesOff() Check { // D1a
	return Check{
		ID: "D1", Status: Block, Why: "User namespaces are switched off (user.max_user_namespaces=0).",
		Fix:  "echo 'user.max_user_namespaces=28633' | sudo tee /etc/sysctl.d/60-lazaret.conf && sudo sysctl --system",
		Note: "If your organisation hardens this host (STIG/CIS), ask first.",
	}
}

func namespacesForbidden() Check { // D1b
	return Check{
		ID: "D1", Status: Block, Why: "This kernel forbids unprivileged user namespaces.",
		Fix: "echo 'kernel.unprivileged_userns_clone=1' | sudo tee /etc/sysctl.d/60-lazaret.conf && sudo sysctl --system",
	}
}

// namespaces is D1. The supervisor tries it, because a security module judges
// by the program's path: `lazaret-supervisor probe-userns` makes user, mount
// and network namespaces, mounts a tmpfs and brings lo up. It exits 0, or 1
// with the line "<step>: <errno name>" on stderr.
func (h host) namespaces(ctx context.Context) Check {
	if h.tools.Supervisor == "" {
		if c := h.namespaceLimits(); c.Status != OK {
			return c
		}
		return Check{ID: "D1", Status: Info, Why: "Not tried: lazaret-supervisor, which tries it, is missing."}
	}
	out, err := h.System.Run(ctx, h.tools.Supervisor, "probe-userns")
	if err == nil && out.Status == 0 {
		return Check{ID: "D1", Status: OK, Found: "user, mount and network namespaces"}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out.Stderr), "\n")
	step, errno, _ := strings.Cut(line, ": ")
	refused := errno == "EPERM" || errno == "EACCES"
	sysctl := func(name string) string { return strings.TrimSpace(h.read("/proc/sys/" + name)) }
	switch {
	case step == "clone" && errno == "ENOSPC", sysctl("user/max_user_namespaces") == "0":
		return namespacesOff()
	case step == "clone" && errno == "EPERM" && sysctl("kernel/unprivileged_userns_clone") == "0":
		return namespacesForbidden()
	case refused && sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return h.appArmor()
	case refused && h.inContainer(ctx):
		return Check{
			ID: "D1", Status: Block, Why: "Running inside a container that filters namespaces (" + line + ").",
			Fix: "Run Lazaret on the host, or start the container with a seccomp/AppArmor profile that allows user namespaces.",
		}
	}
	return Check{
		ID: "D1", Status: Block, Why: "Namespaces cannot be made: " + failure(out, err) + ".",
		Fix: "look at sudo dmesg for a security module that refused " + h.tools.Supervisor +
			", and at the kernel's configuration for CONFIG_USER_NS, CONFIG_NET_NS",
	}
}

// appArmor is D1c.
func (h host) appArmor() Check {
	label := strings.TrimSpace(h.read("/proc/self/attr/apparmor/current"))
	if label == "" {
		label = strings.TrimSpace(h.read("/proc/self/attr/current"))
	}
	c := Check{
		ID: "D1", Status: Block,
		Why:  fmt.Sprintf("Ubuntu's AppArmor blocks namespaces for %s (label: %s).", h.tools.Supervisor, label),
		Note: "Do not set kernel.apparmor_restrict_unprivileged_userns=0; that lowers protection for every program.",
	}
	const target = "/etc/apparmor.d/lazaret"
	load := "sudo apparmor_parser -r " + target
	profile := filepath.Join(h.Prefix(), "share/lazaret/apparmor/lazaret")
	if h.tools.Supervisor == packagedSupervisor && h.exists(profile) {
		c.Fix = "sudo install -m 0644 " + profile + " " + target + " && " + load
		return c
	}
	// One line, so that it can be copied from behind any prefix.
	text := strings.NewReplacer(`\`, `\\`, `%`, `%%`, "\n", `\n`, `'`, `'\''`).Replace(Profile(h.tools.Supervisor))
	c.Fix = "printf '" + text + "' | sudo tee " + target + " >/dev/null && " + load
	return c
}

// Profile returns an AppArmor profile that lets the supervisor at that path
// make user namespaces, and confines it in nothing else.
func Profile(supervisor string) string {
	// Within quotes, a backslash keeps its meaning and so do the globs.
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `^`, `\^`, `@`, `\@`)
	return "abi <abi/4.0>,\ninclude <tunables/global>\n\nprofile lazaret \"" + escape.Replace(supervisor) +
		"\" flags=(unconfined) {\n  userns,\n}\n"
}

// inContainer is D1d.
func (h host) inContainer(ctx context.Context) bool {
	if h.exists("/.dockerenv") || h.exists("/run/.containerenv") {
		return true
	}
	cgroup := h.read("/proc/1/cgroup")
	for _, mark := range []string{"docker", "kubepods", "containerd", "libpod", "lxc"} {
		if strings.Contains(cgroup, mark) {
			return true
		}
	}
	tool := h.lookPath("systemd-detect-virt")
	if tool == "" {
		return false
	}
	out, err := h.System.Run(ctx, tool, "-c", "-q")
	return err == nil && out.Status == 0
}
