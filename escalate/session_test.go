package escalate_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret.dev/lazaret/protocol/testgate"
)

// alive counts the live processes whose environment has the setting.
func alive(t *testing.T, setting string) int {
	t.Helper()
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range dirs {
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err != nil || !strings.Contains("\x00"+string(env), "\x00"+setting+"\x00") {
			continue // a zombie's environment is empty
		}
		n++
	}
	return n
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("timed out: " + what)
		}
	}
}

// A session's end takes its job-control groups, what ignores TERM and what has
// left by setsid, and leaves other sessions alone.
func TestEnd(t *testing.T) {
	mark := fmt.Sprintf("LAZARET_TEST_MARK=%d", os.Getpid())
	start := func(id string) *exec.Cmd {
		c := exec.Command("sh", "-c", `trap "" TERM HUP
			setsid sh -c "sleep 1000; :" & env -u LAZARET_SESSION_ID sleep 1000 & sleep 1000 & while :; do sleep 1000; done`)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Env = append(os.Environ(), "LAZARET_SESSION_ID="+id, mark)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = client(t, "_end", strconv.Itoa(c.Process.Pid), id).Run()
			_ = c.Wait()
		})
		return c
	}
	id := fmt.Sprintf("test-%d-", os.Getpid())
	a := start(id + "1")
	eventually(t, "the first session runs", func() bool { return alive(t, mark) == 6 })
	start(id + "10") // the first id is a prefix of this one
	eventually(t, "the second session runs", func() bool { return alive(t, mark) == 12 })

	if o, e, status := run(t, client(t, "_end", strconv.Itoa(a.Process.Pid), id+"1")); status != 0 {
		t.Fatalf("status %d, %s%s", status, o, e)
	}
	if got := alive(t, mark); got != 6 {
		t.Errorf("%d processes are left, want the other session's 6", got)
	}
	// Ending it again finds nothing and is no error.
	if _, e, status := run(t, client(t, "_end", strconv.Itoa(a.Process.Pid), id+"1")); status != 0 {
		t.Errorf("status %d, %s", status, e)
	}
}

// Pid 1 of the sandbox outlives signals and reaps orphans.
func TestInit(t *testing.T) {
	testgate.Need(t, testgate.UserNS)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child",
		"sh", "-c", `(sleep 0.3 & sleep 0.3 & sleep 0.3 &) ; exec "$0" _init`, self)
	c.Env = append(os.Environ(), asClient+"=1")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	children := func(pid string) []string {
		b, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(b))
	}
	var one string
	eventually(t, "pid 1 has its orphans", func() bool {
		if c := children(strconv.Itoa(c.Process.Pid)); len(c) == 1 {
			one = c[0]
			return len(children(one)) == 3
		}
		return false
	})
	pid, err := strconv.Atoi(one)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the orphans are reaped", func() bool { return len(children(one)) == 0 })
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("pid 1 is gone: %v", err)
	}
}
