package session

import (
	"slices"
	"strconv"
	"strings"

	"lazaret.dev/lazaret/protocol/launch"
)

// defaultPath is the search path of an image that sets none.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// gitSettings are what Git inside is told past every configuration file, a
// repository's own included. For what starts without this environment most of
// it stands in /run/lazaret/git/config too, where a repository can change it.
var gitSettings = [][2]string{
	// Inode, owner and change time are others than on the host: comparing them
	// would make each side read every file again after the other's turn.
	{"core.checkStat", "minimal"},
	{"core.trustctime", "false"},
	// A monitor inside sees no change that is made on the host, and would call
	// changed files clean.
	{"core.fsmonitor", "false"},
	// The cache is bound to the path of the project, which is another one on the
	// host: Git would warn of it at every call.
	{"core.untrackedCache", "false"},
	// The host's other worktrees exist, though they are not visible.
	{"gc.worktreePruneExpire", "never"},
	// A Git that reads another system configuration than /etc/gitconfig.
	{"safe.directory", "*"},
}

// Environment is the environment of a session's command: the image's, then the
// identity of root, then what the client sends. A later one wins. With hostCA
// the host's certificates lie at launch.GuestCABundle.
func Environment(image []string, hostCA bool, client []string) []string {
	env := append([]string{defaultPath}, image...)
	env = append(env, "HOME=/root", "USER=root", "LOGNAME=root")
	if hostCA {
		// Node.js reads no bundle of the system's.
		env = append(env, "NODE_EXTRA_CA_CERTS="+launch.GuestCABundle)
	}
	env = append(env, client...)
	at := map[string]int{}
	out := make([]string, 0, len(env))
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || strings.HasPrefix(name, "LAZARET_") {
			continue // an image must not speak for Lazaret
		}
		if i, seen := at[name]; seen {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return slices.Clip(withGit(out))
}

// withGit adds gitSettings behind what the environment configures already.
func withGit(env []string) []string {
	const prefix = "GIT_CONFIG_COUNT="
	at := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, prefix) })
	n := 0
	if at >= 0 {
		var err error
		if n, err = strconv.Atoi(env[at][len(prefix):]); err != nil || n < 0 {
			return env // Git will say what is wrong with it
		}
		env = slices.Delete(env, at, at+1)
	}
	// Beyond the count they mean nothing, until the count grows over them.
	env = slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		for _, p := range []string{"GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"} {
			if digits, ok := strings.CutPrefix(name, p); ok {
				i, err := strconv.Atoi(digits)
				return err == nil && i >= n
			}
		}
		return false
	})
	for i, s := range gitSettings {
		k := strconv.Itoa(n + i)
		env = append(env, "GIT_CONFIG_KEY_"+k+"="+s[0], "GIT_CONFIG_VALUE_"+k+"="+s[1])
	}
	return append(env, prefix+strconv.Itoa(n+len(gitSettings)))
}
