package protocol

// register admits or refuses.
func (m *machine) register(e Register) ([]Effect, error) {
	s := m.now
	switch {
	case e.Session == "":
		return m.illegal("a session needs an id")
	case s.Phase != Ready:
		return m.refuse(e.Session, RefusedNotReady)
	case e.Generation != s.Generation:
		return m.refuse(e.Session, RefusedStale)
	case e.Fingerprint != s.Fingerprint:
		return m.refuse(e.Session, RefusedFingerprint)
	case s.Sessions[e.Session].Phase != "":
		return m.refuse(e.Session, RefusedDuplicate)
	}
	m.sessions()[e.Session] = Session{Phase: SessionRegistered, Route: RouteDetached, Connection: Connected}
	return []Effect{Admit{Session: e.Session}}, nil
}

// attached gives the terminal to the session's command. A session may be
// closed while its command is being started, or its first request be quicker
// than the report; then the report changes nothing.
func (m *machine) attached(id string) ([]Effect, error) {
	v := m.now.Sessions[id]
	switch {
	case v.Phase == "":
		return m.illegal("the session is not registered")
	case v.Phase != SessionRegistered:
		return m.ignore()
	}
	m.attach(id)
	return nil, nil
}

func (m *machine) attach(id string) {
	v := m.now.Sessions[id]
	v.Phase, v.Route = SessionAttached, RouteSandbox
	m.sessions()[id] = v
}

// closed deregisters a session before anything else of it is touched (FR-15).
// Its request is given up with it.
func (m *machine) closed(id string) ([]Effect, error) {
	v := m.now.Sessions[id]
	if v.Phase == "" {
		return m.illegal("no such session")
	}
	if v.Phase == SessionClosing {
		return m.ignore()
	}
	v.Phase, v.Route, v.Connection = SessionClosing, RouteDetached, Disconnected
	m.sessions()[id] = v
	return append(m.abandon(v.Active, CancellationPending), EndSession{Session: id}), nil
}

// ended forgets a session, and with the last one the generation (FR-6).
func (m *machine) ended(id string) ([]Effect, error) {
	s := m.now
	v := s.Sessions[id]
	switch {
	case v.Phase != SessionClosing:
		return m.illegal("the session is not closing")
	case v.Active != "":
		return m.illegal("a host process of the session may still run")
	}
	delete(m.sessions(), id)
	for r, q := range s.Requests {
		if q.Session == id {
			delete(m.requests(), r)
		}
	}
	if len(s.Sessions) == 0 && s.Phase == Ready {
		return m.teardown(Stopping, EndAll{})
	}
	return nil, nil
}

func (m *machine) idle() ([]Effect, error) {
	if m.now.Phase != Ready || len(m.now.Sessions) > 0 {
		return m.ignore()
	}
	return m.teardown(Stopping, EndAll{})
}
