// Package sessionenv owns the environment of one session's command: which
// variables may be set, what --env means, and what of the caller's environment
// goes inside. It runs in the Client CLI, which alone sees the caller's
// environment. It reads no environment itself and adds none of Lazaret's own
// variables; the Host Coordinator does.
package sessionenv

import (
	"fmt"
	"sort"
	"strings"
)

// fromCaller begins a value that is read from the caller's environment.
const fromCaller = "env:"

// Error is a refused environment variable.
type Error struct {
	Msg string
	Fix string // may be empty
}

// Error implements error.
func (e *Error) Error() string { return e.Msg }

// Hint returns the fix.
func (e *Error) Hint() string { return e.Fix }

// checkName refuses names that cannot be set, or, if it is to be set inside,
// that are Lazaret's or the dynamic loader's.
func checkName(name string, set bool) *Error {
	switch {
	case name == "":
		return &Error{Msg: "an environment variable needs a name"}
	case strings.ContainsAny(name, "=\x00"):
		return &Error{Msg: fmt.Sprintf("%q cannot be the name of an environment variable: it contains '=' or NUL", name)}
	case set && strings.HasPrefix(name, "LAZARET_"):
		return &Error{Msg: fmt.Sprintf("the environment variable %q is Lazaret's own", name), Fix: "choose a name that does not begin with LAZARET_"}
	case set && strings.HasPrefix(name, "LD_"):
		return &Error{Msg: fmt.Sprintf("the environment variable %q changes how every program inside is loaded", name), Fix: "set it inside, for the one program that needs it"}
	}
	return nil
}

// Check refuses a variable that no session may set: LAZARET_*, LD_*, and what
// cannot be a name or a value at all. The error is an [*Error].
func Check(name, value string) error {
	if err := checkName(name, true); err != nil {
		return err
	}
	if strings.ContainsRune(value, 0) {
		return &Error{Msg: fmt.Sprintf("the value of %q contains a NUL byte", name)}
	}
	return nil
}

// CheckProfile is [Check] for a profile's env, where the value "env:NAME" names
// a variable of the caller.
func CheckProfile(name, value string) error {
	if err := Check(name, value); err != nil {
		return err
	}
	if from, ok := Caller(value); ok {
		if err := checkName(from, false); err != nil {
			return err
		}
	}
	return nil
}

// Caller returns the name of the caller's variable that a profile's value
// refers to.
func Caller(value string) (name string, ok bool) {
	return strings.CutPrefix(value, fromCaller)
}

// Var is one environment variable from the command line.
type Var struct {
	Name, Value string
}

// ParseVar reads the argument of --env, K=V. The value is taken as it is:
// "env:NAME" has no meaning there.
func ParseVar(s string) (Var, error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return Var{}, &Error{Msg: fmt.Sprintf("--env %s has no value", s), Fix: fmt.Sprintf(`write --env %s=VALUE, or --env %s="$%s" to pass on your own`, s, s, s)}
	}
	if err := Check(name, value); err != nil {
		return Var{}, err
	}
	return Var{Name: name, Value: value}, nil
}

// callerEnv are the variables that a session takes from the caller unasked.
var callerEnv = []string{"TERM", "COLORTERM", "LANG", "NO_COLOR"}

// Build builds the environment of one session: TERM, COLORTERM, LANG and
// NO_COLOR of the caller, over them the profile's env, over that the command
// line's, and nothing else; LANG is C.UTF-8 where none of them sets it. lookup
// reads the caller's environment. A variable whose "env:NAME" the caller does
// not have is left out, with one warning each. The result is sorted K=V.
func Build(profile map[string]string, args []Var, lookup func(string) (string, bool)) (env, warnings []string) {
	set := map[string]string{"LANG": "C.UTF-8"}
	for _, name := range callerEnv {
		if v, ok := lookup(name); ok && v != "" {
			set[name] = v
		}
	}
	names := make([]string, 0, len(profile))
	for name := range profile {
		names = append(names, name)
	}
	sort.Strings(names)
	given := map[string]bool{}
	for _, a := range args {
		given[a.Name] = true
	}
	for _, name := range names {
		v := profile[name]
		if from, ok := Caller(v); ok {
			if v, ok = lookup(from); !ok {
				if !given[name] {
					warnings = append(warnings, fmt.Sprintf("%s is not set inside: your environment has no %s", name, from))
				}
				continue
			}
		}
		set[name] = v
	}
	for _, a := range args {
		set[a.Name] = a.Value
	}
	for name, v := range set {
		env = append(env, name+"="+v)
	}
	sort.Strings(env)
	return env, warnings
}
