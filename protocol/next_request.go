package protocol

// submitted accepts a request or refuses it. Nothing of a refused request is
// kept (SR-9, FR-10).
func (m *machine) submitted(e Submitted) ([]Effect, error) {
	s := m.now
	v := s.Sessions[e.Session]
	switch {
	case e.Request == "":
		return m.illegal("a request needs an id")
	case e.Command == "":
		return m.illegal("a request needs a command")
	case s.Phase != Ready:
		return m.refuseRequest(e.Request, RefusedNotReady)
	case !e.Authentic:
		return m.refuseRequest(e.Request, RefusedUnverified)
	case e.Generation != s.Generation || e.Sandbox != s.IDs.Sandbox:
		return m.refuseRequest(e.Request, RefusedStale)
	case v.Connection != Connected:
		return m.refuseRequest(e.Request, RefusedNoSession)
	case s.Requests[e.Request].Phase != RequestUnused:
		return m.refuseRequest(e.Request, RefusedDuplicate)
	case v.Active != "":
		return m.refuseRequest(e.Request, RefusedBusy)
	}
	if v.Phase == SessionRegistered {
		// Only the session's command has its key: the request proves that it runs.
		m.attach(e.Session)
		v = s.Sessions[e.Session]
	}
	v.Active = e.Request
	m.sessions()[e.Session] = v
	m.requests()[e.Request] = Request{Session: e.Session, Phase: RequestVerified, Command: e.Command}
	return []Effect{Decide{Request: e.Request}}, nil
}

// asked gives the terminal to the prompt.
func (m *machine) asked(id string) ([]Effect, error) {
	r := m.now.Requests[id]
	if r.Phase != RequestVerified {
		return m.ignore()
	}
	m.put(id, r, RequestAwaitingApproval)
	m.route(r.Session, SessionPrompting, RoutePrompt)
	return []Effect{ShowPrompt{Request: id}}, nil
}

// approved takes the first decision and gives the terminal back (SR-7, SR-8).
func (m *machine) approved(e Approved) ([]Effect, error) {
	r := m.now.Requests[e.Request]
	var effects []Effect
	if e.Source == AutoRule {
		switch {
		case r.Phase != RequestVerified:
			return m.tooLate(e.Request)
		case e.Command != r.Command:
			return m.illegal("a rule approves what was asked, unedited")
		}
	} else {
		switch {
		case e.Source != Developer:
			return m.illegal("nobody has approved")
		case e.Command == "":
			return m.illegal("an approval is of a command")
		case r.Phase != RequestAwaitingApproval:
			return m.tooLate(e.Request)
		}
		effects = append(effects, ClosePrompt{Request: e.Request})
	}
	r.Source, r.Command = e.Source, e.Command
	m.put(e.Request, r, RequestApproved)
	m.route(r.Session, SessionAttached, RouteSandbox)
	return append(effects, RecordIntent{Role: RoleHost, Request: e.Request}, StartHost{Request: e.Request, Command: r.Command}), nil
}

func (m *machine) denied(id string) ([]Effect, error) {
	r := m.now.Requests[id]
	if r.Phase != RequestVerified && r.Phase != RequestAwaitingApproval {
		return m.tooLate(id)
	}
	return m.settle(id, DenialPending), nil
}

// cut ends a request that is not yet over with the given outcome. A host
// process is ended first: its outcome is pending only when nothing runs.
func (m *machine) cut(id string, outcome RequestPhase) ([]Effect, error) {
	r := m.now.Requests[id]
	if r.Phase.Pending() || r.Phase.Terminal() {
		return m.ignore()
	}
	return m.abandon(id, outcome), nil
}

func (m *machine) hostStarted(id string) ([]Effect, error) {
	r := m.now.Requests[id]
	if r.Phase != RequestApproved {
		return m.illegal("no host process is being started")
	}
	m.put(id, r, RequestExecuting)
	m.route(r.Session, SessionExecuting, RouteHostProcess)
	if r.Ending != "" {
		return []Effect{EndHost{Request: id}}, nil
	}
	return nil, nil
}

func (m *machine) hostEnded(id string) ([]Effect, error) {
	if m.now.Requests[id].Phase != RequestExecuting {
		return m.illegal("no host process runs")
	}
	return m.hostGone(id, CompletionPending)
}

func (m *machine) hostFailed(id string) ([]Effect, error) {
	if !m.now.HostRunning(id) {
		return m.illegal("no host process is there that could fail")
	}
	return m.hostGone(id, FailurePending)
}

// hostGone settles a request whose host process is no more. A generation whose
// supervisor has gone waits for nothing else.
func (m *machine) hostGone(id string, outcome RequestPhase) ([]Effect, error) {
	if e := m.now.Requests[id].Ending; e != "" {
		outcome = e
	}
	return m.releaseWhenAlone(m.settle(id, outcome)), nil
}

func (m *machine) delivered(id string) ([]Effect, error) {
	r := m.now.Requests[id]
	switch {
	case r.Phase == RequestUnused || r.Phase.Terminal():
		return m.ignore() // its session closed, or the generation ended, meanwhile
	case !r.Phase.Pending():
		return m.illegal("no result is pending")
	}
	return m.resolve(id, r.Phase), nil
}

// abandon gives a session's request up: for a cut, with its session, or with
// the generation. An outcome that is already decided stands.
func (m *machine) abandon(id string, outcome RequestPhase) []Effect {
	r := m.now.Requests[id]
	switch {
	case r.Phase.Pending():
		return m.settle(id, r.Phase)
	case !r.Phase.host():
		return m.settle(id, outcome)
	case r.Ending != "":
		return nil
	}
	r.Ending = outcome
	m.requests()[id] = r
	return []Effect{EndHost{Request: id}}
}

// settle decides a request for which nothing runs. Where nobody waits for the
// result any more, it is resolved at once.
func (m *machine) settle(id string, outcome RequestPhase) []Effect {
	r := m.now.Requests[id]
	var effects []Effect
	if r.Phase == RequestUnused {
		return nil
	}
	if r.Phase == RequestAwaitingApproval {
		effects = append(effects, ClosePrompt{Request: id})
	}
	m.route(r.Session, SessionAttached, RouteSandbox)
	if m.now.Phase != Ready || m.now.Sessions[r.Session].Connection != Connected {
		return append(effects, m.resolve(id, outcome)...)
	}
	m.put(id, Request{Session: r.Session}, outcome)
	return append(effects, Deliver{Request: id, Outcome: outcome})
}

// resolve ends a request whose outcome was pending.
func (m *machine) resolve(id string, outcome RequestPhase) []Effect {
	r := m.now.Requests[id]
	v := m.now.Sessions[r.Session]
	v.Active = ""
	m.sessions()[r.Session] = v
	m.put(id, Request{Session: r.Session}, outcome.Delivered())
	return []Effect{Resolve{Request: id, Outcome: outcome.Delivered()}}
}

func (m *machine) put(id string, r Request, phase RequestPhase) {
	r.Phase = phase
	m.requests()[id] = r
}

// route moves a session's terminal. A closing session has none.
func (m *machine) route(id string, phase SessionPhase, to TerminalRoute) {
	v := m.now.Sessions[id]
	if v.Connection != Connected {
		return
	}
	v.Phase, v.Route = phase, to
	m.sessions()[id] = v
}
