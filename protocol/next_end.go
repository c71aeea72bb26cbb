package protocol

func (m *machine) stop(reason string) ([]Effect, error) {
	switch m.now.Phase {
	case Starting, Ready:
		return m.teardown(Stopping, EndAll{Reason: reason})
	case Recovering:
		return m.giveUp(), nil
	default:
		return m.ignore()
	}
}

func (m *machine) lost(e Lost) ([]Effect, error) {
	switch m.now.Phase {
	case Starting, Ready:
		return m.teardown(Failed, EndAll{Reason: e.Reason, Failed: true})
	case Stopping, Failed:
		// A component that ends during the teardown is what the teardown wants.
		return m.ignore()
	default:
		return m.illegal("no generation is there")
	}
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
		delete(s.Intents, RolePublication)
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
	if s.Phase != Stopping && s.Phase != Failed {
		return m.illegal("the generation is not being torn down")
	}
	switch c {
	case ComponentSandbox:
		s.Sandbox = ResourceStopped
		delete(s.Intents, RoleSandbox)
	case ComponentNetwork:
		if s.Sandbox != ResourceStopped {
			return m.illegal("the network may not go before the sandbox")
		}
		s.Network, s.Readiness = ResourceStopped, ""
		delete(s.Intents, RoleHelper)
		delete(s.Intents, RoleNetwork)
	case ComponentAnchor:
		if s.Sandbox != ResourceStopped || s.Network != ResourceStopped {
			return m.illegal("the anchor may not go before sandbox and network")
		}
		s.Anchor = ResourceStopped
		delete(s.Intents, RoleAnchor)
	default:
		return m.illegal("not a component")
	}
	return nil, nil
}

// supervisorGone ends the supervisor's part. What it owned has gone with it:
// its namespaces hold the mounts and the network, and the attached runsc dies
// with it.
func (m *machine) supervisorGone(reason string) ([]Effect, error) {
	s := m.now
	var effects []Effect
	switch s.Phase {
	case Starting, Ready:
		effects = m.over(Failed, EndAll{Reason: reason, Failed: true})
	case Stopping, Failed:
		if s.Intents[RoleSupervisor] == "" {
			return m.illegal("the supervisor has gone already")
		}
	default:
		return m.illegal("no generation is there")
	}
	s.Anchor, s.Network, s.Readiness, s.Sandbox = ResourceStopped, ResourceStopped, "", ResourceStopped
	s.Intents = nil
	return m.releaseWhenAlone(effects), nil
}

// releaseWhenAlone ends a generation whose supervisor has gone once no host
// process can be running for it any more: none outlives its generation.
func (m *machine) releaseWhenAlone(effects []Effect) []Effect {
	s := m.now
	if s.Phase != Stopping && s.Phase != Failed || s.Intents[RoleSupervisor] != "" {
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
