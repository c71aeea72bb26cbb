package viewtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// writeBack makes sync_file_range wait until what was written is in the file.
const writeBack = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER

// mappingEnv names the file that a helper process maps.
const mappingEnv = "LAZARET_TEST_MAPPING"

// Mapping is a file that another process has mapped, for reading and writing.
// The server's own process must not fault on a page that it has to serve.
type Mapping struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Map maps the first size bytes of a file in a helper process, which is the
// test's binary again: its TestHelperMapping must call HelpMapping.
func Map(t testing.TB, path string, size int) *Mapping {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestHelperMapping$")
	cmd.Env = append(os.Environ(), mappingEnv+"="+path+":"+strconv.Itoa(size))
	m := &Mapping{t: t, cmd: cmd}
	var err error
	if m.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.in.Close()
		_ = cmd.Wait()
	})
	if got := m.ask("ready"); got != "ready" {
		t.Fatalf("the helper says %q", got)
	}
	return m
}

func (m *Mapping) ask(line string) string {
	m.t.Helper()
	if _, err := fmt.Fprintln(m.in, line); err != nil {
		m.t.Fatal(err)
	}
	answer, err := m.out.ReadString('\n')
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimSuffix(answer, "\n")
}

// At is the byte at an offset.
func (m *Mapping) At(off int) byte {
	m.t.Helper()
	b, err := strconv.Atoi(m.ask("at " + strconv.Itoa(off)))
	if err != nil {
		m.t.Fatal(err)
	}
	return byte(b)
}

// Put writes text to the start, and back to the file. It returns what the kernel
// says to that.
func (m *Mapping) Put(text string) string {
	m.t.Helper()
	return m.ask("put " + text)
}

// HelpMapping is the helper's side of Map. It returns at once in any other
// process.
func HelpMapping() {
	path, size, ok := strings.Cut(os.Getenv(mappingEnv), ":")
	if !ok {
		return
	}
	n, err := strconv.Atoi(size)
	if err != nil {
		panic(err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	m, err := unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch verb, arg, _ := strings.Cut(in.Text(), " "); verb {
		case "at":
			off, err := strconv.Atoi(arg)
			if err != nil {
				panic(err)
			}
			_, _ = fmt.Println(m[off])
		case "put":
			copy(m, arg)
			// Unlike msync it waits for no operation on the file.
			_, _ = fmt.Println(unix.SyncFileRange(fd, 0, int64(n), writeBack))
		default:
			_, _ = fmt.Println(verb)
		}
	}
}
