package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/paths/internal/dirfd"
	"lazaret.dev/lazaret/protocol/launch"
)

// DataRoot is Lazaret's durable directory:
//
//	profiles/<profile>/                 what volumes of a profile keep
//	domains/<domain id>/                a Domain Root, see [DomainRoot]
//	prepared/<id>/{root,lock,leases/}   a prepared lower, see [Prepared]
//	prepared/<id>.intent                one that is being made
//
// It is a value that holds no descriptor; every method walks from "/".
type DataRoot struct {
	path string // canonical
	uid  int
}

// OpenDataRoot opens, and if necessary makes, the data root at path. Links in
// path are resolved once, here. The directory must be the user's and not
// writable by others.
func (h Host) OpenDataRoot(path string) (DataRoot, error) {
	real, err := Resolve(path)
	if err != nil {
		return DataRoot{}, err
	}
	fd, err := dirfd.OpenRoot(real, h.UID, dirfd.NoWrite, true)
	if err != nil {
		return DataRoot{}, err
	}
	unix.Close(fd)
	return DataRoot{path: real, uid: h.UID}, nil
}

// Path returns the canonical path.
func (r DataRoot) Path() string { return r.path }

// ensure makes the directories and returns the last one's path and identity.
func (r DataRoot) ensure(names ...string) (launch.Ref, error) {
	fd, err := dirfd.Walk(r.path, names, r.uid, dirfd.NoWrite, true)
	if err != nil {
		return launch.Ref{}, err
	}
	defer unix.Close(fd)
	return dirfd.Identify(fd, filepath.Join(append([]string{r.path}, names...)...))
}

// ProfileDirPath returns <data root>/profiles/<profile> and makes nothing.
func ProfileDirPath(dataRoot, profile string) string {
	return filepath.Join(dataRoot, "profiles", profile)
}

// DomainDirPath returns <data root>/domains/<id> and makes nothing.
func DomainDirPath(dataRoot, id string) string {
	return filepath.Join(dataRoot, "domains", id)
}

// DomainOwned are the names in a Domain Root that Lazaret keeps for itself. No
// volume may show one of them (SQLite's companions of store.db included).
func DomainOwned(name string) bool {
	switch name {
	case recordName, "lock", "log", "anchors", "transient", "ignored", "git-private", "routes":
		return true
	}
	return strings.HasPrefix(name, "store.db") || strings.HasPrefix(name, ".")
}

// EnsureVolume makes the missing directories of a volume that lies beneath the
// data root ({profile_dir} or {domain_dir}); path is absolute.
func (r DataRoot) EnsureVolume(path string) (launch.Ref, error) {
	rel, err := filepath.Rel(r.path, path)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return launch.Ref{}, refuse(KindUnsafe, "", "cannot make the volume %q: it is not beneath the data root %q", path, r.path)
	}
	return r.ensure(strings.Split(rel, "/")...)
}

// Domains returns the ids of all Domain Roots, sorted. No lock is needed.
func (r DataRoot) Domains() ([]string, error) {
	fd, err := dirfd.Walk(r.path, []string{"domains"}, r.uid, dirfd.NoWrite, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), "domains")
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", filepath.Join(r.path, "domains"), err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && IsDomainID(e.Name()) {
			out = append(out, e.Name())
		}
	}
	sort.Strings(out)
	return out, nil
}

// Domain returns the Domain Root of id, which need not exist.
func (r DataRoot) Domain(id string) (DomainRoot, error) {
	if !IsDomainID(id) {
		return DomainRoot{}, refuse(KindName, "", "cannot use %q as a Domain ID", id)
	}
	return DomainRoot{data: r, id: id}, nil
}

// DomainRoot is one Domain's durable directory:
//
//	domain.json                        see [Record]
//	store.db                           the Domain store
//	lock                               the Domain lock
//	log/<generation>/                  logs
//	anchors/<encoded path>/{upper,work}    State Anchors
//	anchors/.mapping                   see [DomainRoot.BindAnchors]
//	transient/<generation>/{upper,work}    gone with the generation
type DomainRoot struct {
	data DataRoot
	id   string
}

