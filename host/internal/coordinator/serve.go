package coordinator

import (
	"context"
	"fmt"
	"time"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/inbound"
	"lazaret.dev/lazaret/host/internal/netpolicy"
	"lazaret.dev/lazaret/host/internal/plan"
	"lazaret.dev/lazaret/host/internal/report"
	"lazaret.dev/lazaret/host/internal/session"
	"lazaret.dev/lazaret/protocol"
	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/faults"
)

const (
	// flushGrace bounds how long a client that does not read may hold up the end
	// of its session.
	flushGrace = 2 * time.Second

	// endGrace bounds how long a command may outlive its session's end before
	// its exec client is killed.
	endGrace = 8 * time.Second

	// lossGrace is how long the news of a lost sandbox may take to arrive.
	lossGrace = 300 * time.Millisecond

	// newsGrace is how long the news of a death that can be seen already may take
	// to arrive.
	newsGrace = 2 * time.Second

	// statusStopped is what a session exits with that a stop of the Domain has
	// ended: 128 + SIGTERM.
	statusStopped = 143
)

// served is one session that a client is connected for.
type served struct {
	id     string
	conn   *control.Conn
	cancel context.CancelFunc

	// sess is set before the Attached event is posted, and read by the loop
	// after the Closed event.
	sess *session.Session

	// closed is closed by the loop once it has taken the Closed event: by then
	// it is decided whether the Domain ends with this session.
	closed chan struct{}

	argv  []string
	since time.Time
}

// answer is the loop's answer to a registration.
type answer struct {
	admitted bool
	why      protocol.Refusal
}

