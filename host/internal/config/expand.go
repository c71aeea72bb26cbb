package config

import (
	"errors"
	"fmt"
	"strings"

	"lazaret.dev/lazaret/host/internal/config/internal/value"
)

// read turns a refused text into a fault at its key.
func read[T any](c *Config, key []string, parse func(string) (T, error), s string) (T, error) {
	v, err := parse(s)
	if bad, ok := errors.AsType[*value.Error](err); ok {
		return v, c.doc.Fault(key, bad.Fix, "%s", bad.Msg)
	}
	return v, err
}

// choice reads one of the words of an enumeration.
func choice[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](c *Config, key []string, s string) (v T, err error) {
	if err := P(&v).UnmarshalText([]byte(s)); err != nil {
		return v, c.doc.Fault(key, "", "%v", err)
	}
	return v, nil
}

// cause is a fault with a cause, whose hint is kept.
func (c *Config) cause(key []string, msg string, err error) error {
	e := c.doc.Fault(key, "", "%s", msg)
	e.Err = err
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		e.Fix = h.Hint()
	}
	return e
}

// noNUL refuses strings that cannot be arguments of a program.
func (c *Config) noNUL(key []string, in []string) error {
	for i, s := range in {
		if strings.ContainsRune(s, 0) {
			return c.doc.Fault(sub(key, i), "", "%q contains a NUL byte", s)
		}
	}
	return nil
}

// sub returns a key path below another one.
func sub(key []string, more ...any) []string {
	out := append([]string(nil), key...)
	for _, m := range more {
		out = append(out, fmt.Sprint(m))
	}
	return out
}
