package protocol

// coordinatorLost leaves of a generation what is on record. Nobody is there to
// perform an effect.
func (m *machine) coordinatorLost() ([]Effect, error) {
	s := m.now
	if s.Phase == Absent {
		return m.illegal("no coordinator is there")
	}
	if s.Phase == Recovering {
		m.giveUp()
		return nil, nil
	}
	r := Record{Generation: s.Generation, Intents: s.Intents, Lease: s.Lease}.clone()
	for _, q := range s.Requests {
		switch {
		case q.Phase == RequestExecuting:
			r.Intents[RoleHost] = Owned
		case q.Phase == RequestApproved && r.Intents[RoleHost] == "":
			r.Intents[RoleHost] = Intended
		}
	}
	*s = Left(r)
	return nil, nil
}

// giveUp ends a recovery before its end. The record stays for the next one.
func (m *machine) giveUp() []Effect {
	m.now.Phase = Absent
	if role := m.now.Record.next(); m.now.Record.Intents[role] == Cleaning {
		m.record().Intents[role] = Owned
	}
	return []Effect{Release{}}
}

// recovery clears away what a dead generation has left: role by role in the
// order of cleaning, each compared before it is touched, and touched only when
// it is exactly what is on record (FR-7).
func (m *machine) recovery() ([]Effect, error) {
	s := m.now
	if _, ok := m.ev.(Recover); ok {
		switch {
		case s.Phase != Absent:
			return m.illegal("recovery comes before a start")
		case s.Record == nil:
			return m.illegal("no dead generation is on record")
		}
		s.Phase = Recovering
		return m.compareNext(), nil
	}
	if s.Phase != Recovering {
		return m.illegal("no recovery is under way")
	}
	role := s.Record.next()
	switch e := m.ev.(type) {
	case Compared:
		switch {
		case role == "" || e.Role != role:
			return m.illegal("the role's turn is not now")
		case s.Record.Intents[role] == Cleaning:
			return m.illegal("the role's leftover is being cleared away")
		}
		return m.compared(e)
	case Cleaned:
		switch {
		case e.Role != role:
			return m.illegal("the role's turn is not now")
		case s.Record.Intents[role] != Cleaning:
			return m.illegal("nothing of the role is being cleared away")
		}
		delete(m.record().Intents, role)
		return m.compareNext(), nil
	default: // LeaseReleased
		if role != "" {
			return m.illegal("the lease goes after all that may use it")
		}
		m.record().Lease = ""
		return m.compareNext(), nil
	}
}

func (m *machine) compared(e Compared) ([]Effect, error) {
	switch e.Finding {
	case FoundGone:
		delete(m.record().Intents, e.Role)
		return m.compareNext(), nil
	case FoundMatching:
		if m.now.Record.Intents[e.Role] != Owned {
			return m.illegal("nothing is on record that it could match")
		}
		m.record().Intents[e.Role] = Cleaning
		return []Effect{Clean{Role: e.Role}}, nil
	default: // FoundMismatch
		if e.Finding != FoundMismatch {
			return m.illegal("not a finding")
		}
		named := NameLeftover{Generation: m.now.Record.Generation, Role: e.Role}
		return append([]Effect{named}, m.giveUp()...), nil
	}
}

// compareNext goes on with the recovery, up to its end.
func (m *machine) compareNext() []Effect {
	s := m.now
	r := s.Record
	switch role := r.next(); {
	case role != "":
		return []Effect{Compare{Role: role}}
	case r.Lease != "":
		return []Effect{ReleaseLease{Generation: r.Generation, Prepared: r.Lease}}
	}
	s.Phase, s.Record = Absent, nil
	return []Effect{Recovered{Generation: r.Generation}}
}
