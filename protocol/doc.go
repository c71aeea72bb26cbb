// Package protocol is the Domain protocol as pure functions: the phases of a
// Domain generation and its Client Sessions, and which event may follow which.
//
// Next decides; the Host Coordinator performs. Nothing here opens, starts,
// sleeps or reads a clock, so that the same function can be explored over all
// its states. Names follow the specification's model. The packages below this
// one hold the contracts between Lazaret's processes: handoff (Host Coordinator
// and Runtime Supervisor), control (Client CLI and Host Coordinator), launch,
// netpolicy, probe, identity and wire.
//
// The order of a generation's life is the protocol's first duty:
//
//	Absent ──Start──► Starting ──AnchorMounted──NetworkReady──SandboxStarted──┐
//	                     │                       (fingerprinted)              │
//	                     │              ┌──TrustIssued, PolicyVerified────────┘
//	                     │              ▼
//	                     │           Publish ──Published──► Ready ◄─► sessions
//	                     ▼                                    │ last session ended,
//	                  Failed ◄────────── Lost ────────────────┤ StopRequested
//	                     │                                    ▼
//	                     └──Stopped(sandbox, network, mounts)── Stopping ──► Absent
//
// A sandbox never starts before the network is ready with a fingerprint
// (SR-5), nothing is published before the policy was verified from inside
// (FR-20), and sessions are admitted only while published (FR-10).
package protocol
