package config

import (
	"fmt"
	"sort"
	"strings"
)

// fromCaller begins a value that is read from the caller's environment.
const fromCaller = "env:"

// EnvError is a refused environment variable.
type EnvError struct {
	Msg string
	Fix string // may be empty
}

// Error implements error.
func (e *EnvError) Error() string { return e.Msg }

// Hint returns the fix.
func (e *EnvError) Hint() string { return e.Fix }

// checkEnvName refuses names that cannot be set, or, if it is to be set inside,
// that are Lazaret's or the dynamic loader's.
func checkEnvName(name string, set bool) *EnvError {
	switch {
	case name == "":
		return &EnvError{Msg: "an environment variable needs a name"}
	case strings.ContainsAny(name, "=\x00"):
		return &EnvError{Msg: fmt.Sprintf("%q cannot be the name of an environment variable: it contains '=' or NUL", name)}
	case set && strings.HasPrefix(name, "LAZARET_"):
		return &EnvError{Msg: fmt.Sprintf("the environment variable %q is Lazaret's own", name), Fix: "choose a name that does not begin with LAZARET_"}
	case set && strings.HasPrefix(name, "LD_"):
		return &EnvError{Msg: fmt.Sprintf("the environment variable %q changes how every program inside is loaded", name), Fix: "set it inside, for the one program that needs it"}
	}
	return nil
}

func checkEnv(name, value string) *EnvError {
	if err := checkEnvName(name, true); err != nil {
		return err
	}
	if strings.ContainsRune(value, 0) {
		return &EnvError{Msg: fmt.Sprintf("the value of %q contains a NUL byte", name)}
	}
	return nil
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
		return Var{}, &EnvError{Msg: fmt.Sprintf("--env %s has no value", s), Fix: fmt.Sprintf(`write --env %s=VALUE, or --env %s="$%s" to pass on your own`, s, s, s)}
	}
	if err := checkEnv(name, value); err != nil {
		return Var{}, err
	}
	return Var{Name: name, Value: value}, nil
}

// callerEnv are the variables that a session takes from the caller unasked.
var callerEnv = []string{"TERM", "COLORTERM", "LANG", "NO_COLOR"}

// SessionEnv builds the environment of one session: TERM, COLORTERM, LANG and
// NO_COLOR of the caller, over them the profile's env, over that the command
// line's, and nothing else; LANG is C.UTF-8 where none of them sets it. lookup
// reads the caller's environment. A variable whose "env:NAME" the caller does
// not have is left out, with one warning each. The result is sorted K=V.
func SessionEnv(profile map[string]string, args []Var, lookup func(string) (string, bool)) (env, warnings []string) {
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
		if from, ok := strings.CutPrefix(v, fromCaller); ok {
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
