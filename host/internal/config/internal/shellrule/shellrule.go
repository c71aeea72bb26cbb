// Package shellrule decides whether an auto-approval rule amounts to a shell:
// whether whoever may run its command without being asked may run anything. It
// is a table and pure functions over it, used in the Client CLI when the
// configuration is read. It decides no request, and a program that it does not
// know is no shell to it; it is a guard against slips, not a sandbox.
package shellrule

import (
	"path/filepath"
	"slices"
	"strings"
)

// table lists programs by what they are: base names without version numbers.
var table = []struct {
	what     string
	programs string
}{
	{"a shell", "sh bash dash ash zsh ksh mksh fish csh tcsh busybox toybox nu pwsh rbash"},
	{"an interpreter, which runs any code", "python pypy perl ruby node nodejs deno bun php lua luajit tclsh wish expect awk gawk mawk nawk sed ed ex vi vim nvim view vimdiff emacs emacsclient nano osascript java jshell groovy scala kotlin guile racket sbcl ghci runghc R Rscript julia octave gdb lldb sqlite3 psql mysql m4 bc dc jq yq"},
	{"a program that runs other programs", "env xargs find fd parallel nohup nice ionice timeout setsid stdbuf time chrt taskset flock watch entr script screen tmux dtach unshare nsenter chroot setpriv setarch unbuffer strace ltrace ld.so ld-linux-x86-64.so exec command eval source systemd-run at batch crontab make-kpkg start-stop-daemon runuser less more man tar zip rsync scp sftp dbus-send busctl gdbus dbus-run-session xterm gnome-terminal konsole kitty alacritty foot wezterm xdg-open open"},
	{"a way to another machine or user", "ssh mosh telnet nc ncat netcat socat sudo sudoedit doas pkexec su run0 machinectl"},
	{"a container or cluster tool, which runs other programs", "docker docker-compose podman podman-compose nerdctl ctr lxc incus kubectl helm vagrant flatpak snap toolbox distrobox"},
	{"a build tool, which runs what the project says", "make gmake bmake ninja cmake ctest meson bazel bazelisk buck buck2 scons waf just task mage rake gradle gradlew mvn mvnw ant sbt go cargo rustc gcc g++ cc clang tsc webpack vite gulp grunt nx turbo pytest tox nox pre-commit invoke fab ansible ansible-playbook terraform tofu"},
	{"a package manager, which runs what packages say", "npm npx yarn pnpm pnpx bunx corepack pip pipx uv uvx poetry pdm hatch conda mamba gem bundle bundler composer cabal stack nix nix-shell nix-build nix-env apt apt-get dpkg dnf yum rpm zypper pacman brew"},
	{"Git, which runs what a repository says", "git gitk tig lazygit gh hub glab"},
	{"Lazaret itself, which answers requests", "lazaret lazaret-supervisor lazaret-escalate runsc"},
}

// Reason says why command amounts to a shell, or returns "". resolve gives the
// program behind a path's symbolic links and may return its argument; workspace
// is the canonical Agent Workspace, which the sandbox can write.
func Reason(command []string, workspace string, resolve func(string) string) string {
	if len(command) == 0 {
		return ""
	}
	program := command[0]
	for _, arg := range command {
		if filepath.IsAbs(arg) && (within(workspace, filepath.Clean(arg)) || within(workspace, resolve(arg))) {
			return "it names " + arg + ", which is in the workspace, where the agent can change it"
		}
	}
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		return program + " is relative to the working directory, where the agent can change it"
	}
	names := []string{program}
	if filepath.IsAbs(program) {
		names = append(names, resolve(program))
	}
	for _, n := range names {
		base := filepath.Base(n)
		for _, b := range []string{base, unversioned(base)} {
			if what := kind(b); what != "" {
				return base + " is " + what
			}
		}
	}
	return ""
}

func kind(base string) string {
	if strings.HasPrefix(base, "git-") {
		return "Git, which runs what a repository says"
	}
	for _, row := range table {
		if slices.Contains(strings.Fields(row.programs), base) {
			return row.what
		}
	}
	return ""
}

// unversioned drops a trailing version: python3.11 and gcc-12 are python and gcc.
func unversioned(base string) string {
	return strings.TrimRight(strings.TrimRight(base, "0123456789."), "-")
}

func within(dir, path string) bool {
	return dir != "" && (path == dir || strings.HasPrefix(path, dir+"/"))
}
