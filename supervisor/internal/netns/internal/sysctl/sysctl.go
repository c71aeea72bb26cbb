// Package sysctl reads and writes kernel parameters of network namespaces. It
// knows none by itself. It runs in the Runtime Supervisor.
package sysctl

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Setting is one parameter below /proc/sys/net, where every thread sees those
// of its own namespace.
type Setting struct{ Name, Value string }

// IPv4 names an interface's IPv4 parameter.
func IPv4(dev, name string) string { return "ipv4/conf/" + dev + "/" + name }

// NoIPv6 switches IPv6 off for an interface. A kernel that has none lacks the
// parameter, which is no error.
func NoIPv6(dev string) Setting { return Setting{"ipv6/conf/" + dev + "/disable_ipv6", "1"} }

func (s Setting) String() string { return "setting " + s.Name + " " + s.Value }

func (s Setting) absent(err error) bool {
	return strings.HasPrefix(s.Name, "ipv6/") && errors.Is(err, os.ErrNotExist)
}

// Set writes parameters of the calling thread's namespace.
func Set(settings []Setting) error {
	for _, s := range settings {
		err := s.do(unix.O_WRONLY, func(fd int) error {
			_, err := unix.Write(fd, []byte(s.Value))
			return err
		})
		if err != nil && !s.absent(err) {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	return nil
}

// Compare renders the parameters of the calling thread's namespace as they must
// be and as they are.
func Compare(settings []Setting) (want, got []string, err error) {
	b := make([]byte, 64)
	for _, s := range settings {
		n := 0
		err := s.do(unix.O_RDONLY, func(fd int) (err error) {
			n, err = unix.Read(fd, b)
			return err
		})
		if err != nil && s.absent(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", s.Name, err)
		}
		want = append(want, s.String())
		got = append(got, Setting{s.Name, strings.TrimSpace(string(b[:max(n, 0)]))}.String())
	}
	return want, got, nil
}

// do opens the parameter's file. There are so many that the system calls of
// package os, which asks for more than is needed here, would show in a start.
func (s Setting) do(mode int, f func(fd int) error) error {
	fd, err := unix.Open("/proc/sys/net/"+s.Name, mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return f(fd)
}
