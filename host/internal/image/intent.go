package image

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/image/durable"
	"lazaret.dev/lazaret/host/internal/image/program"
	"lazaret.dev/lazaret/host/internal/unpack"
	"lazaret.dev/lazaret/protocol/faults"
)

// treeName is what a tree on its way in or out is called.
var treeName = regexp.MustCompile(`^unpack-[0-9a-f]{32}$`)

// intent is the durable statement that a process is making or removing a tree
// (OR-7). Recovery removes a tree only on the word of one.
type intent struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start_ticks"`
	BootID string `json:"boot_id"`
	Tree   string `json:"tree"` // name in prepared/<id>
	Dev    uint64 `json:"dev"`  // of the tree; 0 before it was made
	Ino    uint64 `json:"ino"`

	path string // of the file
	dir  string // prepared/<id>
}

func intentPath(dataRoot, id string) string {
	return filepath.Join(preparedDir(dataRoot), id+".intent")
}

// newIntent names a tree that does not exist yet, and writes the intent. What
// it will be made of by renaming, if anything, is at from.
func newIntent(dataRoot, id, from string) (*intent, error) {
	in := &intent{path: intentPath(dataRoot, id), dir: filepath.Join(preparedDir(dataRoot), id), PID: os.Getpid()}
	if from != "" {
		if err := in.identify(from); err != nil {
			return nil, err
		}
	}
	nonce := make([]byte, 16)
	rand.Read(nonce) //nolint:errcheck // never fails
	in.Tree = "unpack-" + hex.EncodeToString(nonce)
	var err error
	if in.Start, err = startTicks(in.PID); err != nil {
		return nil, err
	}
	if in.BootID, err = bootID(); err != nil {
		return nil, err
	}
	return in, durable.WriteJSON(in.path, in)
}

// begin writes the intent to make a tree, and makes its empty directory.
func begin(dataRoot, id string) (*intent, *os.File, error) {
	in, err := newIntent(dataRoot, id, "")
	if err != nil {
		return nil, nil, err
	}
	f, err := in.mkdir()
	if err != nil {
		_ = os.Remove(in.tree())
		return nil, nil, errors.Join(err, in.end())
	}
	return in, f, nil
}

func (in *intent) mkdir() (*os.File, error) {
	faults.Point("image.hc.intended")
	if err := os.Mkdir(in.tree(), 0o755); err != nil {
		return nil, fmt.Errorf("create tree: %w", err)
	}
	f, err := os.OpenFile(in.tree(), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open tree: %w", err)
	}
	faults.Point("image.hc.tree-made")
	// Whatever the umask: the image's root is 0755 unless the image says otherwise.
	err = f.Chmod(0o755)
	if err == nil {
		err = in.identify(in.tree())
	}
	if err == nil {
		err = durable.WriteJSON(in.path, in)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("create tree: %w", err)
	}
	return f, nil
}

// identify notes the identity of the tree.
func (in *intent) identify(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("stat tree: %w", err)
	}
	in.Dev, in.Ino = st.Dev, st.Ino
	return nil
}

func (in *intent) tree() string { return filepath.Join(in.dir, in.Tree) }

// end removes the intent: the tree is published, or gone.
func (in *intent) end() error {
	if err := os.Remove(in.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("end intent: %w", err)
	}
	return durable.SyncDir(filepath.Dir(in.path))
}

// abandon removes the tree and then the intent.
func (in *intent) abandon(ctx context.Context, r Runner) error {
	var st unix.Stat_t
	switch err := unix.Lstat(in.tree(), &st); {
	case errors.Is(err, unix.ENOENT):
		return in.end()
	case err != nil:
		return fmt.Errorf("stat abandoned tree: %w", err)
	case in.Ino == 0:
		// The intent is older than the tree: only an empty one can be its own.
		if err := unix.Rmdir(in.tree()); err != nil {
			return fmt.Errorf("abandoned tree %s is not known to be ours: %w", in.tree(), err)
		}
		return in.end()
	case st.Dev != in.Dev || st.Ino != in.Ino:
		return fmt.Errorf("abandoned tree %s is not the one that its intent names", in.tree())
	}
	if err := removeTree(ctx, r, in.dir, in.Tree); err != nil {
		return err
	}
	return in.end()
}

// removeTree runs the removal program on an entry of dir.
func removeTree(ctx context.Context, r Runner, dir, name string) error {
	parent, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("remove tree: %w", err)
	}
	defer parent.Close() //nolint:errcheck // a directory
	req := unpack.RemoveRequest{Version: unpack.Version, Parent: 3, Name: name}
	return program.Run(ctx, r, unpack.RemoveProgram, req, []*os.File{parent}, &program.Events{})
}

// recoverIntent finishes what a dead process left of artifact id. The caller
// holds the artifact's lock. It fails closed: where the intent's owner lives,
// or the tree is not the one it names, nothing is touched.
func recoverIntent(ctx context.Context, dataRoot, id string, r Runner) error {
	path := intentPath(dataRoot, id)
	var in intent
	switch err := durable.ReadJSON(path, &in); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read intent of an earlier preparation: %w", err)
	}
	in.path, in.dir = path, filepath.Join(preparedDir(dataRoot), id)
	if !treeName.MatchString(in.Tree) {
		return fmt.Errorf("intent %s names the tree %.100q, which is none of ours", path, in.Tree)
	}
	alive, err := in.alive()
	if err != nil {
		return err
	}
	if alive {
		return fmt.Errorf("image is being prepared by process %d, which does not hold its lock; wait for it, or end it", in.PID)
	}
	return in.abandon(ctx, r)
}

// settle ends the intent of a process that died between the publication of
// artifact id and its end. The artifact is good whatever comes of it.
func settle(ctx context.Context, o Options, id string) {
	if _, err := os.Lstat(intentPath(o.DataRoot, id)); errors.Is(err, os.ErrNotExist) {
		return
	}
	lock, err := lockArtifact(ctx, o.DataRoot, id, nil)
	if err == nil {
		err = recoverIntent(ctx, o.DataRoot, id, o.Runner)
		_ = lock.Close() // releases it
	}
	if err != nil && ctx.Err() == nil {
		o.Warn("an earlier preparation of this image has left something: " + err.Error())
	}
}

// alive reports whether the intent's process, another one, still runs. A zombie
// is dead.
func (in *intent) alive() (bool, error) {
	boot, err := bootID()
	if err != nil {
		return false, err
	}
	if boot != in.BootID || in.PID == os.Getpid() {
		return false, nil
	}
	start, err := startTicks(in.PID)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return start == in.Start, err
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// startTicks returns a process's start time, or os.ErrNotExist when it is gone
// or a zombie.
func startTicks(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("read start time: %w", err)
	}
	// The name, in parentheses, may hold anything.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return 0, fmt.Errorf("read start time of process %d: malformed", pid)
	}
	if f[0] == "Z" || f[0] == "X" {
		return 0, fmt.Errorf("process %d has ended: %w", pid, os.ErrNotExist)
	}
	n, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read start time of process %d: %w", pid, err)
	}
	return n, nil
}
