package killmatrix_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// sampled is how many cells of the matrix an ordinary test run visits.
const sampled = 14

// long says whether sampled tests run whole.
func long() bool { return os.Getenv("LAZARET_TEST_LONG") != "" }

// seeded returns the run's source of chance, whose seed is printed and can be
// given.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("LAZARET_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("LAZARET_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// victims are whom the matrix kills.
var victims = []string{"cli", "hc", "rs", "runsc", "slirp4netns"}

// processName is how e2etest calls a victim's process.
var processName = map[string]string{
	"hc": "lazaret _coordinator", "rs": "lazaret-supervisor", "runsc": "runsc run", "slirp4netns": "slirp4netns",
}

// scene is a scenario that has come to its point.
type scene struct {
	w       *world
	point   string
	mark    string
	actor   *client   // the client that leads to the point
	others  []*client // the other ones
	reached int       // the pid at the point
	broken  bool      // clients may have failed before anything is killed at the point
	procs   []e2etest.Proc
}

// clients are all clients of the scene.
func (s *scene) clients() []*client {
	if s.actor == nil {
		return s.others
	}
	return append([]*client{s.actor}, s.others...)
}

// errNotReached says that a scenario does not lead to a point.
var errNotReached = errors.New("the point is not reached")

// play plays the scenario of a point until somebody waits there.
func (w *world) play(point string, mark string) (*scene, error) {
	s := &scene{w: w, point: point, mark: mark}
	var reached func() int
	scenario, _, _ := strings.Cut(point, ".")
	before := func(n int) error {
		for i := range n {
			c := w.session(fmt.Sprintf("mark.%d", i), mark)
			s.others = append(s.others, c)
			if err := c.ready(); err != nil {
				return err
			}
		}
		reached = w.f.Hold(point)
		return nil
	}
	var err error
	switch scenario {
	case "start":
		err = before(0)
		s.actor = w.session("mark", mark)
	case "image":
		// The tree is the user's own: the small image has files of root's alone.
		if err := os.RemoveAll(filepath.Join(w.h.Data, "prepared")); err != nil {
			return s, err
		}
		err = before(0)
		s.actor = w.session("mark", mark)
	case "join":
		if err = before(1); err == nil {
			s.actor = w.session("mark", mark)
		}
	case "session":
		if err = before(2); err == nil {
			s.actor, s.others = s.others[1], s.others[:1]
			_ = s.actor.stdin.Close()
		}
	case "end":
		if err = before(1); err == nil {
			s.actor, s.others = s.others[0], nil
			_ = s.actor.stdin.Close()
		}
	case "stop":
		if err = before(1); err == nil {
			s.actor = w.start("stop", "--yes")
		}
	case "lost":
		if err = before(1); err == nil {
			s.broken = true
			err = s.lose()
		}
	case "recover":
		s.broken = true
		if err = before(1); err == nil {
			err = syscall.Kill(w.find("lazaret _coordinator", 0).PID, syscall.SIGKILL)
			s.actor = w.session("mark", mark)
		}
	}
	if err != nil {
		return s, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) {
		if s.reached = reached(); s.reached != 0 {
			break
		}
		// What a session and a generation leave is seen to when the client has gone.
		if s.actor.over() && scenario != "session" && w.find(processName["hc"], 0).PID == 0 {
			return s, fmt.Errorf("%w: lazaret %q has ended with status %d: %s", errNotReached, s.actor.cmd.Args[1:], s.actor.status(), s.actor.stderr.String())
		}
		if time.Now().After(deadline) || s.actor.isReady() && !slices.Contains([]string{"join", "session", "end", "lost"}, scenario) {
			return s, errNotReached
		}
	}
	s.procs = w.h.Processes()
	return s, nil
}

// find returns the newest process of a name, or the one with that pid; its PID
// is 0 if there is none. Of the supervisor's processes only those count that
// supervise.
func (w *world) find(name string, pid int) e2etest.Proc {
	return newest(w.h.Processes(), name, pid)
}

