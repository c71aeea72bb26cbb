//go:build faults

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// poll is how often a process that waits looks whether it may go on.
const poll = 2 * time.Millisecond

// dir finds the directory of the requests. It panics without one, since a test
// in which nothing can go wrong proves nothing.
var dir = sync.OnceValue(func() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	// bin/lazaret, libexec/lazaret/lazaret-supervisor.
	for d := filepath.Dir(exe); d != "/"; d = filepath.Dir(d) {
		faults := filepath.Join(d, "faults")
		if fi, err := os.Stat(faults); err == nil && fi.IsDir() {
			return faults
		}
	}
	panic("no directory of faults above " + exe)
})

// Asked returns what a test has written for a fault, or "".
func Asked(name string) string {
	b, err := os.ReadFile(filepath.Join(dir(), name))
	if err != nil && !os.IsNotExist(err) {
		panic(err)
	}
	return string(b)
}

// Point is a fault point: if a test asks for it, it says that it was reached,
// and waits until the test takes that back.
func Point(name string) {
	word := Asked(name)
	if word == "" || !mark(name+"."+word) {
		return
	}
	for Asked(name) == word {
		time.Sleep(poll)
	}
}

// mark makes a file that holds the pid, whole from its first moment on. It
// reports false if there is one already.
func mark(name string) bool {
	temp := filepath.Join(dir(), fmt.Sprintf(".%s.%d", name, os.Getpid()))
	if err := os.WriteFile(temp, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	err := os.Link(temp, filepath.Join(dir(), name))
	if err != nil && !os.IsExist(err) {
		panic(err)
	}
	if err := os.Remove(temp); err != nil {
		panic(err)
	}
	return err == nil
}
