package spawn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Enter runs programs of lazaret as root of a user namespace, through
// lazaret-supervisor: one binary makes all of Lazaret's user namespaces, so that
// one AppArmor path is enough. It implements image.Runner.
type Enter struct {
	Supervisor string // lazaret-supervisor
	Executable string // lazaret
	Mapping    Mapping
}

// Run executes `lazaret PROGRAM` in a fresh user namespace; see image.Runner.
func (e Enter) Run(ctx context.Context, program string, request []byte, files []*os.File, stdout io.Writer) error {
	args := append([]string{"enter"}, e.Mapping.flags()...)
	args = append(args, "--", e.Executable, program)
	cmd := exec.CommandContext(ctx, e.Supervisor, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), stdout, &stderr
	cmd.ExtraFiles = files
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("lazaret %s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
