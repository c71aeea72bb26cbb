// Package view serves the Agent Workspace to the sandbox: a FUSE filesystem
// over the developer's project and the Domain's own storage.
//
// It owns the FUSE connection and what of the workspace is open. It speaks to
// the kernel and to nobody else, changes nothing outside its stores, and lets
// those who are asked (package policy) decide what is served from where and
// what is refused. It is the only importer of go-fuse, and runs in the Runtime
// Supervisor.
package view

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/content"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/entries"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/notice"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// MaxRead is the largest read or write in one request, in bytes. The mount
// must have the same limit.
const MaxRead = 512 << 10

const (
	// inflight bounds what requests hold of memory, in bytes.
	inflight = 32 << 20

	// background is how many requests that nobody waits for may be under way.
	background = 64
)

// Stores are directories, O_PATH or open for reading, -1 for none.
type Stores struct {
	Host      int // the Agent Workspace
	Domain    int // Ignored Workspace State
	Private   int // the Domain's private Git state
	Transient int // gone with the generation
}

// Config describes a view. The view takes over the descriptors.
type Config struct {
	FUSE   int // /dev/fuse, mounted, its first request not yet read
	Stores Stores

	Router policy.Router // nil: everything is shared
	Guard  policy.Guard  // nil: nothing is guarded

	// UID and GID are who the developer is inside.
	UID, GID uint32

	// Hidden are directories in the workspace's root that are served from
	// transient storage, in which they lie.
	Hidden []string

	Log *slog.Logger
}

// View is a view that is being served.
type View struct {
	core   *resolve.View
	server *fuse.Server
	fds    []int
	host   int
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	done   chan struct{}

	mu       sync.Mutex
	err      error
	followed map[string]int // directories watched for the deciders' sake
}

// Start begins to serve. It answers the kernel's first request, so that the
// mount must have been made. File modes are those asked for only where the
// threads that serve have no umask.
func Start(c Config) (*View, error) {
	if c.Router == nil {
		c.Router = policy.AllShared{}
	}
	if c.Guard == nil {
		c.Guard = policy.Unguarded{}
	}
	v := &View{done: make(chan struct{}), host: c.Stores.Host}
	for _, fd := range []int{c.Stores.Host, c.Stores.Domain, c.Stores.Private, c.Stores.Transient} {
		if fd >= 0 {
			v.fds = append(v.fds, fd)
		}
	}
	if err := v.start(&c); err != nil {
		v.closeFDs()
		return nil, fmt.Errorf("workspace view: %w", err)
	}
	return v, nil
}

func (v *View) start(c *Config) error {
	fsys, err := kindOfFS(c.Stores.Host)
	if err != nil {
		return err
	}
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	quarter := int(min(lim.Cur/4, 1<<16))
	o := resolve.Options{
		Router: c.Router, Guard: c.Guard, UID: c.UID, GID: c.GID, Remote: fsys.remote, Hidden: c.Hidden,
		Descriptors: quarter, Pinned: quarter, Log: c.Log,
	}
	o.Roots = [tree.Stores]store.Root{
		store.Host:      {FD: c.Stores.Host, Weak: fsys.weak},
		store.Domain:    {FD: c.Stores.Domain},
		store.Private:   {FD: c.Stores.Private},
		store.Transient: {FD: c.Stores.Transient},
	}
	k := &kernel{}
	if v.core, err = resolve.New(o, k); err != nil {
		return err
	}
	fs := &filesystem{RawFileSystem: fuse.NewDefaultRawFileSystem(), content: &content.Content{View: v.core}}
	fs.entries = &entries.Entries{View: v.core, Content: fs.content}
	v.server, err = fuse.NewServer(fs,
		"/dev/fd/"+strconv.Itoa(c.FUSE), &fuse.MountOptions{
			Name: "lazaret", MaxWrite: MaxRead, MaxBackground: background, MaxInflightRequestBytes: inflight,
			EnableSymlinkCaching: true, DisableSplice: true, IgnoreSecurityLabels: true,
			// The host's kernel removes set-id bits when a file is written.
			ExtraCapabilities: fuse.CAP_HANDLE_KILLPRIV_V2,
			Logger:            slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
			PanicHandler: func(p any) fuse.Status {
				v.fail(fmt.Errorf("panic: %v", p))
				return fuse.EIO
			},
		})
	if err != nil {
		return err
	}
	k.server = v.server
	ctx, cancel := context.WithCancel(context.Background())
	v.cancel = cancel
	v.tasks.Go(v.serve)
	v.tasks.Go(func() {
		if err := v.core.Notices.Run(ctx); err != nil {
			v.fail(err)
		}
	})
	return nil
}

// serve answers requests until the filesystem is unmounted.
func (v *View) serve() {
	defer v.end(nil)
	v.server.Serve()
}

// fail ends the view with the reason: whoever waits for Done tears it down.
func (v *View) fail(err error) { v.end(err) }

func (v *View) end(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.done:
	default:
		v.err = err
		close(v.done)
	}
}

// Follow tells the router and the guard of changes in these directories of the
// workspace from now on, whether or not anybody inside has looked at them. What
// is not there is left out.
func (v *View) Follow(dirs []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.followed == nil {
		v.followed = map[string]int{}
	}
	for _, dir := range dirs {
		if _, ok := v.followed[dir]; ok {
			continue
		}
		fd, err := fdfs.Open(v.host, dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, true)
		if err != nil {
			continue
		}
		v.fds = append(v.fds, fd)
		v.followed[dir] = fd
		v.core.Notices.Follow(dir, fd)
	}
}

// Reroute takes back what the kernel knows of all places: the router has been
// told something new.
func (v *View) Reroute() { v.core.Reroute([]string{""}) }

// Done is closed when the view does not serve any more, or must not.
func (v *View) Done() <-chan struct{} { return v.done }

// Err says why the view has ended by itself. It blocks until it has ended.
func (v *View) Err() error {
	<-v.done
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// Close waits at most d for the end that unmounting brings, and closes what is
// open. On an error the view may still be serving.
func (v *View) Close(d time.Duration) error {
	v.cancel()
	ended := make(chan struct{})
	go func() {
		v.tasks.Wait()
		close(ended)
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		return fmt.Errorf("the workspace view is still in use after %s", d)
	}
	v.core.Close()
	v.closeFDs()
	return nil
}

func (v *View) closeFDs() {
	for _, fd := range v.fds {
		_ = unix.Close(fd)
	}
}

// Statistics tell how many objects the kernel knows and how many descriptors
// are open for them.
func (v *View) Statistics() (nodes, descriptors int) {
	s := v.core.Statistics()
	return s.Nodes, s.Descriptors
}

// kernel takes back what the kernel remembers. An entry or inode that it does
// not know is no error.
type kernel struct{ server *fuse.Server }

var _ notice.Kernel = (*kernel)(nil)

func (k *kernel) Entry(parent uint64, name string) { _ = k.server.EntryNotify(parent, name) }

func (k *kernel) Inode(id uint64) { _ = k.server.InodeNotify(id, 0, 0) }
