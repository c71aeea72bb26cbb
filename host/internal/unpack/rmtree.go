package unpack

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// RemoveTree is the program `_rmtree`: it reads one RemoveRequest from in and
// removes that tree, whoever of the namespace's ids owns it and whatever its
// modes are. It confines the process to the parent directory first. A tree that
// does not exist is removed.
//
// The returned error has already been reported as an Event.
func RemoveTree(in io.Reader, out io.Writer) error {
	r := newReporter(out)
	return r.finish(removeTree(in))
}

func removeTree(in io.Reader) error {
	var req RemoveRequest
	if err := readRequest(in, &req); err != nil {
		return err
	}
	if req.Version != Version || req.Parent < 3 ||
		req.Name == "" || req.Name == "." || req.Name == ".." || strings.ContainsAny(req.Name, "/\x00") {
		return fmt.Errorf("remove request for %s is malformed", quote(req.Name))
	}
	parent := os.NewFile(uintptr(req.Parent), "parent")
	if err := confine(parent); err != nil {
		return err
	}
	// RemoveAll walks by descriptor and follows no link.
	if err := os.RemoveAll("/" + req.Name); err != nil { //nolint:forbidigo // confined above, and root of its namespace: modes stop it nowhere
		return fmt.Errorf("remove tree: %w", err)
	}
	if err := unix.Fsync(int(parent.Fd())); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
