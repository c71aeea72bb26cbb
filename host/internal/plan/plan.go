// Package plan builds a generation's launch plan: it gathers what the host says
// to it, makes the directories that it names, notes their identities, and
// describes the sandbox as one value. It mounts nothing, and starts
// nothing but what lists Git's configuration. It runs in the Host Coordinator.
package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/gitfacts"
	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/netpolicy"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/protocol/launch"
)

// Places inside the sandbox.
const (
	GuestWorkspace = "/workspace"
	GuestTool      = "/run/lazaret/escalate"
	GuestHostname  = "lazaret"
)

const (
	// guestNoFile is RLIMIT_NOFILE inside: runsc's own template says 1024, which
	// is too little for node tools.
	guestNoFile = 1 << 16

	// maxDcache bounds gVisor's dentry cache where the descriptor limit is huge.
	maxDcache = 16384
)

// Build makes the generation's directories in the Domain Root and describes the
// sandbox; dirs are those in the runtime directory.
func Build(req *generation.Request, ids generation.ComponentIDs, dirs generation.Dirs, img *image.Prepared, net *netpolicy.Derived, git *gitfacts.Facts) (*launch.Plan, error) {
	root, err := paths.Current().OpenDataRoot(req.Domain.DataRoot)
	if err != nil {
		return nil, err
	}
	dom, err := root.Domain(req.Domain.ID)
	if err != nil {
		return nil, err
	}
	p := &launch.Plan{
		Version: launch.Version, DomainID: req.Domain.ID, Profile: req.Domain.Profile,
		Generation: req.Generation, SandboxID: ids.Sandbox, NetworkID: ids.Network,
		ConfigFingerprint: req.Fingerprint(), Network: net.Policy,
		Scratch: launch.Ref{Path: dirs.Scratch.Path, Dev: dirs.Scratch.Dev, Ino: dirs.Scratch.Ino},
		Files: launch.Files{
			Hostname:   GuestHostname,
			Hosts:      "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 " + GuestHostname + "\n",
			ResolvConf: net.ResolvConf,
			GitConfig:  git.Config,
			GitExclude: git.Excludes,
		},
		HostGit: git.Host,
	}
	if p.Rootfs, err = rootfs(req, dom, img); err != nil {
		return nil, err
	}
	if p.View, err = View(&req.Domain, dom); err != nil {
		return nil, err
	}
	if p.Mounts, err = mounts(&req.Domain, root); err != nil {
		return nil, err
	}
	if req.Domain.HostCA {
		if p.Files.CABundle, err = hostCABundle(); err != nil {
			return nil, err
		}
	}
	dcache, err := dcacheSize()
	if err != nil {
		return nil, err
	}
	p.Runsc = launch.Runsc{
		Path: req.Tools.Runsc, StateDir: dirs.Runsc.Path, LogPath: filepath.Join(req.LogDir, "runsc.log"),
		NoFile: guestNoFile, Dcache: dcache,
	}
	p.Slirp = launch.Slirp{
		Path: req.Tools.Slirp4netns, LogPath: filepath.Join(req.LogDir, "slirp.log"), PrivateResolver: net.PrivateResolver,
	}
	return p, nil
}

// rootfs makes the State Anchors and the transient layer.
func rootfs(req *generation.Request, dom paths.DomainRoot, img *image.Prepared) (launch.Rootfs, error) {
	r := launch.Rootfs{PreparedID: img.ID}
	var err error
	if r.Prepared, err = paths.Identify(img.RootPath); err != nil {
		return r, err
	}
	if r.Transient, err = dom.EnsureTransient(req.Generation); err != nil {
		return r, err
	}
	if r.Escalate, err = paths.Identify(req.Tools.Escalate); err != nil {
		return r, err
	}
	for _, dir := range req.Domain.PersistentDirs {
		ref, err := dom.EnsureAnchor(dir)
		if err != nil {
			return r, err
		}
		r.Anchors = append(r.Anchors, launch.Anchor{Path: dir, Dir: ref})
	}
	return r, nil
}

// editorDirs are what hide_editor_dirs hides.
var editorDirs = []string{".vscode", ".idea"}

// View makes the Domain's storage beside the workspace, and says how that is
// presented.
func View(d *config.Domain, dom paths.DomainRoot) (v launch.View, err error) {
	v = launch.View{Isolate: d.IsolateGitignored, Expose: d.Expose, ConfigGate: d.GitConfigGate}
	if d.HideEditorDirs {
		v.Hidden = editorDirs
	}
	if v.Ignored, err = dom.EnsureIgnored(); err != nil {
		return v, err
	}
	if v.Private, err = dom.EnsurePrivate(); err != nil {
		return v, err
	}
	v.Record, err = dom.EnsureRoutes()
	return v, err
}

// mounts lists the workspace and the volumes, with the identities found now.
func mounts(d *config.Domain, root paths.DataRoot) ([]launch.Mount, error) {
	out := []launch.Mount{{Kind: launch.MountWorkspace, Host: d.Workspace, Target: GuestWorkspace}}
	for _, v := range d.Volumes {
		if v.Owned {
			if _, err := root.EnsureVolume(v.Host); err != nil {
				return nil, err
			}
		}
		ref, err := v.Ref()
		if err != nil {
			return nil, err
		}
		out = append(out, launch.Mount{
			Kind: launch.MountVolume, Host: ref, Target: v.Target, ReadOnly: v.Mode == config.VolumeRO,
		})
	}
	return out, nil
}

// caBundles are where distributions keep the bundle of trusted certificates.
var caBundles = [...]string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Alpine
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/pki/tls/certs/ca-bundle.crt",
}

// maxBundle bounds the host's bundle, in bytes.
const maxBundle = 8 << 20

// hostCABundle reads the host's trusted certificates; a host without any has
// none to give.
func hostCABundle() (string, error) {
	for _, path := range caBundles {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Size() > maxBundle {
			err = fmt.Errorf("%s is larger than %d bytes", path, maxBundle)
		}
		var b []byte
		if err == nil {
			b, err = os.ReadFile(path)
		}
		if err != nil {
			return "", fmt.Errorf("read the host's CA bundle: %w", err)
		}
		return string(b), nil
	}
	return "", nil
}

// dcacheSize is a quarter of the descriptor limit: gVisor holds one descriptor
// for each cached file and a second one for each that was read, and from a half
// on every later exec fails (design section 7).
func dcacheSize() (int, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return int(min(lim.Max/4, maxDcache)), nil
}
