package config

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"lazaret.dev/lazaret/host/internal/config/internal/value"
)

// FallbackImage is the default image where no base image lies beside the
// installation.
const FallbackImage = "docker.io/library/debian:trixie"

// DefaultImage returns the image of a profile that names none. prefix is the
// directory above the one of the lazaret executable: the installation prefix,
// whose base image is share/lazaret/image, or a build tree's build directory,
// whose base image is image.
func DefaultImage(prefix string) string {
	for _, dir := range []string{filepath.Join(prefix, "share/lazaret/image"), filepath.Join(prefix, "image")} {
		if fi, err := os.Stat(filepath.Join(dir, "index.json")); err == nil && fi.Mode().IsRegular() {
			return "oci:" + dir + ":base"
		}
	}
	return FallbackImage
}

// imageRef expands the path in a reference to a local image and refuses what
// can be no reference at all; the image package reads the rest.
func (c *Config) imageRef(x value.Expander, key []string, s string) (string, error) {
	if s == "" {
		return c.image, nil
	}
	for _, scheme := range []string{"oci:", "docker-archive:"} {
		if rest, ok := strings.CutPrefix(s, scheme); ok {
			p, err := read(c, key, x.Path, rest)
			return scheme + p, err
		}
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return "", c.doc.Fault(key, `write a reference such as "docker.io/library/debian:trixie", "oci:DIR" or "docker-archive:FILE"`, "%q is not an image", s)
	}
	return s, nil
}
