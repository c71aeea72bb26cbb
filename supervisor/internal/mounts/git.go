package mounts

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
)

const (
	// systemGitConfig is what Git reads first, in every environment and for every
	// user. The image's own is part of it.
	systemGitConfig = "/etc/gitconfig"

	// maxGitConfig bounds the image's, in bytes.
	maxGitConfig = 1 << 20
)

// gitFiles writes Git's configuration into the directory run, which becomes
// /run/lazaret.
func (a *assembly) gitFiles(run int) error {
	f := &a.plan.Files
	if f.GitConfig == "" {
		return nil
	}
	dir, err := a.own(fdfs.Mkdir(run, path.Base(path.Dir(launch.GuestGitConfig)), 0o755))
	if err != nil {
		return err
	}
	if err := fdfs.WriteFile(dir, path.Base(launch.GuestGitConfig), 0o644, []byte(f.GitConfig)); err != nil {
		return err
	}
	return fdfs.WriteFile(dir, path.Base(launch.GuestGitExclude), 0o644, f.GitExclude)
}

// gitConfig makes the layer's /etc/gitconfig: Lazaret's configuration, then
// the image's, which goes before it. It is a file and no mount, so that `git
// config --system` works inside; what that leaves in a State Anchor includes
// Lazaret's too. Where the image has a link or something too large, it stays.
func (l *lower) gitConfig(f *launch.Files) error {
	if f.GitConfig == "" {
		return nil
	}
	st, found, err := l.image(systemGitConfig)
	if err != nil || found && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return optional(err)
	}
	text := []byte("[include]\n\tpath = " + launch.GuestGitConfig + "\n")
	if found {
		own, err := fdfs.ReadRegular(l.prepared, systemGitConfig, maxGitConfig)
		if errors.Is(err, fdfs.ErrTooLarge) || errors.Is(err, os.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		text = append(text, own...)
	}
	return optional(l.file(systemGitConfig, text))
}
