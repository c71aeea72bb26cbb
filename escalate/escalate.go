// Package escalate is the facade of the static client that lives in the
// sandbox as /run/lazaret/escalate.
//
// For people and agents it is "escalate", which asks the developer to let a
// command run on the host. For Lazaret it is the helper that the Host
// Coordinator starts by runsc exec: pid 1, the prober, the launcher of session
// commands and the end of a session. It runs untrusted, in the sandbox: it holds
// no secret, decides nothing, and links the standard library and protocol
// packages alone.
package escalate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"lazaret.dev/lazaret/escalate/internal/guest"
	"lazaret.dev/lazaret/escalate/internal/prober"
)

// The exit statuses of the client's own (sysexits.h).
const (
	exitUsage       = 2
	exitUnavailable = 69 // no coordinator
	exitFailed      = 70
)

const usage = `usage: escalate [--reason TEXT] [--timeout DURATION] [--cwd DIR] [--json] -- COMMAND [ARG...]

Ask the developer to run COMMAND on the host, outside this sandbox. The
developer sees the exact command and approves, edits or denies it. What it
prints is printed here, and its exit status becomes this one's.

  --reason TEXT       why, in one line; the developer reads it
  --timeout DURATION  how long to wait for the decision, such as 90s or 5m
  --cwd DIR           where to run it, in /workspace (default: here)
  --json              print one JSON object instead of the command's output
  --help              print this text

EXIT STATUS
  the command's own, or
  2   the request is not well-formed
  69  no coordinator takes requests
  70  the request failed
  75  timed out or cancelled before a decision
  77  denied
`

// Main runs the client with the arguments after its name and returns its exit
// status. Some of Lazaret's own subcommands replace the process or never return.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && strings.HasPrefix(args[0], "_") {
		status, err := internal(args[0], args[1:], stdin, stdout)
		if err != nil {
			fmt.Fprintf(stderr, "lazaret: error: %v\n", err)
		}
		return status
	}
	r, err := parse(args)
	if errors.Is(err, errHelp) {
		_, _ = io.WriteString(stdout, usage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "lazaret: error: %v\nlazaret: hint: escalate --help\n", err)
		return exitUsage
	}
	return r.unavailable(stdout, stderr)
}

// internal runs one of Lazaret's own subcommands.
func internal(name string, args []string, stdin io.Reader, stdout io.Writer) (int, error) {
	switch name {
	case "_init":
		guest.Init()
		return exitFailed, errors.New("pid 1 ended")
	case "_probe":
		if err := prober.Serve(stdin, stdout); err != nil {
			return exitFailed, err
		}
		return 0, nil
	case "_exec":
		var e *guest.ExecError
		status, err := guest.Exec(args)
		switch {
		case errors.As(err, &e):
			return e.Status, err
		case err != nil && status == 0:
			return exitUsage, err
		}
		return status, err
	case "_end":
		if len(args) != 2 {
			return exitUsage, errors.New("_end takes a session's sid and id")
		}
		sid, err := strconv.Atoi(args[0])
		if err != nil {
			return exitUsage, fmt.Errorf("session sid: %w", err)
		}
		if err := guest.End(sid, args[1]); err != nil {
			return exitFailed, err
		}
		return 0, nil
	default:
		return exitUsage, fmt.Errorf("unknown subcommand %q", name)
	}
}

// request is what the command line asks for.
type request struct {
	reason  string
	timeout time.Duration
	cwd     string
	json    bool
	command []string
}

var errHelp = errors.New("help")

// parse reads the command line. Everything after the first word that is no
// option is the command, with or without "--" before it.
func parse(args []string) (*request, error) {
	var r request
	for len(args) > 0 {
		name, value, inline := strings.Cut(args[0], "=")
		switch name {
		case "-h", "--help":
			return nil, errHelp
		case "--json":
			if inline {
				return nil, errors.New("--json takes no value")
			}
			r.json = true
			args = args[1:]
			continue
		case "--reason", "--timeout", "--cwd":
			args = args[1:]
			if !inline {
				if len(args) == 0 {
					return nil, fmt.Errorf("%s needs a value", name)
				}
				value, args = args[0], args[1:]
			}
			if err := r.set(name, value); err != nil {
				return nil, err
			}
			continue
		case "--":
			args = args[1:]
		default:
			if strings.HasPrefix(name, "-") {
				return nil, fmt.Errorf("unknown option %q", name)
			}
		}
		r.command = args
		break
	}
	if len(r.command) == 0 {
		return nil, errors.New("no command to escalate")
	}
	return &r, nil
}

func (r *request) set(name, value string) error {
	switch name {
	case "--reason":
		r.reason = value
	case "--cwd":
		r.cwd = value
	case "--timeout":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("--timeout %q is no duration: write it as 90s or 5m", value)
		}
		r.timeout = d
	}
	return nil
}

// unavailable reports that nobody takes the request.
func (r *request) unavailable(stdout, stderr io.Writer) int {
	const reason = "no coordinator takes escalation requests in this sandbox"
	if r.json {
		e := json.NewEncoder(stdout)
		if err := e.Encode(map[string]any{
			"outcome": "unavailable", "approved": false, "edited": false, "reason": reason,
		}); err != nil {
			return exitFailed
		}
	}
	fmt.Fprintf(stderr, "lazaret: error: %s: %q was not run\n", reason, r.command[0])
	return exitUnavailable
}
