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

// globals are the configuration files of every repository.
func (a *Aware) globals() []string {
	out := []string{"/etc/gitconfig"}
	if a.o.XDGConfig != "" {
		out = append(out, path.Join(a.o.XDGConfig, "git/config"))
	}
	if a.o.Home != "" {
		out = append(out, path.Join(a.o.Home, ".gitconfig"))
	}
	return out
}

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

// readGlobal reads the variables that hold in every repository, in the order
// in which later ones win. Includes are not followed.
func (a *Aware) readGlobal() ([]gitconfig.Entry, error) {
	var out []gitconfig.Entry
	for _, name := range a.globals() {
		b, err := readHost(name)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the Git configuration %q: %w", name, err)
		}
		entries, err := gitconfig.Parse(b)
		if err != nil {
			return nil, fmt.Errorf("read the Git configuration %q: %w", name, err)
		}
		out = append(out, entries...)
	}
	return out, nil
}

// excludes finds core.excludesFile.
func (a *Aware) excludes(config []gitconfig.Entry, opt *route.Options) error {
	name := ""
	if a.o.XDGConfig != "" {
		name = path.Join(a.o.XDGConfig, "git/ignore")
	}
	for _, e := range config {
		if e.Section == "core" && e.Sub == "" && e.Key == "excludesfile" {
			name = e.Value
		}
		if e.Section == "core" && e.Sub == "" && e.Key == "ignorecase" {
			opt.IgnoreCase = e.Bare || strings.EqualFold(e.Value, "true")
		}
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		name = path.Join(a.o.Home, rest)
	}
	if name == "" || !path.IsAbs(name) {
		return nil
	}
	if inside, ok := strings.CutPrefix(path.Clean(name), a.o.Path+"/"); ok {
		opt.ExcludesPath = inside
		return nil
	}
	b, err := readHost(name)
	if err != nil && !gone(err) {
		return fmt.Errorf("read core.excludesFile: %w", err)
	}
	opt.Excludes = b
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
	read := func(file string, b []byte, tops []string) error {
		found, err := a.follow(file, b, tops, 0)
		out = append(out, found...)
		return err
	}
	for _, name := range a.globals() {
		b, err := readHost(name)
		if gone(err) {
			continue
		}
		if err == nil {
			err = read(name, b, tops)
		}
		if err != nil {
			return nil, fmt.Errorf("read the Git configuration %q: %w", name, err)
		}
	}
	for _, r := range repos {
		for _, name := range []string{"config", "config.worktree"} {
			inside := path.Join(r.Gitdir, name)
			b, err := fdfs.ReadRegular(a.host.fd, inside, gitconfig.MaxSize)
			if gone(err) {
				continue
			}
			if err == nil {
				err = read(path.Join(a.o.Path, inside), b, []string{r.Top})
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
	found, includes, err := targets.Find(b, targets.Place{Root: a.o.Path, Home: a.o.Home, File: file, Tops: tops})
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
