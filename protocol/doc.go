// Package protocol is the Domain protocol as pure functions: the phases of a
// Domain generation, its Client Sessions and their escalation requests, what a
// dead generation leaves and how it is cleared away, and which event may follow
// which.
//
// Next decides; the Host Coordinator performs. Nothing here opens, starts,
// sleeps or reads a clock, so that the same function is explored over all its
// states: the tests visit every one that a small and a full fixture can reach.
// Lazaret.tla says the same protocol in TLA+ and counts the same states. Names
// follow the specification's model. The packages below this one hold the
// contracts between Lazaret's processes: handoff (Host Coordinator and Runtime
// Supervisor), control (Client CLI and Host Coordinator), launch, netpolicy,
// probe, identity and wire.
//
// The order of a generation's life is the protocol's first duty:
//
//	Absent ──Start──► Starting ──Leased──AnchorMounted──NetworkReady──SandboxStarted──┐
//	 │  ▲                │                (helper owned, fingerprinted)               │
//	 │  │                │              ┌──TrustIssued, PolicyVerified────────────────┘
//	 │  │                │              ▼
//	 │  │                │           Publish ──Published──► Ready ◄─► sessions ◄─► requests
//	 │  │                ▼                                    │ last session ended,
//	 │  │             Failed ◄────────── Lost ────────────────┤ StopRequested
//	 │  │                │                                    ▼
//	 │  ├──Stopped(sandbox, network, mounts), no host process── Stopping
//	 │  │
//	 │  └──Compared, Cleaned (role by role), LeaseReleased──┐
//	 └──Recover (a Record of a generation that died)──► Recovering
//
// No mount without a lease (FR-22). A sandbox never starts before the network
// is ready with a fingerprint (SR-5), nothing is published before the policy
// was verified from inside (FR-20), and sessions are admitted only while
// published (FR-10). What runs on the host was approved, is what was approved
// (SR-7), and is gone before its outcome is told, before its session ends and
// before its generation is over (OR-3). What a dead generation has left is
// touched only when it is exactly what is on record (FR-7).
//
// Durable intent: RecordIntent comes before the effect that makes what it is
// the intent of. A coordinator that dies leaves a state that Left makes from
// the store, and that Recover and the events after it bring to its end before
// anything can start.
package protocol
