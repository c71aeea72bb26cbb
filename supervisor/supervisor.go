// Package supervisor is the Runtime Supervisor (RS): the process in new user,
// mount, network and cgroup namespaces that owns one generation's mounts,
// network namespace, slirp4netns and attached runsc client.
//
// It carries out a launch plan, reports over the handoff, and decides nothing;
// it never speaks to the sandbox, and prints nothing but in its command-line
// modes. It is one binary in three successive images of two processes:
//
//	first stage   host namespaces; makes the user, mount and cgroup namespaces
//	              and exits. Its child is adopted by the Host Coordinator.
//	assemble      in them, but in the host's network namespace: makes the
//	              enforcement namespace and the sandbox's below it, starts
//	              slirp4netns, builds the mounts, enters the enforcement
//	              namespace and execs itself.
//	serve         wholly inside: attests, runs runsc, supervises, tears down.
//
// What dies with whom: the supervisor with the Host Coordinator (the lease's
// EOF, and SIGTERM at the parent's death should something else hold the lease
// open), slirp4netns and runsc with the supervisor (parent-death SIGKILL; the
// exit pipe too for slirp4netns), sentry and gofer with runsc. A parent-death
// signal is bound to the thread that started the child, not to its process.
// Hence main locks its goroutine to its thread before anything else, and every
// child is started from there: that thread ends only with the process, or
// becomes the process in an exec, which keeps its children.
package supervisor

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/protocol/wire"
	"lazaret.dev/lazaret/supervisor/internal/launcher"
	"lazaret.dev/lazaret/supervisor/internal/slirp"
)

// The modes, first arguments of the binary. Those with an underscore are the
// supervisor's own.
const (
	modeProbe       = "probe-userns"
	modeProbeInside = "_probe"
	modeEnter       = "enter"
	modeEnterInside = "_enter"
	modeAssemble    = "_assemble"
	modeServe       = "_serve"
	modeIsolation   = isolation.AtRestMode
)

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

// Main runs the supervisor with the given arguments, program name excluded,
// and returns its exit status. The caller must have locked its goroutine to
// its thread (runtime.LockOSThread) and must exit when Main returns.
//
//	[MAP]                         supervise: descriptors 3 and 4 as handoff says
//	enter [MAP] -- PROGRAM ARG…   run a program in a new user namespace
//	probe-userns [MAP]            try what supervise would do
//	isolation                     answer a question about a Domain that does not run
//
// MAP is --newuidmap PATH --newgidmap PATH --uid-range START:COUNT --gid-range
// START:COUNT, or nothing for a single-id mapping.
func Main(args []string, stderr io.Writer) int {
	mode := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		mode, args = args[0], args[1:]
	}
	switch mode {
	case "":
		return supervise(args, stderr)
	case modeAssemble:
		rename()
		return assemble(args, stderr)
	case modeServe:
		rename()
		return serve(args, stderr)
	case modeEnter:
		return enter(args, stderr)
	case modeEnterInside:
		return enterInside(args, stderr)
	case modeIsolation:
		return report(stderr, atRest(os.Stdin, os.Stdout))
	case modeProbe:
		return probe(args, stderr)
	case modeProbeInside:
		return probeInside(args, stderr)
	case slirp.ExecMode:
		return report(stderr, slirp.Exec(args))
	default:
		_, _ = fmt.Fprintf(stderr, "lazaret-supervisor: unknown mode %q\n", mode)
		return exitUsage
	}
}

// rename gives the process its program's name, which ps and the like show. An
// exec of /proc/self/exe leaves it as "exe".
func rename() { _ = os.WriteFile("/proc/self/comm", []byte("lazaret-supervisor"), 0) }

// report prints err and returns the exit status.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "lazaret-supervisor: error: %v\n", err)
	return exitFailed
}

// mapFlags declares the flags of an id mapping.
func mapFlags(fs *flag.FlagSet) *launcher.IDMap {
	m := &launcher.IDMap{}
	fs.StringVar(&m.NewUIDMap, "newuidmap", "", "path of newuidmap(1)")
	fs.StringVar(&m.NewGIDMap, "newgidmap", "", "path of newgidmap(1)")
	fs.Var(&m.UIDs, "uid-range", "subordinate user ids, START:COUNT")
	fs.Var(&m.GIDs, "gid-range", "subordinate group ids, START:COUNT")
	return m
}

// flags makes a flag set that reports to stderr and never exits.
func flags(name string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet("lazaret-supervisor "+name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	return fs
}

// supervise is the first stage.
func supervise(args []string, stderr io.Writer) int {
	fs := flags("", stderr)
	m := mapFlags(fs)
	if err := fs.Parse(args); err != nil {
		return exitUsage
	}
	if fs.NArg() > 0 {
		_, _ = fmt.Fprintf(stderr, "lazaret-supervisor: unexpected argument %q\n", fs.Arg(0))
		return exitUsage
	}
	faults.Point("start.rs.first-stage")
	_, err := launcher.Clone(launcher.Options{
		Mode:  modeAssemble,
		Flags: unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP,
		Map:   *m,
		Adopt: true,
		Death: unix.SIGTERM,
	})
	if err == nil {
		return 0
	}
	// The child is gone and nobody else will tell.
	seq, serr := wire.InheritSeq(handoff.SocketFD, "handoff")
	if serr != nil {
		return report(stderr, errors.Join(err, serr))
	}
	defer func() { _ = seq.Close() }()
	newReporter(seq, os.NewFile(handoff.LogFD, "log")).failed("userns", err)
	return exitFailed
}
