package spawn

import (
	"os"

	"golang.org/x/sys/unix"
)

// Namespace is the identity of a namespace (namespaces(7)).
type Namespace struct{ Dev, Ino uint64 }

// NamespaceOf identifies the namespace behind a file of /proc/PID/ns.
func NamespaceOf(path string) (Namespace, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Namespace{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return Namespace{Dev: st.Dev, Ino: st.Ino}, nil
}
