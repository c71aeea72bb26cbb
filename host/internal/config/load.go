package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"lazaret.dev/lazaret/host/internal/config/internal/document"
	"lazaret.dev/lazaret/host/internal/config/internal/value"
	"lazaret.dev/lazaret/host/internal/paths"
)

// Error is a fault in the configuration: file, line, key, what is wrong and,
// as its hint, what to do.
type Error = document.Error

// FileName is the configuration file's name in the configuration directory.
const FileName = "config.toml"

// BuiltInProfile is the profile that exists where the configuration defines
// none, so that the first run needs no setup.
const BuiltInProfile = "shell"

const dataRootPlace = "Lazaret's data root"

// Options say where the configuration is.
type Options struct {
	File  string // --config; empty for the default place
	Host  paths.Host
	Image string // the default image, see [DefaultImage]
}

// Config is a configuration whose keys, types and names are in order. The
// settings of a profile are validated when it is resolved.
type Config struct {
	doc     *document.Document
	host    paths.Host
	home    string
	places  []paths.Place // the configuration's own files, present or not
	image   string
	builtIn bool
}

// Load reads the configuration. A file named by Options.File must exist; the
// default one need not. Faults are [*Error].
func Load(o Options) (*Config, error) {
	home, err := o.Host.Home()
	if err != nil {
		return nil, err
	}
	dir, err := o.Host.ConfigDir()
	if err != nil {
		return nil, err
	}
	c := &Config{host: o.Host, home: home, image: o.Image}
	if c.image == "" {
		c.image = FallbackImage
	}
	c.places = []paths.Place{{What: "the configuration directory", Path: dir}}
	file := filepath.Join(dir, FileName)
	if o.File != "" {
		if file, err = filepath.Abs(o.File); err != nil {
			return nil, &Error{File: o.File, Msg: "the working directory cannot be found", Err: err}
		}
	}
	c.places = append(c.places, paths.Place{What: "the configuration file", Path: file})

	c.doc, err = document.Read(file)
	if errors.Is(err, fs.ErrNotExist) && o.File == "" {
		c.doc, err = document.Parse("", nil)
	}
	var fault *Error
	switch {
	case errors.As(err, &fault):
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{File: file, Msg: "there is no such file", Fix: "without --config the configuration in your home directory is read, and without one there is the profile shell", Err: err}
	case err != nil:
		return nil, &Error{File: file, Msg: "it cannot be read", Err: err}
	}
	if len(c.doc.Profiles) == 0 {
		c.builtIn = true
		c.doc.Profiles = map[string]document.Profile{BuiltInProfile: document.BuiltIn("bash", "-l")}
	}
	return c, c.checkNames()
}

var profileName = regexp.MustCompile(`^[a-z0-9_-]{2,32}$`)

func (c *Config) checkNames() error {
	for _, name := range c.Profiles() {
		if !profileName.MatchString(name) {
			return c.doc.Fault([]string{"profiles", name}, "use 2 to 32 of a-z, 0-9, _ and -", "%q cannot be the name of a profile", name)
		}
	}
	if d := c.doc.DefaultProfile; d != "" {
		if _, ok := c.doc.Profiles[d]; !ok {
			return c.doc.Fault([]string{"default_profile"}, c.known(), "there is no profile %q", d)
		}
	}
	return nil
}

// Path returns the file that was read, or "" where there is none.
func (c *Config) Path() string { return c.doc.Name }

// BuiltIn reports whether the only profile is the built-in one.
func (c *Config) BuiltIn() bool { return c.builtIn }

// File returns the settings as they are written, with defaults. Only packages
// below this one can name its type.
func (c *Config) File() document.File { return c.doc.File }

// DefaultImage returns the image of profiles that name none.
func (c *Config) DefaultImage() string { return c.image }

// DefaultProfile returns default_profile, which may be empty.
func (c *Config) DefaultProfile() string { return c.doc.DefaultProfile }

// Profiles returns the names of all profiles, sorted.
func (c *Config) Profiles() []string {
	var out []string
	for name := range c.doc.Profiles {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// Select returns the profile to use for PROFILE on the command line: name
// itself, else default_profile, else the only profile; else an error that
// lists them.
func (c *Config) Select(name string) (string, error) {
	names := c.Profiles()
	switch {
	case name != "":
		if _, ok := c.doc.Profiles[name]; !ok {
			return "", &Error{File: c.doc.Name, Msg: fmt.Sprintf("there is no profile %q", name), Fix: c.known()}
		}
		return name, nil
	case c.doc.DefaultProfile != "":
		return c.doc.DefaultProfile, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", &Error{File: c.doc.Name, Msg: "it has several profiles and no default_profile, and none was named", Fix: c.known()}
}

func (c *Config) known() string {
	return "the profiles are: " + strings.Join(c.Profiles(), ", ")
}

// DataRoot returns the expanded path of the data root, which need not exist.
func (c *Config) DataRoot() (string, error) {
	return read(c, []string{"storage", "data_root"}, value.Expander{Home: c.home}.Path, c.doc.Storage.DataRoot)
}

// Guard returns what no sandbox may see: the data root, the configuration,
// and the runtime directories.
func (c *Config) Guard() (paths.Guard, error) {
	root, err := c.DataRoot()
	if err != nil {
		return paths.Guard{}, err
	}
	g := paths.Guard{Home: c.home, Places: append([]paths.Place{{What: dataRootPlace, Path: root}}, c.places...)}
	for _, p := range c.host.RuntimePaths() {
		g.Places = append(g.Places, paths.Place{What: "Lazaret's runtime directory", Path: p})
	}
	return g, nil
}

// Images returns the settings of the image cache.
func (c *Config) Images() (Images, error) {
	if c.doc.Images.KeepDays < 0 {
		return Images{}, c.doc.Fault([]string{"images", "keep_days"}, "", "%d days are not possible", c.doc.Images.KeepDays)
	}
	n, err := read(c, []string{"images", "max_bytes"}, value.Size, c.doc.Images.MaxBytes)
	return Images{KeepDays: int(c.doc.Images.KeepDays), MaxBytes: n}, err
}
