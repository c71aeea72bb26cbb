package mounts

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bundlePaths are the places where distributions keep their bundle of trusted
// certificates as a regular file.
var bundlePaths = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, Red Hat
	"/etc/ca-certificates/extracted/tls-ca-bundle.pem",  // Arch
	"/var/lib/ca-certificates/ca-bundle.pem",            // SUSE
}

// localCADir is where update-ca-certificates(8) looks for an administrator's
// own certificates.
const localCADir = "/usr/local/share/ca-certificates"

// maxBundle bounds a bundle that is read from an image or an anchor.
const maxBundle = 16 << 20

// certificates splits PEM text into its certificates, each in canonical PEM,
// in order and without duplicates. What is no certificate is skipped: the text
// may be an image's.
func certificates(text []byte) []string {
	var out []string
	seen := map[string]bool{}
	for {
		var b *pem.Block
		b, text = pem.Decode(text)
		if b == nil {
			return out
		}
		if b.Type != "CERTIFICATE" || seen[string(b.Bytes)] {
			continue
		}
		seen[string(b.Bytes)] = true
		out = append(out, string(pem.EncodeToMemory(&pem.Block{Type: b.Type, Bytes: b.Bytes})))
	}
}

// missing returns the certificates of host that bundle does not hold.
func missing(host []string, bundle []byte) []string {
	have := map[string]bool{}
	for _, c := range certificates(bundle) {
		have[c] = true
	}
	var out []string
	for _, c := range host {
		if !have[c] {
			out = append(out, c)
		}
	}
	return out
}

// extend adds certificates to a bundle: in front, where nothing that the text
// holds can keep a reader from finding them.
func extend(bundle []byte, extra []string) []byte {
	return append([]byte(strings.Join(extra, "")), bundle...)
}

// caFiles are the files by which the host's certificates are trusted inside.
//
// They are files of the layer and no read-only mounts: update-ca-certificates,
// and with it every installation of ca-certificates, renames a new bundle over
// the old one, which fails with EBUSY on a mount and leaves dpkg broken. As
// files they can be replaced, and because the additional certificates also lie
// where update-ca-certificates looks for local ones, its new bundle has them
// again.
type caFiles struct {
	files map[string][]byte // target → content
	host  []string          // all of the host's certificates
	extra []string          // those that the image's first bundle lacks
	paths []string          // the bundles among files
}

// planCA reads the image's bundles and derives the files.
func planCA(prepared int, hostBundle string) (*caFiles, error) {
	ca := &caFiles{files: map[string][]byte{}}
	if hostBundle == "" {
		return ca, nil
	}
	host := certificates([]byte(hostBundle))
	ca.host = host
	for _, p := range bundlePaths {
		text, err := readRegular(prepared, p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the image's %s: %w", p, err)
		}
		extra := missing(host, text)
		if len(ca.paths) == 0 {
			ca.extra = extra
		}
		ca.paths = append(ca.paths, p)
		ca.files[p] = extend(text, extra)
	}
	if len(ca.paths) == 0 {
		ca.extra = host
		ca.paths = bundlePaths[:1]
		ca.files[bundlePaths[0]] = extend(nil, host)
	}
	for i, c := range ca.extra {
		ca.files[localCADir+"/lazaret-host-"+strconv.Itoa(i)+".crt"] = []byte(c)
	}
	return ca, nil
}

// readRegular reads a regular file below dir, at most maxBundle bytes. Links
// are as good as absent: what they lead to is another entry's business.
func readRegular(dir int, p string) ([]byte, error) {
	fd, err := open(dir, p, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, true)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil, os.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), p)
	defer func() { _ = f.Close() }()
	st, err := stat(fd)
	if err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, os.ErrNotExist
	}
	b, err := io.ReadAll(io.LimitReader(f, maxBundle+1))
	if err == nil && len(b) > maxBundle {
		err = errors.New("it is larger than a bundle of certificates can be")
	}
	return b, err
}
