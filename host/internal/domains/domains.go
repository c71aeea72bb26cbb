// Package domains knows the Domains of a data root whether they run or not:
// which of them is meant, and how one is recovered under its lock.
//
// It starts nothing. It runs in client commands; in the one that recovers, which
// is the Host Coordinator for as long as it holds the Domain lock.
package domains

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/host/internal/recovery"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol/trace"
)

const (
	// lockTimeout bounds the wait for a lock whose holder is just ending.
	lockTimeout = time.Second
	lockPoll    = 10 * time.Millisecond
)

// Domain is one Domain that a data root knows.
type Domain struct{ ID, Profile, Workspace string }

// Error is a refusal with what to do about it.
type Error struct{ Text, Fix string }

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Hint says what to do.
func (e *Error) Hint() string { return e.Fix }

// Known lists the Domains of a data root. It takes no lock.
func Known(dataRoot string) []Domain {
	var out []Domain
	for _, r := range paths.Current().Records(dataRoot) {
		out = append(out, Domain{ID: r.DomainID, Profile: r.Profile, Workspace: r.Workspace})
	}
	return out
}

// WorkingDirectory is the current directory as the Domains know it.
func WorkingDirectory() (string, error) {
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the current directory: %w", err)
	}
	return here, nil
}

// Choose picks the Domains that are meant: by an ID or the beginning of one, or
// all those of the current directory where name is empty.
func Choose(known []Domain, name string) ([]Domain, error) {
	match := func(d Domain) bool { return strings.HasPrefix(d.ID, name) }
	if name == "" {
		here, err := WorkingDirectory()
		if err != nil {
			return nil, err
		}
		match = func(d Domain) bool { return d.Workspace == here }
	}
	chosen := slices.DeleteFunc(slices.Clone(known), func(d Domain) bool { return !match(d) })
	switch {
	case len(chosen) == 0 && name == "":
		return nil, &Error{Text: "this directory has no Domain", Fix: hintKnown(known)}
	case len(chosen) == 0:
		return nil, &Error{Text: fmt.Sprintf("there is no Domain %q", name), Fix: hintKnown(known)}
	case len(chosen) > 1 && name != "":
		return nil, &Error{Text: fmt.Sprintf("%q is the beginning of %d Domains", name, len(chosen)), Fix: hintKnown(chosen)}
	}
	return chosen, nil
}

// maxKnown is how many Domains a hint names.
const maxKnown = 8

func hintKnown(known []Domain) string {
	if len(known) == 0 {
		return "lazaret run makes one"
	}
	var lines []string
	for _, d := range known[:min(len(known), maxKnown)] {
		lines = append(lines, fmt.Sprintf("lazaret recover %s   (profile %s, %q)", d.ID, d.Profile, d.Workspace))
	}
	return strings.Join(lines, "\n")
}

// Recover clears away what a dead generation of a Domain has left, under the
// Domain lock, and says what it does.
func Recover(ctx context.Context, data paths.DataRoot, d Domain, say func(string)) error {
	root, err := data.Domain(d.ID)
	if err != nil {
		return err
	}
	lock, err := root.OpenLock()
	if err != nil {
		return err
	}
	defer lock.Close()
	// The end of a process is no instant.
	for deadline := time.Now().Add(lockTimeout); ; {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &Error{
			Text: fmt.Sprintf("Domain %s is in use, by %s", d.ID, generation.ReadHolder(lock)),
			Fix:  "lazaret stop " + d.ID + " ends it, or names the process that does not answer",
		}
	}
	if err != nil {
		return fmt.Errorf("lock the Domain: %w", err)
	}
	if err := generation.NoteHolder(lock, generation.Holder{PID: os.Getpid(), Since: time.Now()}); err != nil {
		return err
	}
	st, err := store.Open(ctx, root.Path(), lock)
	if err != nil {
		return err
	}
	defer st.Close()
	dead, err := st.Current(ctx)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if dead == nil {
		say(fmt.Sprintf("no generation of Domain %s is left to recover", d.ID))
	} else {
		dir, err := root.EnsureLog(dead.ID)
		if err != nil {
			return err
		}
		name, err := generation.NewID(time.Now()) // a trace has one beginning
		if err != nil {
			return err
		}
		file, err := generation.OpenLog(filepath.Join(dir, "recover-"+name+".log"))
		if err != nil {
			return err
		}
		defer file.Close()
		log = slog.New(slog.NewJSONHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	where := recovery.Domain{ID: d.ID, DataRoot: data.Path(), Root: root.Path()}
	for _, rt := range paths.Current().Runtimes() {
		where.RuntimeDirs = append(where.RuntimeDirs, rt.DomainPath(d.ID))
	}
	if _, err := recovery.Recover(ctx, where, st, trace.New(log), log, say); err != nil {
		return err
	}
	for _, dir := range where.RuntimeDirs {
		if err := generation.RemoveRuntime(dir); err != nil {
			return err
		}
	}
	return nil
}