func (d DomainRoot) names(more ...string) []string {
	return append([]string{"domains", d.id}, more...)
}

// ID returns the Domain ID.
func (d DomainRoot) ID() string { return d.id }

// Path returns the directory's path.
func (d DomainRoot) Path() string { return DomainDirPath(d.data.path, d.id) }

// Ensure makes the Domain Root, 0700, if it is missing.
func (d DomainRoot) Ensure() (launch.Ref, error) { return d.data.ensure(d.names()...) }

// Store returns the path of the Domain store's database.
func (d DomainRoot) Store() string { return filepath.Join(d.Path(), "store.db") }

// Lock returns the path of the Domain lock.
func (d DomainRoot) Lock() string { return filepath.Join(d.Path(), "lock") }

// OpenLock opens the lock file, made 0600 if it is missing, without following
// a link. The caller locks and closes it.
func (d DomainRoot) OpenLock() (*os.File, error) {
	return d.data.openFile(d.names(), "lock")
}

// Logs returns the directory that holds one directory of logs a generation.
func (d DomainRoot) Logs() string { return filepath.Join(d.Path(), "log") }

// EnsureLog makes the directory for a generation's logs and returns its path.
func (d DomainRoot) EnsureLog(generation string) (string, error) {
	if err := checkName("generation", generation); err != nil {
		return "", err
	}
	ref, err := d.data.ensure(d.names("log", generation)...)
	return ref.Path, err
}

// EnsureTransient makes the generation's transient directory with its upper
// and work and returns it.
func (d DomainRoot) EnsureTransient(generation string) (launch.Ref, error) {
	if err := checkName("generation", generation); err != nil {
		return launch.Ref{}, err
	}
	return d.data.ensureLayer(d.names("transient", generation))
}

// EnsureAnchor makes the State Anchor for a directory of the sandbox, with its
// upper and work, and returns its host directory. An upper that exists is left
// as it is: its owner and mode belong to the sandbox.
func (d DomainRoot) EnsureAnchor(path string) (launch.Ref, error) {
	name, err := EncodeAnchor(path)
	if err != nil {
		return launch.Ref{}, err
	}
	return d.data.ensureLayer(d.names("anchors", name))
}

// EnsureIgnored makes the Domain's Ignored Workspace State.
func (d DomainRoot) EnsureIgnored() (launch.Ref, error) {
	return d.data.ensure(d.names("ignored")...)
}

// EnsurePrivate makes the directory of what Git keeps of its own in the sandbox.
func (d DomainRoot) EnsurePrivate() (launch.Ref, error) {
	return d.data.ensure(d.names("git-private")...)
}

// EnsureRoutes makes the directory of the record of what stays ignored.
func (d DomainRoot) EnsureRoutes() (launch.Ref, error) {
	return d.data.ensure(d.names("routes")...)
}

// Anchors returns the sandbox paths of the State Anchors that exist, sorted.
func (d DomainRoot) Anchors() ([]string, error) {
	fd, err := dirfd.Walk(d.data.path, d.names("anchors"), d.data.uid, dirfd.NoWrite, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "anchors")
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", filepath.Join(d.Path(), "anchors"), err)
	}
	var out []string
	for _, e := range entries {
		if p, err := DecodeAnchor(e.Name()); err == nil && e.IsDir() {
			out = append(out, p)
		}
	}
	sort.Strings(out)
	return out, nil
}

// ensureLayer makes an overlay's directory with its upper and work. Upper is
// 0755, since an overlay shows its upper's mode and 0700 would lock every
// other user of the sandbox out; the directory around it keeps the host out.
func (r DataRoot) ensureLayer(names []string) (launch.Ref, error) {
	fd, err := dirfd.Walk(r.path, names, r.uid, dirfd.NoWrite, true)
	if err != nil {
		return launch.Ref{}, err
	}
	defer unix.Close(fd)
	path := filepath.Join(append([]string{r.path}, names...)...)
	for _, l := range []struct {
		name string
		mode uint32
	}{{"upper", 0o755}, {"work", 0o700}} {
		err := unix.Mkdirat(fd, l.name, 0o700)
		if err == nil {
			err = unix.Fchmodat(fd, l.name, l.mode, 0)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return launch.Ref{}, fmt.Errorf("create %q: %w", filepath.Join(path, l.name), err)
		}
	}
	return dirfd.Identify(fd, path)
}

