package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/launch"
)

// Names in a Domain's runtime directory, beside the control sockets.
const (
	RunscDir   = "r" // runsc's state; short, since its control socket lies in it
	ScratchDir = "m" // an empty directory; the supervisor's mounts cover it
)

// RunscSocket is where runsc puts a sandbox's control socket, relative to a
// Domain's runtime directory.
func RunscSocket(sandboxID string) string {
	return filepath.Join(RunscDir, "runsc-"+sandboxID+".sock")
}

// Subdir makes a directory of ours in the runtime directory.
func Subdir(dir, name string) (launch.Ref, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return launch.Ref{}, fmt.Errorf("open runtime directory: %w", err)
	}
	defer root.Close()
	if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return launch.Ref{}, fmt.Errorf("make runtime directory: %w", err)
	}
	return paths.Identify(filepath.Join(dir, name))
}

// ClearRuntime removes from a Domain's runtime directory what a generation has
// put there, and the directory itself when nothing else is in it. Only the
// holder of the Domain lock calls it, at the end.
func ClearRuntime(dir string) error {
	if err := EmptyRuntime(dir); err != nil {
		return err
	}
	err := os.Remove(dir)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// EmptyRuntime removes from a Domain's runtime directory what a generation has
// put there, by name, and leaves everything else. The holder of the Domain lock
// calls it before it starts, since a coordinator that was killed could not.
func EmptyRuntime(dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open runtime directory: %w", err)
	}
	defer root.Close()
	var errs []error
	for _, name := range socketNames() {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := root.RemoveAll(RunscDir); err != nil {
		errs = append(errs, err)
	}
	// Not RemoveAll: on the host the scratch directory is empty, or not ours.
	if err := root.Remove(ScratchDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// SocketNames are the longest addresses that a Domain needs, relative to its
// runtime directory.
func SocketNames() []string {
	return append(socketNames(), RunscSocket(SandboxID(strings.Repeat("0", 32))))
}

// socketNames are the control sockets' names, published and not.
func socketNames() []string {
	return []string{
		control.EnrollSocket, control.ControlSocket, "." + control.EnrollSocket, "." + control.ControlSocket,
	}
}
