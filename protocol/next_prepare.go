package protocol

// resource takes the reports of what now exists. Each demands the one before
// it, because a swap would be a hole: a mount without its lease, a sandbox
// without its network policy. A report that a teardown has overtaken is noted
// all the same, for what exists must be taken down; it has no effects.
func (m *machine) resource() ([]Effect, error) {
	s := m.now
	if s.Phase != Starting && !s.Phase.ending() {
		return m.illegal("no generation is being prepared")
	}
	switch e := m.ev.(type) {
	case Leased:
		switch {
		case e.Prepared == "":
			return m.illegal("a lease is of a prepared artifact")
		case s.Lease != "":
			return m.illegal("a prepared lower is already leased")
		}
		s.Lease = e.Prepared
		return nil, nil
	case SupervisorStarted:
		if s.Intents[RoleSupervisor] != Intended {
			return m.illegal("no supervisor is being started")
		}
		m.intents()[RoleSupervisor] = Owned
		return nil, nil
	}
	if s.Intents[RoleSupervisor] != Owned {
		return m.illegal("there is no supervisor that could have done it")
	}
	switch e := m.ev.(type) {
	case AnchorMounted:
		switch {
		case s.Lease == "":
			return m.illegal("no prepared lower is leased")
		case s.Intents[RoleAnchor] != Intended:
			return m.illegal("no anchor is being mounted")
		}
		s.Anchor, m.intents()[RoleAnchor] = ResourceReady, Owned
		return nil, nil
	case HelperStarted:
		if s.Intents[RoleHelper] != Intended {
			return m.illegal("no connectivity helper is being started")
		}
		m.intents()[RoleHelper] = Owned
		return nil, nil
	case NetworkReady:
		return m.networkReady(e)
	default: // SandboxStarted
		switch {
		case s.Network != ResourceReady:
			return m.illegal("the network is not ready")
		case s.Intents[RoleSandbox] != Intended:
			return m.illegal("no sandbox is being started")
		}
		s.Sandbox, m.intents()[RoleSandbox] = ResourceReady, Owned
		if s.Phase != Starting {
			return m.ignore()
		}
		return append(m.intend(RolePublication), IssueTrust{}, VerifyPolicy{}), nil
	}
}

// networkReady is the network readiness gate (SR-5, FR-18).
func (m *machine) networkReady(e NetworkReady) ([]Effect, error) {
	s := m.now
	switch {
	case s.Anchor != ResourceReady:
		return m.illegal("the anchor is not mounted")
	case s.Intents[RoleHelper] != Owned:
		return m.illegal("the connectivity helper is not owned")
	case s.Intents[RoleNetwork] != Intended:
		return m.illegal("no network is being prepared")
	case e.Readiness == "":
		return m.illegal("the network has no readiness fingerprint")
	case e.Network != s.IDs.Network:
		return m.illegal("it is of another Network Sidecar")
	}
	s.Network, s.Readiness, m.intents()[RoleNetwork] = ResourceReady, e.Readiness, Owned
	if s.Phase != Starting {
		return m.ignore()
	}
	return append(m.intend(RoleSandbox), StartSandbox{}), nil
}

// prove takes the steps from a running sandbox to publication. One that a
// teardown has overtaken is over, but for a publication that came about
// meanwhile.
func (m *machine) prove() ([]Effect, error) {
	s := m.now
	if s.Phase.ending() {
		if _, ok := m.ev.(Published); ok {
			return []Effect{Withdraw{}}, nil
		}
		return m.ignore()
	}
	if s.Phase != Starting {
		return m.illegal("no generation is starting")
	}
	if s.Sandbox != ResourceReady {
		return m.illegal("no sandbox runs")
	}
	switch m.ev.(type) {
	case TrustIssued:
		if s.Trust {
			return m.illegal("trust is issued once")
		}
		s.Trust = true
	case PolicyVerified:
		if s.Verified {
			return m.illegal("the policy is verified once")
		}
		s.Verified = true
	default: // Published
		if !s.Trust || !s.Verified {
			return m.illegal("nothing is published before trust and verification")
		}
		s.Phase, s.Published, m.intents()[RolePublication] = Ready, true, Owned
		return nil, nil
	}
	if s.Trust && s.Verified {
		return []Effect{Publish{}}, nil
	}
	return nil, nil
}