func newest(procs []e2etest.Proc, name string, pid int) e2etest.Proc {
	var found e2etest.Proc
	for _, p := range procs {
		if p.Name != name || name == processName["rs"] && len(p.Args) > 1 && (p.Args[1] == "enter" || p.Args[1] == "_enter") {
			continue
		}
		if p.PID == pid {
			return p
		}
		if found.PID == 0 || len(p.Start) > len(found.Start) || len(p.Start) == len(found.Start) && p.Start > found.Start {
			found = p
		}
	}
	return found
}

// victim is a scene's process of that kind; its PID is 0 if there is none.
func (s *scene) victim(kind string) e2etest.Proc {
	if kind != "cli" {
		return newest(s.procs, processName[kind], s.reached)
	}
	pid := 0
	for _, c := range s.clients() {
		if !c.over() && (pid == 0 || c.cmd.Process.Pid == s.reached) {
			pid = c.cmd.Process.Pid
		}
	}
	i := slices.IndexFunc(s.procs, func(p e2etest.Proc) bool { return p.PID == pid })
	if pid == 0 || i < 0 {
		return e2etest.Proc{}
	}
	return s.procs[i]
}

// present lists the kinds of victims that there are.
func (s *scene) present() []string {
	var out []string
	for _, v := range victims {
		if s.victim(v).PID != 0 {
			out = append(out, v)
		}
	}
	return out
}

// kill kills the victim, lets the process at the point go on, and judges what
// follows.
func (s *scene) kill(kind string) (took time.Duration, err error) {
	w, victim, marks := s.w, s.victim(kind), map[string]string{kept: kept}
	for _, c := range s.clients() {
		if c.isReady() {
			marks[c.name] = s.mark
		}
	}
	died := time.Now()
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		w.f.TakeBack()
		return 0, cmp.Or(s.finish("", 0, died), err)
	}
	awaitDeath(victim)
	w.f.TakeBack()
	took, err = w.next(marks)
	return took, errors.Join(err, s.finish(kind, victim.PID, died))
}

// finish lets all clients end, and holds them to what they say of it.
func (s *scene) finish(kind string, victim int, since time.Time) error {
	for _, c := range s.clients() {
		_ = c.stdin.Close()
	}
	var errs []error
	for _, c := range s.clients() {
		if err := c.ends(time.Until(since.Add(gone))); err != nil {
			errs = append(errs, err)
			s.w.unstick(c)
			continue
		}
		if err := s.judge(c, kind, victim); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, s.w.clean(since))...)
}

// judge holds a client to the truth: a command that was carried to its end has
// said all that it has to say, and every other client says why not.
func (s *scene) judge(c *client, kind string, victim int) error {
	stop, status, out := c.cmd.Args[1] == "stop", c.status(), c.stdout.String()
	ok := false
	switch status {
	case 0:
		ok = stop || out == "ready\nbye\n"
	case 125:
		ok = strings.Contains(c.stderr.String(), "lazaret: error: ")
	case 137:
		ok = c.cmd.Process.Pid == victim
	case 143:
		ok = s.actor.cmd.Args[1] == "stop"
	}
	if status != 0 && c.cmd.Process.Pid != victim && s.unharmed(c, kind) {
		ok = false
	}
	if ok {
		return nil
	}
	return fmt.Errorf("lazaret %q: status %d, stdout %q, stderr %q", c.cmd.Args[1:], status, out, c.stderr.String())
}

// unharmed says whether a client has to succeed though something else was
// killed: another terminal, or anything at all before its session was asked for.
func (s *scene) unharmed(c *client, kind string) bool {
	switch s.point {
	case "start.cli.ready", "join.cli.enrolled", "join.cli.authenticated":
		return c == s.actor || kind == "cli"
	}
	return kind == "cli" && !s.broken && s.actor.cmd.Args[1] != "stop"
}

// lose kills slirp4netns, so that the scene's generation is lost. Where the loss
// is to be seen before it is reported, it is not reported, and another client
// comes.
func (s *scene) lose() error {
	reported := func() int { return 1 }
	if s.point == "lost.hc.foreseen" {
		reported = s.w.f.Hold("lost.rs.seen")
	}
	if err := syscall.Kill(s.w.find("slirp4netns", 0).PID, syscall.SIGKILL); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); reported() == 0; time.Sleep(poll) {
		if time.Now().After(deadline) {
			return errors.New("the supervisor does not see that slirp4netns is lost")
		}
	}
	if s.point == "lost.hc.foreseen" {
		s.actor = s.w.session("mark", s.mark)
	} else {
		s.actor, s.others = s.others[0], nil
	}
	return nil
}

