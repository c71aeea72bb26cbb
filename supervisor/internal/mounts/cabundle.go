package mounts

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"lazaret.dev/lazaret/supervisor/internal/cabundle"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
)

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
	host := cabundle.Certificates([]byte(hostBundle))
	ca.host = host
	paths := cabundle.Paths()
	for _, p := range paths {
		text, err := fdfs.ReadRegular(prepared, p, cabundle.MaxSize)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the image's %s: %w", p, err)
		}
		extra := cabundle.Missing(host, text)
		if len(ca.paths) == 0 {
			ca.extra = extra
		}
		ca.paths = append(ca.paths, p)
		ca.files[p] = cabundle.Extend(text, extra)
	}
	if len(ca.paths) == 0 {
		ca.extra = host
		ca.paths = paths[:1]
		ca.files[paths[0]] = cabundle.Extend(nil, host)
	}
	for i, c := range ca.extra {
		ca.files[cabundle.LocalDir+"/lazaret-host-"+strconv.Itoa(i)+".crt"] = []byte(c)
	}
	return ca, nil
}
