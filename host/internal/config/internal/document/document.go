package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-viper/mapstructure/v2"
	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/viper"
	"golang.org/x/sys/unix"
)

// MaxBytes is the largest configuration file that is read.
const MaxBytes = 1 << 20

// Error is a fault in the configuration, for people: file, line, key, what is
// wrong and what to do.
type Error struct {
	File string // empty where there is no file
	Line int    // 0 where no line is to blame
	Key  string // dotted, or empty
	Msg  string
	Fix  string // may be empty
	Err  error  // the cause, or nil
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("cannot use the configuration")
	if e.File != "" {
		fmt.Fprintf(&b, " %q", e.File)
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, ", line %d", e.Line)
	}
	if e.Key != "" {
		fmt.Fprintf(&b, ", key %q", e.Key)
	}
	b.WriteString(": " + e.Msg)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do.
func (e *Error) Hint() string { return e.Fix }

// Document is a configuration file that was read.
type Document struct {
	File
	Name  string // the file's path; empty for the built-in configuration
	index *index
}

// Fault makes an error about the value at a key path, with its line.
func (d *Document) Fault(path []string, fix, format string, args ...any) *Error {
	return &Error{File: d.Name, Line: d.index.at(path), Key: dotted(path), Fix: fix, Msg: fmt.Sprintf(format, args...)}
}

// dotted renders a key path for people: profiles.claude.volumes[0].mode.
func dotted(path []string) string {
	var b strings.Builder
	for i, s := range path {
		_, err := strconv.Atoi(s)
		switch {
		case err == nil && i > 0:
			fmt.Fprintf(&b, "[%s]", s)
		case i > 0:
			b.WriteString("." + s)
		default:
			b.WriteString(s)
		}
	}
	return b.String()
}

// Read reads the file at path. The error is fs.ErrNotExist if there is none.
func Read(path string) (*Document, error) {
	// O_NONBLOCK: a FIFO in the file's place must not hang every command.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil, &Error{File: path, Msg: "it is not a regular file", Err: err}
	}
	if err := checkAuthor(path, fi); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, &Error{File: path, Msg: "it cannot be read", Err: err}
	}
	if len(b) > MaxBytes {
		return nil, &Error{File: path, Msg: fmt.Sprintf("it is larger than %d bytes", MaxBytes)}
	}
	return Parse(path, b)
}

// checkAuthor refuses a file that another user, other than root, could have
// written: what it says is what the sandbox gets to see.
func checkAuthor(path string, fi fs.FileInfo) error {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Getuid() {
		return &Error{File: path, Msg: fmt.Sprintf("it belongs to uid %d, not to you (uid %d)", st.Uid, os.Getuid()), Fix: "make a copy of your own"}
	}
	if fi.Mode().Perm()&0o002 != 0 {
		return &Error{File: path, Msg: fmt.Sprintf("its mode %#o lets every user write it", fi.Mode().Perm()), Fix: "if its content is yours, close it: chmod o-w on the file"}
	}
	return nil
}

// Parse reads a configuration text; name is the file's path, for messages.
func Parse(name string, text []byte) (*Document, error) {
	dec := &decoder{name: name}
	v := viper.NewWithOptions(viper.KeyDelimiter(sep), viper.WithDecoderRegistry(dec))
	v.SetConfigType("toml")
	for k, val := range defaults() {
		v.SetDefault(strings.ReplaceAll(k, ".", sep), val)
	}
	if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			return nil, e
		}
		return nil, &Error{File: name, Msg: "it cannot be read", Err: err}
	}
	d := &Document{Name: name, index: dec.index}
	err := v.Unmarshal(&d.File, func(c *mapstructure.DecoderConfig) {
		c.TagName = "toml"
		c.WeaklyTypedInput = false
		c.ErrorUnused = true
		c.DecodeHook = nil
		c.MatchName = func(key, field string) bool { return key == field }
	})
	if err != nil {
		return nil, &Error{File: name, Msg: "it cannot be read", Err: err}
	}
	return d, nil
}

