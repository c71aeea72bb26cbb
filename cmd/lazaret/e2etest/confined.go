package e2etest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Elsewhere runs a command of lazaret on a host that differs from this one by
// what the shell line setup does first: in a user and a mount namespace of its
// own, in which the user has the same uid and, while setup runs, the right to
// mount. lazaret itself runs without privileges, as ever. Mapped setuid
// programs have no effect there, so that only what needs no subordinate ids can
// start.
func (h *Home) Elsewhere(setup string, args ...string) Result {
	h.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	argv := []string{
		"--user", "--map-user=" + strconv.Itoa(os.Getuid()), "--map-group=" + strconv.Itoa(os.Getgid()),
		"--mount", "--propagation=private", "--keep-caps", "--",
		"sh", "-c", "{ " + setup + "; } && exec setpriv --ambient-caps=-all --inh-caps=-all -- \"$@\"", "sh", h.binary(),
	}
	cmd := exec.CommandContext(ctx, "unshare", append(argv, args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = h.Project, h.Env, 5*time.Second
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	err := cmd.Run()
	if ctx.Err() != nil {
		h.tb.Fatalf("lazaret %q did not end within %s; stderr:\n%s", args, Timeout, errb.String())
	}
	return Result{Stdout: out.String(), Stderr: errb.String(), Status: Status(h.tb, err)}
}

// Setenv sets a variable of the home's commands; an empty value removes it.
func (h *Home) Setenv(name, value string) {
	var env []string
	for _, kv := range h.Env {
		if !strings.HasPrefix(kv, name+"=") {
			env = append(env, kv)
		}
	}
	if value != "" {
		env = append(env, name+"="+value)
	}
	h.Env = env
}
