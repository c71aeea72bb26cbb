package session

import (
	"slices"
	"strings"

	"lazaret.dev/lazaret/protocol/launch"
)

// defaultPath is the search path of an image that sets none.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

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
	return slices.Clip(out)
}