// table is a table whose keys are the user's, or that holds such tables. Viper
// lower-cases and splits the keys of map[string]any and leaves this type alone.
type table map[string]any

// decoder is viper's decoder for this one document.
type decoder struct {
	name  string
	index *index
}

// Decoder implements viper.DecoderRegistry.
func (d *decoder) Decoder(string) (viper.Decoder, error) { return d, nil }

// Decode implements viper.Decoder: it fills v from a document whose syntax,
// keys and types are in order, and fails otherwise.
func (d *decoder) Decode(b []byte, v map[string]any) error {
	var tree map[string]any
	if err := toml.Unmarshal(b, &tree); err != nil {
		return d.syntax(err)
	}
	x, err := buildIndex(b)
	if err != nil {
		return &Error{File: d.name, Msg: "it is not valid TOML", Err: err}
	}
	d.index = x
	if err := d.checkKeys(tree); err != nil {
		return err
	}
	var typed File
	if err := toml.Unmarshal(b, &typed); err != nil {
		return d.wrongType(err)
	}
	maps.Copy(v, tree)
	if ps, ok := tree["profiles"].(map[string]any); ok {
		out := table{}
		for name, p := range ps {
			out[name] = withDefaults(p)
		}
		v["profiles"] = out
	}
	return nil
}

// withDefaults fills in what a profile leaves out.
func withDefaults(p any) any {
	m, ok := p.(map[string]any)
	if !ok {
		return p
	}
	for k, val := range profileDefaults() {
		if _, set := m[k]; !set {
			m[k] = val
		}
	}
	vols, _ := m["volumes"].([]any)
	for _, vol := range vols {
		if vm, ok := vol.(map[string]any); ok {
			if _, set := vm["mode"]; !set {
				vm["mode"] = volumeMode
			}
		}
	}
	return m
}

// checkKeys refuses retired and unknown keys; the first in the file is named.
func (d *decoder) checkKeys(tree map[string]any) error {
	for _, path := range d.index.order {
		if fix, ok := retired[strings.Join(path, ".")]; ok {
			return d.fault(path, fix, "this key is of an older version of Lazaret")
		}
		if t, known, ok := typeAt(path); !ok {
			fix := "README.md lists every key with its default"
			if s := nearest(t, path[known]); s != "" {
				fix = fmt.Sprintf("did you mean %q?", dotted(append(append([]string(nil), path[:known]...), s)))
			}
			return d.fault(path[:known+1], fix, "unknown key")
		}
	}
	esc, _ := tree["escalation"].(map[string]any)
	rules, listed := esc["auto_approve"].([]any)
	_, text := esc["auto_approve"].(string)
	for _, r := range rules {
		_, isText := r.(string)
		text = text || (listed && isText)
	}
	if text {
		return d.fault([]string{"escalation", "auto_approve"},
			`write one [[escalation.auto_approve]] for each command, with command = ["notify-send", "done"]`,
			"rules as strings are of an older version of Lazaret: a rule is a table with the whole argument vector")
	}
	return nil
}

func (d *decoder) fault(path []string, fix, msg string) *Error {
	return &Error{File: d.name, Line: d.index.at(path), Key: dotted(path), Msg: msg, Fix: fix}
}

func (d *decoder) syntax(err error) *Error {
	e := &Error{File: d.name, Msg: "it is not valid TOML", Err: err}
	if de, ok := errors.AsType[*toml.DecodeError](err); ok {
		e.Line, _ = de.Position()
		e.Err = errors.New(strings.TrimPrefix(de.Error(), "toml: "))
	}
	return e
}

func (d *decoder) wrongType(err error) *Error {
	e := d.syntax(err)
	e.Msg = "a value has the wrong type"
	var de *toml.DecodeError
	if !errors.As(err, &de) || len(de.Key()) == 0 {
		return e
	}
	// The decoder's key has no numbers for the elements of arrays, so the line
	// is its own and only the wanted type is looked up.
	t := typeOfKey(de.Key())
	if t == nil {
		return e
	}
	e.Key, e.Msg, e.Err = strings.Join(de.Key(), "."), "it must be "+wants(t), nil
	return e
}