// serve is one client's connection, on a goroutine of the server's. When it
// returns the connection closes, which is what the client waits for: for the
// last session that is after the teardown.
func (hc *coordinator) serve(ctx context.Context, c *control.Conn, req pc.OpenRequest) {
	peer, err := c.Peer()
	if err != nil {
		hc.log.Error("cannot tell who the client is", "err", err)
		return
	}
	id, err := control.NewID()
	if err != nil {
		hc.log.Error("cannot make a session id", "err", err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hc.awaitNews()
	s := &served{id: id, conn: c, cancel: cancel, closed: make(chan struct{}), argv: req.Argv, since: time.Now()}
	if a := hc.register(s, peer.Generation, req); !a.admitted {
		refused := pc.Refused{Why: a.why}
		if a.why == protocol.RefusedFingerprint {
			refused.Detail = hc.req.Differences(req.Shape)
		}
		_ = c.WriteJSON(pc.FrameRefused, refused)
		return
	}
	exit := hc.run(ctx, s, req)
	faults.Point("session.hc.command-ended")
	c.SetWriteDeadline(time.Now().Add(flushGrace))
	_ = c.WriteJSON(pc.FrameExit, exit) // the client may be gone; that is its right
	faults.Point("session.hc.exit-sent")
	hc.close(id)
	select {
	case <-s.closed:
	case <-hc.done:
	}
	select {
	case <-hc.over:
		<-hc.done
		if req.Report {
			c.SetWriteDeadline(time.Now().Add(flushGrace))
			for _, line := range report.Lines(hc.findings) {
				_ = c.WriteJSON(pc.FrameNotice, pc.Notice{Text: line}) // as above
			}
		}
	default:
	}
}

// register asks the loop for admission of a client, whose certificate is of the
// given generation.
func (hc *coordinator) register(s *served, generation string, req pc.OpenRequest) answer {
	ch := make(chan answer, 1)
	hc.do(func() {
		hc.sessions[s.id] = s
		hc.answers[s.id] = ch
		hc.interactive[s.id] = req.TTY
		hc.pending = append(hc.pending, protocol.Register{Session: s.id, Generation: generation, Fingerprint: req.Fingerprint})
	})
	select {
	case a := <-ch:
		return a
	case <-hc.done:
		return answer{why: protocol.RefusedNotReady}
	}
}

// close deregisters a session, unless that is done: its client may leave and its
// command end at once.
func (hc *coordinator) close(id string) {
	hc.do(func() {
		if _, open := hc.sessions[id]; open {
			hc.pending = append(hc.pending, protocol.Closed{Session: id})
		}
	})
}

// awaitNews waits for the generation's end where something is dead that it
// cannot live without: its death is seen here before it is reported, and a
// session that were admitted meanwhile would fail with it. A client that is
// refused looks once more, and finds the next generation.
func (hc *coordinator) awaitNews() {
	if hc.signs.Alive() {
		return
	}
	faults.Point("lost.hc.foreseen")
	select {
	case <-hc.over:
	case <-hc.done:
	case <-time.After(newsGrace):
	}
}

// run starts the session's command, carries its bytes, and returns the exit to
// report.
func (hc *coordinator) run(ctx context.Context, s *served, req pc.OpenRequest) pc.Exit {
	if s.conn.WriteJSON(pc.FrameAdmitted, pc.Admitted{Session: s.id}) != nil {
		return pc.Exit{}
	}
	if !req.Quiet {
		hc.noticeNewAddresses(s)
	}
	sess, err := session.Start(ctx, hc.sandbox, session.Spec{
		ID: s.id, Argv: req.Argv, Env: session.Environment(hc.imgEnv, hc.plan.Files.CABundle != "", req.Env), Cwd: plan.GuestWorkspace, TTY: req.TTY, Size: req.Size,
	}, output{s.conn})
	if err != nil {
		hc.awaitNews() // what the sandbox's end does to a start is no fault of the command's
		if exit, over := hc.overExit(); over {
			return exit
		}
		hc.log.Error("cannot start a session's command", "session", s.id, "err", err)
		return pc.Exit{Failed: true, Reason: "cannot start the command: " + err.Error(), Log: hc.logDir}
	}
	faults.Point("join.hc.command-started")
	s.sess = sess
	hc.post(protocol.Attached{Session: s.id})

	left := make(chan struct{})
	in := inbound.New(sess, s.conn)
	hc.tasks.Go(func() {
		defer close(left)
		in.Receive(ctx)
	})
	hc.tasks.Go(in.Feed)
	defer in.Close()

	ended := make(chan int, 1)
	hc.tasks.Go(func() { ended <- sess.Wait(context.WithoutCancel(ctx)) })
	select {
	case status := <-ended:
		return hc.commandExit(status)
	case <-left:
		// The client has gone, and its session with it: the loop deregisters it
		// and ends its processes, whereupon the exec client sees its end.
		hc.close(s.id)
	case <-ctx.Done():
		// The end does not wait for a client that does not read.
		s.conn.SetWriteDeadline(time.Now().Add(flushGrace))
	}
	select {
	case <-ended:
	case <-time.After(endGrace):
		sess.Kill()
		<-ended
	}
	exit, _ := hc.overExit()
	return exit
}

// noticeNewAddresses says which addresses the host has gained since the policy
// was derived: they are denied from the next start on (design section 9).
func (hc *coordinator) noticeNewAddresses(s *served) {
	fresh, err := netpolicy.Undenied(netpolicy.Machine{}, hc.plan.Network)
	if err != nil {
		hc.log.Warn("cannot look for new host addresses", "err", err)
		return
	}
	for _, a := range fresh {
		_ = s.conn.WriteJSON(pc.FrameNotice, pc.Notice{Text: fmt.Sprintf(
			"the host has the new address %s, which this sandbox may reach until it is started again", a)})
	}
}

// commandExit tells a command's own status from what runsc reports when the
// sandbox is taken from under it: the generation's state decides, after the
// fact (design section 3).
func (hc *coordinator) commandExit(status int) pc.Exit {
	if status == 128 || status == 137 {
		select {
		case <-hc.over:
		case <-time.After(lossGrace):
		}
		if exit, over := hc.overExit(); over && exit.Failed {
			return exit
		}
	}
	return pc.Exit{Status: status}
}

// overExit is the exit of a session that the generation's end has ended. It
// reports false while the generation lives.
func (hc *coordinator) overExit() (pc.Exit, bool) {
	select {
	case <-hc.over:
	default:
		return pc.Exit{}, false
	}
	// hc.ending was written before hc.over was closed.
	if hc.ending.Failed {
		return pc.Exit{Failed: true, Reason: hc.ending.Reason, Log: hc.logDir}, true
	}
	return pc.Exit{Status: statusStopped, Reason: hc.ending.Reason}, true
}

// endSession ends what a closed session has left in the guest. Where the Domain
// ends with this session there is nothing to do: no guest process outlives the
// sandbox, and the teardown comes at once.
func (hc *coordinator) endSession(ctx context.Context, id string) {
	s := hc.sessions[id]
	delete(hc.sessions, id)
	delete(hc.interactive, id)
	if s == nil {
		hc.pending = append(hc.pending, protocol.Ended{Session: id})
		return
	}
	last := len(hc.state.Sessions) == 1 || hc.state.Phase != protocol.Ready
	if s.sess == nil || last {
		hc.pending = append(hc.pending, protocol.Ended{Session: id})
		// The connection is let go after the loop has taken Ended, so that a last
		// client waits for the teardown.
		hc.after = append(hc.after, func() { close(s.closed) })
		return
	}
	close(s.closed)
	hc.tasks.Go(func() {
		faults.Point("session.hc.closed")
		if err := s.sess.End(context.WithoutCancel(ctx)); err != nil {
			hc.log.Warn("cannot end a session's processes", "session", id, "err", err)
		}
		faults.Point("session.hc.processes-ended")
		hc.post(protocol.Ended{Session: id})
	})
}

// output sends a session's bytes to its client.
type output struct{ c *control.Conn }

func (o output) Stdout(p []byte) error { return o.c.Write(pc.FrameStdout, p) }
func (o output) Stderr(p []byte) error { return o.c.Write(pc.FrameStderr, p) }
