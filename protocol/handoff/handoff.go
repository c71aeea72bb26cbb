// Package handoff is the conversation between the Host Coordinator (HC) and
// the Runtime Supervisor (RS) over one SOCK_SEQPACKET pair.
//
// It owns the message kinds and their bodies, nothing else. The socket is also
// the lease: its EOF means that the other side is gone, and each side then ends
// what it owns. It is linked into both processes.
//
//	HC                                   RS (first stage, host namespaces)
//	 │  start lazaret-supervisor, fd 3 = socket, fd 4 = log
//	 │                                    │ clone into user+mount+cgroup namespaces as
//	 │                                    │ a child of HC's, write the id maps, exit 0
//	 │ ◄──────────────── hello{version, pid, start, mapping}
//	 │ plan{} + fd(memfd, sealed) ──────► │
//	 │ ◄──────── anchor_ready{mount ids}  │ overlays, workspace, files   (Starting: anchor)
//	 │ ◄─── network_ready{fingerprint…}   │ slirp, netns, routes observed (Starting: network)
//	 │ start_sandbox{} ─────────────────► │ only now: order is the gate (SR-5)
//	 │ ◄─── sandbox_ready{runsc pid…}     │ runsc run, root filesystem up (Starting: sandbox)
//	 ⋮            the Domain is served: EOF is the lease
//	 │ ask{} ───────────────────────────► │  at any time, about ignored paths;
//	 │ ◄───────────────────────── answer{} │  one for each, in their order
//	 │ ◄─────────── helper_lost{who, how} │ slirp4netns or runsc ended by itself
//	 │ stop{} ──────────────────────────► │
//	 │ ◄──────────── stopped{sandbox}     │ teardown order: sandbox, network, mounts
//	 │ ◄───────────────────── findings{}  │ what a person should know, if there is anything
//	 │ ◄──────────── stopped{network}     │
//	 │ ◄──────────── stopped{mounts}      │
//	 │ ◄─────────────────────────── EOF   │ exit 0
//
// At any time before stopped{mounts}, RS may send failed{step, error}: it is
// the only report of that error and RS's last message. RS logs it, prints
// nothing, tears down by itself, and ends with status 1. The first stage sends
// it too, before hello, when there is nothing to say hello. A message out of
// this order is an error on either side.
//
// HC may send stop at any time after plan; RS acts on it once it has sent
// anchor_ready. After helper_lost, RS tears down by itself as after stop.
//
// HC must reap RS, whose pid hello gives: it is HC's own child although the
// first stage cloned it. HC must start the first stage on a thread that does
// not end before HC; RS asks for SIGTERM at its parent's death, which the
// kernel binds to that thread. (RS looks whether HC lives before it heeds it.)
package handoff

import "lazaret.dev/lazaret/protocol/wire"

// Version is the conversation's version. Both ends come from one build.
const Version = 1

// Descriptors that the Host Coordinator leaves open in the supervisor.
const (
	SocketFD = 3 // SOCK_SEQPACKET, this conversation
	LogFD    = 4 // supervisor log, append only
)

// MarkName is the variable in the environment of the supervisor and of what it
// starts that says of which generation they are.
const MarkName = "LAZARET_GENERATION"

// Mark is the environment's entry for a generation.
func Mark(generation string) string { return MarkName + "=" + generation }

// The message kinds.
const (
	KindHello        wire.Kind = "hello"
	KindPlan         wire.Kind = "plan"
	KindAnchorReady  wire.Kind = "anchor_ready"
	KindNetworkReady wire.Kind = "network_ready"
	KindStartSandbox wire.Kind = "start_sandbox"
	KindSandboxReady wire.Kind = "sandbox_ready"
	KindHelperLost   wire.Kind = "helper_lost"
	KindStop         wire.Kind = "stop"
	KindAsk          wire.Kind = "ask"      // isolation.Request
	KindAnswer       wire.Kind = "answer"   // isolation.Answer
	KindFindings     wire.Kind = "findings" // findings.Report
	KindStopped      wire.Kind = "stopped"
	KindFailed       wire.Kind = "failed"
)

// Proc identifies a process beyond its pid's reuse: pid, start time in clock
// ticks since boot (proc(5), stat field 22), and the boot id.
type Proc struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"`
	BootID string `json:"boot_id"`
}

// Mapping is the id-mapping mode of the generation's user namespace.
type Mapping string

// The mapping modes. A State Anchor made under one is refused under the other.
const (
	MappingFull   Mapping = "full"   // 0 ↔ developer, 1..65536 ↔ subordinate ids
	MappingSingle Mapping = "single" // 0 ↔ developer, nothing else
)

// Hello is the supervisor's first message, sent from inside its namespaces.
type Hello struct {
	Version int     `json:"version"`
	Proc    Proc    `json:"proc"`
	Mapping Mapping `json:"mapping"`
	MntNS   uint64  `json:"mnt_ns"` // inode of its mount namespace
}

// PlanHeader announces the plan; one descriptor comes with it, a sealed memfd
// that holds launch.Plan's encoding.
type PlanHeader struct {
	Size int64 `json:"size"`
}

// AnchorReady says that the root filesystem is assembled.
type AnchorReady struct {
	MountIDs map[string]uint64 `json:"mount_ids"` // sandbox path → mount id (statx)
}

// NetworkReady attests the network as observed, not as asked for. There are two
// namespaces: the sandbox is in an inner one, and all that leaves it is
// forwarded by the kernel of an outer one, which is the enforcement namespace
// and the supervisor's own. Both have been compared with the policy; what the
// fingerprint binds is the outer one's identity.
type NetworkReady struct {
	Fingerprint string `json:"fingerprint"` // network readiness fingerprint
	NetNS       uint64 `json:"net_ns"`      // inode of the enforcement namespace
	Slirp       Proc   `json:"slirp"`
	Sandboxed   bool   `json:"sandboxed"` // slirp4netns runs with --enable-sandbox and --enable-seccomp
}

// SandboxReady says that the attached runsc client runs and its sandbox
// answers.
type SandboxReady struct {
	Runsc Proc `json:"runsc"`
}

// Component names what ended, or what was stopped.
type Component string

// The components, in teardown order.
const (
	ComponentSandbox Component = "sandbox"
	ComponentNetwork Component = "network"
	ComponentMounts  Component = "mounts"
)

// HelperLost reports a supervised process that ended without being asked.
type HelperLost struct {
	Component Component `json:"component"`
	Reason    string    `json:"reason"` // e.g. "slirp4netns was killed by signal 9"
}

// Stopped reports that one component is gone.
type Stopped struct {
	Component Component `json:"component"`
}

// Failed is the supervisor's one report of its own failure.
type Failed struct {
	Step  string `json:"step"`  // what it was doing: "anchor", "network", "sandbox", …
	Error string `json:"error"` // for the user, without the program's name
	Hint  string `json:"hint,omitempty"`
}

// Empty is the body of messages that carry nothing.
type Empty struct{}
