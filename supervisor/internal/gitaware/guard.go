package gitaware

import (
	"bytes"
	"io"

	"lazaret.dev/lazaret/supervisor/internal/gitindex"
	"lazaret.dev/lazaret/supervisor/internal/sentry"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// guard is the view's guard.
type guard struct{ a *Aware }

func (g guard) Classify(name string) policy.Verdict {
	v := g.a.sentry.Classify(name)
	out := policy.Verdict{Below: v.Below}
	switch v.Class {
	case sentry.Free:
		out.Class = policy.Free
	case sentry.Shared:
		out.Class = policy.Live
	case sentry.Gated:
		out.Class = policy.Gated
	case sentry.Private:
		out.Class = policy.Private
	case sentry.Born:
		out.Class = policy.Born
	case sentry.Scratch:
		out.Class = policy.Scratch
	default:
		out.Class = policy.ReadOnly
	}
	return out
}

var kinds = [...]sentry.OpKind{
	policy.Create: sentry.Create, policy.Mkdir: sentry.Mkdir, policy.MakeLink: sentry.Symlink, policy.Link: sentry.Link,
	policy.Unlink: sentry.Unlink, policy.Rmdir: sentry.Rmdir, policy.Rename: sentry.Rename, policy.Exchange: sentry.Exchange,
	policy.Write: sentry.Write, policy.Chmod: sentry.Chmod, policy.Utimes: sentry.Utimes,
}

func (g guard) Check(op policy.Op) (bool, error) {
	action, err := g.a.sentry.Check(sentry.Op{
		Kind: kinds[op.Kind], Path: op.Path, To: op.To, Links: op.Links, Made: op.Made, ToMade: op.ToMade,
	})
	if err == nil {
		g.a.note(op)
	}
	return action == sentry.Publish, err
}

func (g guard) Writing(name string) { g.a.touched.Note(name) }

func (g guard) Publish(from, to string, lock policy.Content, old *policy.Content) (policy.Outcome, error) {
	var before *sentry.Content
	if old != nil {
		before = &sentry.Content{ReaderAt: old.ReaderAt, Size: old.Size}
	}
	outcome, err := g.a.sentry.Publish(from, to, sentry.Content{ReaderAt: lock.ReaderAt, Size: lock.Size}, before)
	if err != nil {
		return 0, err
	}
	if outcome == sentry.Keep {
		return policy.Keep, nil
	}
	return policy.Replace, nil
}

func (g guard) Protected(dev, ino uint64) bool {
	g.a.mu.RLock()
	defer g.a.mu.RUnlock()
	_, ok := g.a.inodes[inode{dev, ino}]
	return ok
}

func (g guard) Alias(op policy.OpKind, name string) error { return g.a.sentry.Alias(kinds[op], name) }

func (g guard) Changed(name string) {
	if name == "" {
		g.a.sentry.Forget("")
	}
	if name == "" || g.a.sentry.Changed(name) {
		g.a.rescan()
	}
}

func (g guard) Forget(dir string) { g.a.sentry.Forget(dir) }

// rescan makes the workspace be scanned again, beside everything else, unless
// that is due already.
func (a *Aware) rescan() {
	a.mu.Lock()
	due := a.pending
	a.pending = true
	a.mu.Unlock()
	if due {
		return
	}
	a.scans.Go(func() {
		a.mu.Lock()
		a.pending = false
		a.mu.Unlock()
		if err := a.scan(); err != nil {
			a.o.Log.Error("scan the workspace", "error", err.Error())
		}
	})
}

// verifyIndex is the gate for an index on its way to the host.
func (a *Aware) verifyIndex(x sentry.Index) error {
	facts := gitindex.Facts{HashSize: x.HashSize}
	split, err := a.splitIndex(x.Gitdir, x.HashSize)
	if err != nil {
		return err
	}
	if split {
		facts.Shared = func(id string) (io.ReaderAt, int64, error) { return a.sharedIndex(x.Gitdir, id) }
	}
	return gitindex.Verify(x.ReaderAt, x.Size, facts)
}

// splitIndex tells whether the host splits its index there.
func (a *Aware) splitIndex(gitdir string, hashSize int) (bool, error) {
	f, size, err := a.open(gitdir + "/index")
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.close()
	split := false
	_, err = gitindex.Parse(f, size, gitindex.Options{HashSize: hashSize, Shared: func(id string) (io.ReaderAt, int64, error) {
		split = true
		return a.sharedIndex(gitdir, id)
	}})
	return split, err
}

func (a *Aware) sharedIndex(gitdir, id string) (io.ReaderAt, int64, error) {
	f, size, err := a.open(gitdir + "/sharedindex." + id)
	if err != nil {
		return nil, 0, err
	}
	defer f.close()
	b := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, size), b); err != nil {
		return nil, 0, err
	}
	return bytes.NewReader(b), size, nil
}
