package killmatrix_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// How many processes are killed at random.
const (
	randomKills        = 200
	randomKillsSampled = 5
)

// flooded is a session on a terminal whose command never stops writing.
func (w *world) flooded() (*client, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	c := &client{cmd: w.h.Command(w.t.Context(), "run", "--quiet", "--", "sh", "-c", "while :; do echo y; done"), ended: make(chan struct{})}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.stdin = master
	if err := w.family.start(c.cmd); err != nil {
		return nil, errors.Join(err, master.Close())
	}
	go func() { _, _ = io.Copy(io.Discard, master) }()
	go func() {
		defer close(c.ended)
		c.err = c.cmd.Wait()
		w.family.forget(c.cmd.Process.Pid)
	}()
	return c, nil
}

// building is a session that works in the workspace as a build does.
func (w *world) building() *client {
	return w.run(`mkdir -p build; i=0
while :; do
	i=$((i+1)); f=build/$((i % 40))
	echo "object $i" >$f.new && cat $f.new $f.new >$f && rm $f.new && [ -e $f ] || exit 1
done`)
}

// kinds are the names of a home's processes. Those without one are what the
// sentry makes of a command inside, and no processes of the product.
func kinds(procs []e2etest.Proc) []string {
	var out []string
	for _, p := range procs {
		if p.Args[0] != "" {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Issue 3, must show 3: whatever is killed, and whenever, under load.
func TestRandomKills(t *testing.T) {
	chance := seeded(t)
	w := newWorld(t)
	rounds := randomKillsSampled
	if long() {
		rounds = randomKills
	}
	began, slowest, by := time.Now(), time.Duration(0), map[string]int{}
	for i := range rounds {
		tty, err := w.flooded()
		if err != nil {
			t.Fatal(err)
		}
		build := w.building()
		// A cold start takes a third of a second, on a machine that does nothing
		// else.
		delay := time.Duration(chance.Int64N(int64(1200 * time.Millisecond)))
		time.Sleep(delay)
		procs := w.h.Processes()
		names := kinds(procs)
		name := names[chance.IntN(len(names))]
		of := slices.DeleteFunc(procs, func(p e2etest.Proc) bool { return p.Name != name })
		victim := of[chance.IntN(len(of))]
		_ = syscall.Kill(victim.PID, syscall.SIGKILL) // it may just have ended
		died := time.Now()
		awaitDeath(victim)
		took, err := w.next(map[string]string{kept: kept})
		_ = tty.stdin.Close()
		_ = build.stdin.Close()
		_ = build.cmd.Process.Signal(syscall.SIGTERM)
		err = errors.Join(err, tty.ends(time.Until(died.Add(gone))), build.ends(time.Until(died.Add(gone))))
		if err == nil {
			err = w.clean(died)
		}
		by[name]++
		slowest = max(slowest, took)
		if err != nil {
			t.Errorf("kill %d: %s (%q) after %s: %v\nthe build says %q", i, name, victim.Args, delay, err, build.stderr.String())
			w.rescue(&scene{w: w, actor: tty, others: []*client{build}})
		}
	}
	t.Logf("%d kills %v in %s, the slowest next command took %s", rounds, by, time.Since(began).Round(time.Second), slowest.Round(time.Millisecond))
}

// How often eight clients start at once, from cold.
const (
	coldStarts        = 20
	coldStartsSampled = 2
	atOnce            = 8
)

// Issue 3, must show 5: eight clients at the same instant from cold are in one
// generation, and all eight commands are right, while others look. OR-1.
func TestEightAtOnce(t *testing.T) {
	w := newWorld(t)
	rounds := coldStartsSampled
	if long() {
		rounds = coldStarts
	}
	began := time.Now()
	stop := make(chan struct{})
	lookers := []*looker{
		{args: []string{"ps"}},
		{args: []string{"ps", "--json"}},
		{args: []string{"__complete", "run", ""}},
		{args: []string{"__complete", "stop", ""}},
	}
	for _, l := range lookers {
		l.begin(w, stop)
	}
	for round := range rounds {
		before := w.generations()
		var clients []*client
		for i := range atOnce {
			// None ends before all have come: what a file that all see says.
			clients = append(clients, w.run(fmt.Sprintf(
				"touch /run/%d.%d; while [ ! -e /run/%[1]d.0 ] %[3]s; do sleep 0.05; done; echo %[1]d.%[2]d; exit %[4]d", round, i, others(round), 10+i)))
		}
		for i, c := range clients {
			if err := c.ends(patience); err != nil {
				t.Error(err)
				w.unstick(c)
			} else if want := fmt.Sprintf("%d.%d\n", round, i); c.stdout.String() != want || c.status() != 10+i {
				t.Errorf("round %d, client %d: status %d, stdout %q, stderr %q", round, i, c.status(), c.stdout.String(), c.stderr.String())
			}
		}
		// The lookers are left out of what may not be left.
		if n := w.generations() - before; n != 1 {
			t.Errorf("round %d: %d generations", round, n)
		}
	}
	close(stop)
	looks := 0
	for _, l := range lookers {
		<-l.done
		looks += l.looks
		for _, err := range l.errs {
			t.Error(err)
		}
		if l.looks < rounds {
			t.Errorf("lazaret %q ran %d times", l.args, l.looks)
		}
	}
	if err := w.clean(time.Now()); err != nil {
		t.Error(err)
	}
	t.Logf("%d rounds of %d in %s; %d commands looked meanwhile", rounds, atOnce, time.Since(began).Round(time.Second), looks)
}

// others is the shell's condition that one of the further clients is missing.
func others(round int) string {
	var b strings.Builder
	for i := 1; i < atOnce; i++ {
		fmt.Fprintf(&b, " || [ ! -e /run/%d.%d ]", round, i)
	}
	return b.String()
}

// looker runs one command again and again, which has to succeed every time.
type looker struct {
	args  []string
	looks int
	errs  []error
	done  chan struct{}
}

func (l *looker) begin(w *world, stop chan struct{}) {
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			c := w.start(l.args...)
			_ = c.stdin.Close()
			err := c.ends(patience)
			if err != nil {
				w.unstick(c)
			} else if c.status() != 0 {
				err = fmt.Errorf("lazaret %q: status %d: %s", l.args, c.status(), c.stderr.String())
			}
			l.looks++
			if err != nil {
				l.errs = append(l.errs, err)
				return
			}
		}
	}()
}