// awaitDeath waits for the end of a process that was killed: on a busy machine
// it may take a while to see that.
func awaitDeath(p e2etest.Proc) {
	for p.Alive() {
		time.Sleep(poll)
	}
}

// rescue ends what a cell that failed has left, so that the next one begins with
// nothing of it.
func (w *world) rescue(s *scene) {
	w.f.TakeBack()
	for _, c := range s.clients() {
		_ = c.stdin.Close()
		w.unstick(c)
	}
	e2etest.Eventually(w.t, gone, func() bool {
		procs := w.h.Processes()
		for _, p := range procs {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		return len(procs) == 0
	}, func() string { return fmt.Sprintf("they do not die: %v", w.h.Processes()) })
	for _, dir := range []string{w.h.Data, filepath.Join(w.h.Runtime, "lazaret")} {
		if err := os.RemoveAll(dir); err != nil {
			w.t.Fatal(err)
		}
	}
	w.settle()
}

// tally counts a matrix's cells.
type tally struct {
	killed, absent, failed int
	slowest                time.Duration
	by                     map[string]int
}

// cell visits one point: it kills the victim that choose names, of those that
// are there, and returns them all. An empty choice kills none.
func (w *world) cell(point, mark string, n *tally, choose func(present []string) string) (present []string) {
	s, err := w.play(point, mark)
	if err != nil {
		n.failed++
		w.t.Errorf("%s: %v", point, err)
		w.rescue(s)
		return nil
	}
	present = s.present()
	kind := choose(present)
	if kind == "" {
		w.f.TakeBack()
		if err := s.finish("", 0, time.Now()); err != nil {
			w.t.Errorf("%s: %v", point, err)
		}
		return present
	}
	took, err := s.kill(kind)
	if errors.Is(err, syscall.ESRCH) {
		n.absent++ // it is ending at this point anyway, and was quicker
		return present
	}
	if err != nil {
		n.failed++
		w.t.Errorf("%s, %s killed: %v", point, kind, err)
		w.rescue(s)
		return present
	}
	n.killed++
	n.by[kind]++
	n.slowest = max(n.slowest, took)
	return present
}

// Issue 3, must show 3: at every fault point, whoever is killed there, the next
// command works, nothing is left, and nothing is harmed. FR-7, FR-13.
func TestKillMatrix(t *testing.T) {
	chance := seeded(t)
	all := points(t)
	if p := os.Getenv("LAZARET_TEST_POINT"); p != "" {
		all = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, p) })
	}
	w := newWorld(t)
	n := &tally{by: map[string]int{}}
	began := time.Now()
	mark := 0
	if long() {
		for _, point := range all {
			var rest []string // the victims that are left to kill
			first := true
			for first || len(rest) > 0 {
				mark++
				present := w.cell(point, strconv.Itoa(mark), n, func(present []string) string {
					if first {
						rest = slices.Clone(present)
						n.absent += len(victims) - len(present)
					}
					if len(rest) == 0 || !slices.Contains(present, rest[0]) {
						n.absent++
						return ""
					}
					return rest[0]
				})
				first = false
				if len(rest) == 0 || present == nil {
					break
				}
				rest = rest[1:]
			}
		}
	} else {
		for range sampled {
			mark++
			w.cell(all[chance.IntN(len(all))], strconv.Itoa(mark), n, func(present []string) string {
				if len(present) == 0 {
					return ""
				}
				return present[chance.IntN(len(present))]
			})
		}
	}
	t.Logf("%d fault points; %d cells killed %v, %d not applicable, %d failed; %s, the slowest next command took %s",
		len(all), n.killed, n.by, n.absent, n.failed, time.Since(began).Round(time.Second), n.slowest.Round(time.Millisecond))
}
