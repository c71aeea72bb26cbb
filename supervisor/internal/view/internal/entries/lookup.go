package entries

import (
	"errors"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
)

// Lookup finds an entry and counts one look-up of its node.
func (v *Entries) Lookup(parent uint64, name string) (resolve.Reply, error) {
	if err := resolve.CheckName(name); err != nil {
		return resolve.Reply{}, err
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	dir, path, err := v.Dir(parent)
	if err != nil {
		return resolve.Reply{}, err
	}
	f, err := v.Find(dir, path, name)
	if errors.Is(err, unix.ENOENT) {
		return resolve.Reply{TTL: v.AbsentTTL(dir)}, nil
	}
	if err != nil {
		return resolve.Reply{}, err
	}
	return v.Enter(dir, name, &f), nil
}

// Forget takes back look-ups of a node.
func (v *Entries) Forget(id, lookups uint64) {
	for _, n := range v.Tree.Forget(id, lookups) {
		v.Notices.Forget(n)
		v.Stores.Drop(n)
	}
}