// openFile opens name in the directory names for reading and writing; it makes
// a missing file, 0600, and refuses what is not a regular file of the user's.
func (r DataRoot) openFile(names []string, name string) (*os.File, error) {
	dir, err := dirfd.Walk(r.path, names, r.uid, dirfd.NoWrite, true)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	path := filepath.Join(append(append([]string{r.path}, names...), name)...)
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	foreign := refuse(KindUnsafe, "look at it: ls -ld "+dirfd.Quote(path), "cannot use %q: it is not a regular file of yours", path)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
		return nil, foreign
	case errors.Is(err, unix.EROFS):
		return nil, refuse(KindUnsafe, "see what it is mounted from: findmnt -T "+dirfd.Quote(path), "cannot use %q: its filesystem is read-only", path)
	case err != nil:
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("stat %q: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != r.uid {
		unix.Close(fd)
		return nil, foreign
	}
	return os.NewFile(uintptr(fd), path), nil
}

// EncodeAnchor renders a directory of the sandbox as one file name: "/var/lib"
// is "var%2Flib". The path must be absolute, clean and not "/".
func EncodeAnchor(path string) (string, error) {
	if path == "/" || !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return "", refuse(KindName, "", "cannot use %q as a persistent directory", path)
	}
	name := strings.NewReplacer("%", "%25", "/", "%2F").Replace(path[1:])
	if len(name) > 255 {
		return "", refuse(KindName, "", "cannot use %q as a persistent directory: its path is too long", path)
	}
	return name, nil
}

// DecodeAnchor is the reverse of [EncodeAnchor].
func DecodeAnchor(name string) (string, error) {
	path := "/" + strings.NewReplacer("%2F", "/", "%25", "%").Replace(name)
	if back, err := EncodeAnchor(path); err != nil || back != name {
		return "", refuse(KindName, "", "cannot read %q as the name of a State Anchor", name)
	}
	return path, nil
}

// Prepared is one prepared lower's directory.
type Prepared struct {
	data DataRoot
	id   string
}

// Prepared returns the layout of a prepared lower, which need not exist.
func (r DataRoot) Prepared(id string) (Prepared, error) {
	if err := checkName("prepared lower", id); err != nil {
		return Prepared{}, err
	}
	return Prepared{data: r, id: id}, nil
}

// EnsurePrepared makes the directory that holds all prepared lowers.
func (r DataRoot) EnsurePrepared() (launch.Ref, error) { return r.ensure("prepared") }

// Path returns the lower's directory.
func (p Prepared) Path() string { return filepath.Join(p.data.path, "prepared", p.id) }

// Root returns the tree.
func (p Prepared) Root() string { return filepath.Join(p.Path(), "root") }

// Lock returns the file on which preparation, leases and collection serialise.
func (p Prepared) Lock() string { return filepath.Join(p.Path(), "lock") }

// Leases returns the directory of lease files.
func (p Prepared) Leases() string { return filepath.Join(p.Path(), "leases") }

// Intent returns the file that says who is preparing the lower.
func (p Prepared) Intent() string { return p.Path() + ".intent" }

// Lease returns the lease file of one Domain generation.
func (p Prepared) Lease(domain, generation string) (string, error) {
	if err := errors.Join(checkName("Domain ID", domain), checkName("generation", generation)); err != nil {
		return "", err
	}
	return filepath.Join(p.Leases(), domain+"."+generation), nil
}

// Ensure makes the lower's directory and the one of its leases.
func (p Prepared) Ensure() (launch.Ref, error) {
	if _, err := p.data.ensure("prepared", p.id, "leases"); err != nil {
		return launch.Ref{}, err
	}
	return p.data.ensure("prepared", p.id)
}

// OpenLock opens the lower's lock file; see [DomainRoot.OpenLock].
func (p Prepared) OpenLock() (*os.File, error) {
	return p.data.openFile([]string{"prepared", p.id}, "lock")
}
