package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lazaret.dev/lazaret/host/internal/config/internal/document"
	"lazaret.dev/lazaret/host/internal/config/internal/value"
	"lazaret.dev/lazaret/host/internal/paths"
)

// persistentDirs reads the State Anchors' directories, sorted.
func (c *Config) persistentDirs(x value.Expander, key []string, in []string) ([]string, error) {
	out := []string{}
	for i, s := range in {
		p, err := read(c, sub(key, i), x.Target, s)
		if err != nil {
			return nil, err
		}
		if _, err := paths.EncodeAnchor(p); err != nil {
			return nil, c.doc.Fault(sub(key, i), "", "%v", err)
		}
		for _, q := range out {
			if value.Touches(p, q) {
				return nil, c.doc.Fault(sub(key, i), "name the outer one alone", "%q and %q lie in one another", q, p)
			}
		}
		out = append(out, p)
	}
	slices.Sort(out)
	return out, nil
}

// volumes reads the volumes of the Domain d, whose workspace, directories and
// persistent directories are known. guard holds what no volume may show.
func (c *Config) volumes(x value.Expander, d *Domain, guard paths.Guard, key []string, in []document.Volume) ([]Volume, error) {
	out := make([]Volume, len(in))
	untrusted := []string{d.Workspace.Path, d.ProfileDir, d.DomainDir}
	for i, v := range in {
		mode, err := c.volumeMode(sub(key, i, "mode"), v.Mode)
		if err != nil {
			return nil, err
		}
		if out[i].Target, err = c.volumeTarget(x, d, sub(key, i, "container"), v.Container, out[:i]); err != nil {
			return nil, err
		}
		host, err := read(c, sub(key, i, "host"), x.Path, v.Host)
		if err != nil {
			return nil, err
		}
		out[i].Mode, out[i].Host = mode, host
		if real, err := paths.Resolve(host); err == nil && mode == VolumeRW {
			untrusted = append(untrusted, real)
		}
	}
	// Links are followed only after it is known what the agent could write.
	for i := range out {
		if err := c.volumeHost(d, guard, sub(key, i, "host"), &out[i], untrusted); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *Config) volumeMode(key []string, s string) (VolumeMode, error) {
	if strings.ContainsAny(s, "zZ") {
		return "", c.doc.Fault(key, `write "rw" or "ro"`, "mode %q is of an older version of Lazaret: SELinux labels are not changed", s)
	}
	return choice[VolumeMode](c, key, s)
}

func (c *Config) volumeTarget(x value.Expander, d *Domain, key []string, s string, before []Volume) (string, error) {
	p, err := read(c, key, x.Target, s)
	if err != nil {
		return "", err
	}
	for _, v := range before {
		if value.Touches(p, v.Target) {
			return "", c.doc.Fault(key, "", "the volumes at %q and %q lie in one another", v.Target, p)
		}
	}
	for _, q := range d.PersistentDirs {
		if paths.Within(p, q) {
			return "", c.doc.Fault(key, "name a directory below it, or take it out of persistent_dirs", "a volume at %q would hide the persistent directory %q", p, q)
		}
	}
	if q := value.Hidden(p); q != "" {
		return "", c.doc.Fault(key, "", "a volume at %q would hide Lazaret's own %s", p, q)
	}
	return p, nil
}

// volumeHost resolves a volume's host path and refuses what would show the
// sandbox something of Lazaret's (SR-2, SR-3).
func (c *Config) volumeHost(d *Domain, guard paths.Guard, key []string, v *Volume, untrusted []string) error {
	real, err := paths.ResolveTrusted(v.Host, untrusted)
	if err != nil {
		return c.cause(key, "the host path cannot be used", err)
	}
	v.Host = real
	if paths.Within(d.DataRoot, real) {
		if !ownedVolume(d, real) {
			return c.doc.Fault(key, "use a directory below {profile_dir} or {domain_dir}", "%q is in Lazaret's data root", real)
		}
		v.Owned = true
		guard.Places = slices.DeleteFunc(slices.Clone(guard.Places), func(p paths.Place) bool { return p.What == dataRootPlace })
	}
	if p, bad := guard.Overlap(real); bad {
		return c.doc.Fault(key, "", "with the volume %q the agent could see %s, %q", real, p.What, p.Path)
	}
	if kind, is := paths.KernelPlace(real); is {
		return c.doc.Fault(key, "", "%q is on a filesystem of type %s, which shows the host itself", real, kind)
	}
	fi, err := os.Stat(real)
	switch {
	case errors.Is(err, fs.ErrNotExist) && v.Owned:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return c.doc.Fault(key, "make it, or take the volume out", "there is no %q on this host", real)
	case err != nil:
		return c.cause(key, "the host path cannot be used", err)
	case !fi.IsDir() && !fi.Mode().IsRegular():
		return c.doc.Fault(key, "", "%q is neither a directory nor a regular file", real)
	}
	return nil
}

// ownedVolume reports whether a path in the data root may be a volume of d:
// below its profile's directory, or below its Domain Root but nothing that
// Lazaret itself keeps there.
func ownedVolume(d *Domain, path string) bool {
	if path != d.ProfileDir && paths.Within(d.ProfileDir, path) {
		return true
	}
	rest, ok := strings.CutPrefix(path, d.DomainDir+"/")
	first, _, _ := strings.Cut(rest, "/")
	return ok && !paths.DomainOwned(first)
}

// expose reads paths relative to the workspace.
func (c *Config) expose(key []string, in []string) ([]string, error) {
	var out []string
	for i, s := range in {
		if !filepath.IsLocal(s) || filepath.Clean(s) == "." || strings.ContainsRune(s, 0) {
			return nil, c.doc.Fault(sub(key, i), `write a path below the workspace, such as ".env"`, "%q is not a path in the workspace", s)
		}
		out = append(out, filepath.Clean(s))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
