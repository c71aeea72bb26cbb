package gitaware

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/route"
	"lazaret.dev/lazaret/supervisor/internal/sentry"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitconfig"
	"lazaret.dev/lazaret/supervisor/internal/sentry/targets"
)

// maxIncludes is how deep configuration files may include each other, as Git has
// it.
const maxIncludes = 10

// readHost reads a file of the host's by its path, links followed as Git does. It
// is a configuration or rules, and small.
func readHost(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is no regular file: %w", name, os.ErrNotExist)
	}
	b, err := io.ReadAll(io.LimitReader(f, gitconfig.MaxSize+1))
	if err == nil && len(b) > gitconfig.MaxSize {
		err = fdfs.ErrTooLarge
	}
	return b, err
}

// globals takes what holds in every repository: the ignore file, whose text is
// at hand unless it lies in the workspace, and how names are compared.
func (a *Aware) globals(opt *route.Options) error {
	opt.Excludes = a.o.Excludes
	for _, source := range a.o.Git.Sources {
		entries, err := gitconfig.Parse(source.Text)
		if err != nil {
			return fmt.Errorf("read the Git configuration %q: %w", source.Path, err)
		}
		for _, e := range entries {
			switch {
			case e.Section != "core" || e.Sub != "":
			case e.Key == "ignorecase":
				opt.IgnoreCase = e.Bare || strings.EqualFold(e.Value, "true")
			case e.Key == "excludesfile":
				name := e.Value
				if rest, ok := strings.CutPrefix(name, "~/"); ok {
					name = path.Join(a.o.Git.Home, rest)
				}
				opt.ExcludesPath = ""
				if inside, ok := strings.CutPrefix(path.Clean(name), a.o.Path+"/"); ok {
					opt.ExcludesPath = inside
				}
			}
		}
	}
	return nil
}

// outer finds the repository that the workspace lies in, when its root is
// above.
func (a *Aware) outer(opt *route.Options) error {
	if _, err := a.host.lstat(".git"); err == nil {
		return nil
	}
	var above []route.Above
	for dir := path.Dir(a.o.Path); ; dir = path.Dir(dir) {
		text, err := readHost(path.Join(dir, ".gitignore"))
		if err != nil && !gone(err) {
			return fmt.Errorf("read the ignore rules above the workspace: %w", err)
		}
		above = append(above, route.Above{Dir: dir, Text: text})
		fd, err := fdfs.Open(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY, false)
		if err != nil {
			return nil //nolint:nilerr // Git does not look further either
		}
		repo, err := repositories{host{fd}, dir}.Repository("")
		_ = unix.Close(fd)
		if err != nil {
			return fmt.Errorf("open the repository of %q: %w", dir, err)
		}
		if repo != nil {
			opt.Outer, opt.Prefix = repo, strings.TrimPrefix(a.o.Path, strings.TrimSuffix(dir, "/")+"/")
			for _, x := range slices.Backward(above) {
				rel := strings.TrimPrefix(strings.TrimPrefix(x.Dir, dir), "/")
				opt.Above = append(opt.Above, route.Above{Dir: rel, Text: x.Text})
			}
			return nil
		}
		if dir == "/" {
			return nil
		}
	}
}

// targets are the paths in the workspace that the host's Git reads or runs
// since its configuration says so.
func (a *Aware) targets(repos []sentry.Repository) ([]targets.Target, error) {
	var tops []string
	for _, r := range repos {
		tops = append(tops, r.Top)
	}
	var out []targets.Target
	for _, source := range a.o.Git.Sources {
		// What they include is among them.
		found, _, err := targets.Find(source.Text, targets.Place{Root: a.o.Path, Home: a.o.Git.Home, File: source.Path, Tops: tops})
		if err != nil {
			return nil, fmt.Errorf("read the Git configuration %q: %w", source.Path, err)
		}
		out = append(out, found...)
	}
	for _, r := range repos {
		for _, name := range []string{"config", "config.worktree"} {
			inside := path.Join(r.Gitdir, name)
			b, err := fdfs.ReadRegular(a.host.fd, inside, gitconfig.MaxSize)
			if gone(err) {
				continue
			}
			var found []targets.Target
			if err == nil {
				found, err = a.follow(path.Join(a.o.Path, inside), b, []string{r.Top}, 0)
				out = append(out, found...)
			}
			if err != nil {
				return nil, fmt.Errorf("read the Git configuration %q: %w", inside, err)
			}
		}
	}
	return out, nil
}

// follow finds the targets of a configuration file and of what it includes.
func (a *Aware) follow(file string, b []byte, tops []string, level int) ([]targets.Target, error) {
	found, includes, err := targets.Find(b, targets.Place{Root: a.o.Path, Home: a.o.Git.Home, File: file, Tops: tops})
	if err != nil || level == maxIncludes {
		return found, err
	}
	for _, name := range includes {
		b, err := readHost(name)
		if err != nil {
			continue // Git goes on without it too
		}
		more, err := a.follow(name, b, tops, level+1)
		found = append(found, more...)
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// file is an open file of the host's.
type file struct{ *os.File }

func (f file) close() { _ = f.Close() }

// open opens a regular file of the workspace.
func (a *Aware) open(name string) (file, int64, error) {
	fd, err := fdfs.Open(a.host.fd, strings.TrimPrefix(name, "/"), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, true)
	if err != nil {
		return file{}, 0, err
	}
	st, err := fdfs.Stat(fd)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxIndex {
		_ = unix.Close(fd)
		return file{}, 0, fmt.Errorf("%q is no regular file of a usual size", name)
	}
	return file{os.NewFile(uintptr(fd), name)}, st.Size, nil
}

// maxIndex bounds the host's own index, in bytes.
const maxIndex = 1 << 30
