package generation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/protocol/control"
)

// Names in a Domain's runtime directory, beside the control sockets.
const (
	RunscDir   = "r" // runsc's state; short, since its control socket lies in it
	ScratchDir = "m" // an empty directory; the supervisor's mounts cover it
)

// sockets are the names of the published sockets.
var sockets = [...]string{control.EnrollSocket, control.ControlSocket}

// RunscSocket is where runsc puts a sandbox's control socket, relative to a
// Domain's runtime directory.
func RunscSocket(sandboxID string) string {
	return filepath.Join(RunscDir, "runsc-"+sandboxID+".sock")
}

// Dirs are a generation's directories in the Domain's runtime directory.
type Dirs struct {
	Runsc   claim.File // runsc's state
	Scratch claim.File
}

// StageDirs makes the generation's directories in the Domain's runtime
// directory, under names of its own. They are described as Settle leaves them.
func StageDirs(dir, generation string) (d Dirs, err error) {
	for name, file := range map[string]*claim.File{RunscDir: &d.Runsc, ScratchDir: &d.Scratch} {
		staged := claim.Staged(dir, generation, name)
		if err := unix.Mkdir(staged, 0o700); err != nil {
			return d, &os.PathError{Op: "mkdir", Path: staged, Err: err}
		}
		if *file, err = claim.Identify(staged); err != nil {
			return d, err
		}
		file.Path = filepath.Join(dir, name)
	}
	return d, nil
}

// Files are the directories as they go on record.
func (d Dirs) Files() []claim.File { return []claim.File{d.Runsc, d.Scratch} }

// Settle moves the directories to their places, after they are on record.
func (d Dirs) Settle(generation string) error {
	for _, file := range d.Files() {
		dir, name := filepath.Split(file.Path)
		if err := claim.Move(claim.Staged(dir, generation, name), file.Path); err != nil {
			return err
		}
	}
	return nil
}

// CheckRuntime refuses a Domain's runtime directory in which something is where
// a generation will put its own, with *claim.TakenError. What a dead generation
// had on record was cleaned before, so that nothing there is ours.
func CheckRuntime(dir string) error {
	return claim.Free(Places(dir)...)
}

// Places are where a generation's sockets and directories come to lie.
func Places(dir string) []string {
	var out []string
	for _, name := range append(sockets[:], RunscDir, ScratchDir) {
		out = append(out, filepath.Join(dir, name))
	}
	return out
}

// SocketPlaces are where the published sockets come to lie.
func SocketPlaces(dir string) []string {
	var out []string
	for _, name := range sockets {
		out = append(out, filepath.Join(dir, name))
	}
	return out
}

// RemoveDirs removes the generation's directories when they are the ones on
// record. Not even then is anything removed that lies in the scratch directory:
// on the host it is empty.
func RemoveDirs(files []claim.File, sameBoot bool) error {
	var errs []error
	for _, file := range files {
		if filepath.Base(file.Path) == RunscDir {
			errs = append(errs, claim.RemoveTree(file, sameBoot))
		} else {
			errs = append(errs, claim.Remove(file, sameBoot))
		}
	}
	return errors.Join(errs...)
}

// Leave removes what the generation has put into the Domain's runtime directory,
// or staged there, and the directory itself when nothing else is in it. Only the
// holder of the Domain lock calls it, at the end.
func (d Dirs) Leave(dir, generation string) error {
	return errors.Join(RemoveDirs(d.Files(), true), RemoveStaged(dir, generation), RemoveRuntime(dir))
}

// RemoveRuntime removes the Domain's runtime directory when nothing is in it,
// and nothing else that lies in its place.
func RemoveRuntime(dir string) error {
	err := unix.Rmdir(dir)
	switch {
	case err == nil, errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EBUSY), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil
	}
	return &os.PathError{Op: "rmdir", Path: dir, Err: err}
}

// RemoveStaged removes what the generation has staged in the Domain's runtime
// directory and not moved to its place.
func RemoveStaged(dir, generation string) error {
	var errs []error
	for _, p := range Places(dir) {
		errs = append(errs, claim.Unlink(claim.Staged(dir, generation, filepath.Base(p))))
	}
	return errors.Join(errs...)
}

// SocketNames are the longest addresses that a Domain needs, relative to its
// runtime directory.
func SocketNames() []string {
	out := append(sockets[:], RunscSocket(SandboxID(strings.Repeat("0", 32))))
	for _, name := range sockets {
		out = append(out, claim.Staged("", strings.Repeat("0", idLength), name))
	}
	return out
}

// idLength is how long a generation's id is.
const idLength = 22
