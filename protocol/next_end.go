package protocol

func (m *machine) stop(reason string) ([]Effect, error) {
	switch {
	case m.now.Phase == Recovering:
		return m.giveUp(), nil
	case !m.now.Phase.serving():
		return m.ignore()
	}
	return m.teardown(Stopping, EndAll{Reason: reason})
}

func (m *machine) lost(e Lost) ([]Effect, error) {
	switch {
	case m.now.Phase.ending():
		// A component that ends during the teardown is what the teardown wants.
		return m.ignore()
	case !m.now.Phase.serving():
		return m.illegal("no generation is there")
	}
	return m.teardown(Failed, EndAll{Reason: e.Reason, Failed: true})
}

// teardown begins the end of a generation, and has the supervisor take down
// sandbox, network and mounts.
func (m *machine) teardown(to DomainPhase, all EndAll) ([]Effect, error) {
	return append(m.over(to, all), StopSupervisor{}), nil
}

// over ends a generation's service. The publication goes first, so that no
// client is admitted to what is about to end; then the sessions and their
// requests.
func (m *machine) over(to DomainPhase, all EndAll) []Effect {
	s := m.now
	s.Phase = to
	var effects []Effect
	if s.Published {
		effects = append(effects, Withdraw{})
		delete(m.intents(), RolePublication)
	}
	s.Published, s.Trust, s.Verified = false, false, false
	effects = append(effects, all)
	for _, id := range s.requestIDs() {
		if !s.Requests[id].Phase.Terminal() {
			effects = append(effects, m.abandon(id, FailurePending)...)
		}
	}
	return effects
}

// componentStopped takes the reports of the teardown, in its order.
func (m *machine) componentStopped(c Component) ([]Effect, error) {
	s := m.now
	if !s.Phase.ending() {
		return m.illegal("the generation is not being torn down")
	}
	switch c {
	case ComponentSandbox:
		s.Sandbox = ResourceStopped
		delete(m.intents(), RoleSandbox)
	case ComponentNetwork:
		if s.Sandbox != ResourceStopped {
			return m.illegal("the network may not go before the sandbox")
		}
		s.Network, s.Readiness = ResourceStopped, ""
		delete(m.intents(), RoleHelper)
		delete(m.intents(), RoleNetwork)
	default: // ComponentAnchor
		if c != ComponentAnchor {
			return m.illegal("not a component")
		}
		if s.Network != ResourceStopped {
			return m.illegal("the anchor may not go before the network")
		}
		s.Anchor = ResourceStopped
		delete(m.intents(), RoleAnchor)
	}
	return nil, nil
}

// supervisorGone ends the supervisor's part. What it owned has gone with it:
// its namespaces hold the mounts and the network, and the attached runsc dies
// with it.
func (m *machine) supervisorGone(reason string) ([]Effect, error) {
	s := m.now
	var effects []Effect
	switch {
	case s.Generation == "":
		return m.illegal("no generation is there")
	case s.Intents[RoleSupervisor] == "":
		return m.illegal("the supervisor has gone already")
	case s.Phase.serving():
		effects = m.over(Failed, EndAll{Reason: reason, Failed: true})
	}
	s.Anchor, s.Network, s.Readiness, s.Sandbox = ResourceStopped, ResourceStopped, "", ResourceStopped
	s.Intents = nil
	return m.releaseWhenAlone(effects), nil
}

// releaseWhenAlone ends a generation whose supervisor has gone once no host
// process can be running for it any more: none outlives its generation.
func (m *machine) releaseWhenAlone(effects []Effect) []Effect {
	s := m.now
	if s.Intents[RoleSupervisor] != "" {
		return effects
	}
	for id := range s.Requests {
		if s.HostRunning(id) {
			return effects
		}
	}
	generation := s.Generation
	*s = Initial()
	s.Previous = generation
	return append(effects, Release{})
}
