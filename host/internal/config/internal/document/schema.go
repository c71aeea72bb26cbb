package document

import (
	"reflect"
	"strconv"
	"strings"
)

// File is the configuration file as it is written, with defaults filled in.
type File struct {
	DefaultProfile string             `toml:"default_profile"`
	Storage        Storage            `toml:"storage"`
	Network        Network            `toml:"network"`
	Escalation     Escalation         `toml:"escalation"`
	Desktop        Desktop            `toml:"desktop"`
	Images         Images             `toml:"images"`
	Profiles       map[string]Profile `toml:"profiles"`
}

// Storage is the section [storage].
type Storage struct {
	DataRoot string `toml:"data_root"`
}

// Network is the section [network].
type Network struct {
	DefaultAllow []string `toml:"default_allow"`
	DefaultDeny  []string `toml:"default_deny"`
}

// Escalation is the section [escalation].
type Escalation struct {
	Enabled     bool      `toml:"enabled"`
	Timeout     string    `toml:"timeout"`
	RunTimeout  string    `toml:"run_timeout"`
	MaxOutput   string    `toml:"max_output"`
	AutoApprove []Approve `toml:"auto_approve"`
	Deny        []Deny    `toml:"deny"`
}

// Approve is one [[escalation.auto_approve]].
type Approve struct {
	Command        []string `toml:"command"`
	AllowExtraArgs bool     `toml:"allow_extra_args"`
	Dangerous      bool     `toml:"dangerous"`
}

// Deny is one [[escalation.deny]].
type Deny struct {
	Command []string `toml:"command"`
	Reason  string   `toml:"reason"`
}

// Desktop is the section [desktop].
type Desktop struct {
	Approve string `toml:"approve"`
}

// Images is the section [images].
type Images struct {
	KeepDays int64  `toml:"keep_days"`
	MaxBytes string `toml:"max_bytes"`
}

// Profile is one [profiles.NAME].
type Profile struct {
	Image             string            `toml:"image"`
	Command           []string          `toml:"command"`
	Setup             []string          `toml:"setup"`
	IsolateGitignored bool              `toml:"isolate_gitignored"`
	Expose            []string          `toml:"expose"`
	PersistentDirs    []string          `toml:"persistent_dirs"`
	AllowEgress       []string          `toml:"allow_egress"`
	DenyEgress        []string          `toml:"deny_egress"`
	Env               map[string]string `toml:"env"`
	Volumes           []Volume          `toml:"volumes"`
	HideEditorDirs    bool              `toml:"hide_editor_dirs"`
	HostCA            bool              `toml:"host_ca"`
	User              string            `toml:"user"`
	Watch             string            `toml:"watch"`
	Report            bool              `toml:"report"`
	GitConfigGate     bool              `toml:"git_config_gate"`
	ClipboardBytes    string            `toml:"clipboard_bytes"`
	WarnBytes         string            `toml:"warn_bytes"`
}

// Volume is one entry of a profile's volumes.
type Volume struct {
	Host      string `toml:"host"`
	Container string `toml:"container"`
	Mode      string `toml:"mode"`
}

// defaults returns the values of the keys outside [profiles], by dotted path.
func defaults() map[string]any {
	return map[string]any{
		"storage.data_root":      "~/.local/share/lazaret",
		"network.default_allow":  []any{},
		"network.default_deny":   []any{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"},
		"escalation.enabled":     true,
		"escalation.timeout":     "5m",
		"escalation.run_timeout": "30m",
		"escalation.max_output":  "1MiB",
		"desktop.approve":        "short",
		"images.keep_days":       int64(30),
		"images.max_bytes":       "20GiB",
	}
}

// profileDefaults returns the values of a profile's keys.
func profileDefaults() map[string]any {
	return map[string]any{
		"isolate_gitignored": true,
		"persistent_dirs":    []any{"/root", "/home", "/usr", "/var", "/etc", "/opt"},
		"host_ca":            true,
		"user":               "root",
		"watch":              "bridge",
		"report":             true,
		"clipboard_bytes":    "100KiB",
		"warn_bytes":         "10GiB",
	}
}

// volumeMode is the mode of a volume that names none.
const volumeMode = "rw"

// retired are the keys of the older contract and what to do instead.
var retired = map[string]string{
	"escalation.socket_dir": "remove it: sockets are in the private runtime directory, $XDG_RUNTIME_DIR/lazaret/DOMAIN",
}

// typeAt returns the type of the value at a key path, or the length of the
// longest known prefix. Steps through arrays are numbers.
func typeAt(path []string) (t reflect.Type, known int, ok bool) {
	t = reflect.TypeFor[File]()
	for i, step := range path {
		switch t.Kind() {
		case reflect.Struct:
			f, found := fieldByTag(t, step)
			if !found {
				return t, i, false
			}
			t = f
		case reflect.Map:
			t = t.Elem()
		case reflect.Slice:
			if _, err := strconv.Atoi(step); err != nil {
				return t, i, true // wrong type; the decoder says so
			}
			t = t.Elem()
		default:
			return t, i, true // wrong type; the decoder says so
		}
	}
	return t, len(path), true
}

// typeOfKey is [typeAt] for a key path that leaves out the numbers of array
// elements; nil where there is no such key.
func typeOfKey(key []string) reflect.Type {
	t := reflect.TypeFor[File]()
	for _, step := range key {
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Struct:
			f, ok := fieldByTag(t, step)
			if !ok {
				return nil
			}
			t = f
		case reflect.Map:
			t = t.Elem()
		default:
			return nil
		}
	}
	return t
}

func fieldByTag(t reflect.Type, name string) (reflect.Type, bool) {
	for field := range t.Fields() {
		if field.Tag.Get("toml") == name {
			return field.Type, true
		}
	}
	return nil, false
}

// wants says in words what a key's value must be.
func wants(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return `a list of strings, ["...", "..."]`
		}
		return "a list of tables"
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return `a table of strings, { NAME = "..." }`
		}
		return "a table"
	case reflect.Struct:
		return "a table"
	default:
		return "a string in quotes"
	}
}

// nearest returns the key of t that name is most likely a slip for, or "".
func nearest(t reflect.Type, name string) string {
	best, bestCost := "", 3
	for field := range t.Fields() {
		key := field.Tag.Get("toml")
		if c := distance(strings.ToLower(name), key); c < bestCost {
			best, bestCost = key, c
		}
	}
	return best
}

// distance is the edit distance of two short strings in which swapping two
// neighbours is one edit.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}

// BuiltIn returns a profile of defaults that starts command.
func BuiltIn(command ...string) Profile {
	d, err := Parse("", []byte("[profiles.x]\n"))
	if err != nil {
		// The text is constant; the tests parse it.
		panic("document: the built-in profile does not parse: " + err.Error())
	}
	p := d.Profiles["x"]
	p.Command = command
	return p
}
