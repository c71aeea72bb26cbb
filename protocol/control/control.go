// Package control is the conversation between a Client CLI and the Host
// Coordinator: enrolment, then one session over mutual TLS, and the start-up
// handshake between the CLI that won the Domain lock and the coordinator that
// it starts. It owns the messages; it opens no socket. It is linked into both.
//
//	CLI                                        HC
//	 │  enroll.sock (SO_PEERCRED is checked first, SR-9)
//	 │ EnrollRequest{public key} ───────────────► │
//	 │ ◄─────────────── EnrollReply{certificates} │
//	 │  control.sock, mutual TLS 1.3, frames
//	 │ open{OpenRequest} ───────────────────────► │
//	 │ ◄───────────────── admitted{} or refused{} │
//	 │ stdin, stdin_eof, resize, signal ────────► │
//	 │ ◄────────────────────────────────── credit │ so much stdin was passed on
//	 │ ◄──────────────── stdout, stderr, notice{} │
//	 │ ◄──────────────────────────────── exit{}   │
//	 │ ◄────────────────────────────── notice{}…  │ what was found, where the generation ends with it
//
// The connection is the session: when it closes, the session ends. Instead of
// open a client may send ask{}, which is answered with status{}, ignored{},
// which is answered with answer{}, or stop{StopRequest}, after which the connection stays open until nothing of the
// generation is left.
package control

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/wire"
)

// Version is the conversation's version. A client of another version is told
// so at enrolment: a Domain may have been started by an older installation.
const Version = 1

// Names of the sockets in a Domain's runtime directory. Both are published by
// rename, enrolment last: who can enrol can connect.
const (
	EnrollSocket  = "enroll.sock"
	ControlSocket = "control.sock"
)

// MaxEnroll bounds an enrolment message, in bytes.
const MaxEnroll = 16 << 10

// EnrollRequest asks for a client certificate.
type EnrollRequest struct {
	Version   int    `json:"version"`
	PublicKey []byte `json:"public_key"` // Ed25519
}

// EnrollReply carries what the client needs for mutual TLS, or an error.
type EnrollReply struct {
	Version     int    `json:"version"`
	Error       string `json:"error,omitempty"`
	Certificate []byte `json:"certificate,omitempty"` // DER
	Anchor      []byte `json:"anchor,omitempty"`      // the Trust Anchor's certificate, DER
	Coordinator string `json:"coordinator,omitempty"` // Session Coordinator ID to demand of the server
	Generation  string `json:"generation,omitempty"`
}

// The frame types. Client to coordinator:
const (
	FrameOpen     wire.FrameType = 'O'
	FrameStdin    wire.FrameType = 'i'
	FrameStdinEOF wire.FrameType = 'I'
	FrameResize   wire.FrameType = 'W'
	FrameSignal   wire.FrameType = 'S'
	FrameAsk      wire.FrameType = 'Q' // instead of open: what runs here?
	FrameStop     wire.FrameType = 'T' // instead of open: end the generation
	FrameIgnored  wire.FrameType = 'G' // instead of open: isolation.Request
)

// Coordinator to client:
const (
	FrameAdmitted wire.FrameType = 'A'
	FrameRefused  wire.FrameType = 'R'
	FrameStdout   wire.FrameType = 'o'
	FrameStderr   wire.FrameType = 'e'
	FrameCredit   wire.FrameType = 'C'
	FrameNotice   wire.FrameType = 'N'
	FrameExit     wire.FrameType = 'X'
	FrameStatus   wire.FrameType = 'P'
	FrameAnswer   wire.FrameType = 'g' // isolation.Answer
)

// Window is how many bytes of stdin a client may have sent beyond those that
// credit frames have returned. The coordinator can therefore always read the
// next frame, whether or not the command reads its input: a resize, a signal
// or the end of the connection never waits behind it.
const Window = 256 << 10

// EncodeCredit renders a credit frame's payload.
func EncodeCredit(n int) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(n))
}

// DecodeCredit reads a credit frame's payload.
func DecodeCredit(b []byte) (int, error) {
	if len(b) != 4 {
		return 0, errors.New("malformed credit")
	}
	n := binary.BigEndian.Uint32(b)
	if n > Window {
		return 0, fmt.Errorf("credit of %d bytes, window %d", n, Window)
	}
	return int(n), nil
}

// Size is a terminal's size in character cells. Both are at least 1.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// OpenRequest asks for a Client Session and says what to run in it.
type OpenRequest struct {
	Fingerprint string            `json:"fingerprint"` // the client's Configuration Fingerprint
	Shape       map[string]string `json:"shape"`       // what the fingerprint covers, for the text of a refusal

	Argv  []string `json:"argv,omitempty"` // empty: a login shell
	Env   []string `json:"env"`
	TTY   bool     `json:"tty"`
	Size  Size     `json:"size"` // with TTY
	Quiet bool     `json:"quiet"`

	// Report asks for what was found, should the generation end with this session.
	Report bool `json:"report"`
}

// Admitted answers an OpenRequest.
type Admitted struct {
	Session string `json:"session"` // Session ID
}

// Refused answers an OpenRequest that cannot be granted.
type Refused struct {
	Why    protocol.Refusal `json:"why"`
	Detail []string         `json:"detail,omitempty"` // what differs, one setting a line
}

// Signal is a signal to deliver to the session's foreground processes.
type Signal struct {
	Name SignalName `json:"name"`
}

// SignalName is the name of a signal that a client may send.
type SignalName string

// The signals that a client may send.
const (
	SignalInterrupt SignalName = "INT"
	SignalTerminate SignalName = "TERM"
	SignalHangup    SignalName = "HUP"
	SignalQuit      SignalName = "QUIT"
)

// UnmarshalText refuses unknown signals.
func (s *SignalName) UnmarshalText(b []byte) error {
	switch v := SignalName(b); v {
	case SignalInterrupt, SignalTerminate, SignalHangup, SignalQuit:
		*s = v
		return nil
	default:
		return fmt.Errorf("unknown signal %q", b)
	}
}

// Status is what a coordinator says of its Domain.
type Status struct {
	DomainID   string               `json:"domain_id"`
	Profile    string               `json:"profile"`
	Workspace  string               `json:"workspace"`
	Generation string               `json:"generation"`
	Phase      protocol.DomainPhase `json:"phase"`
	Since      time.Time            `json:"since"`
	Sessions   []SessionStatus      `json:"sessions"`
}

// SessionStatus is one Client Session in a Status.
type SessionStatus struct {
	ID      string                `json:"id"`
	Phase   protocol.SessionPhase `json:"phase"`
	Command []string              `json:"command"` // empty: a login shell
	TTY     bool                  `json:"tty"`
	Since   time.Time             `json:"since"`
}

// StopRequest asks for the end of a generation.
type StopRequest struct {
	Generation string `json:"generation"` // the one that was asked about; no other is ended
	By         string `json:"by"`         // who asks, for the people whose sessions end
}

// Notice is a line of Lazaret's own for the client's stderr.
type Notice struct {
	Text string `json:"text"`
}

// Exit is the end of a session.
type Exit struct {
	Status int    `json:"status"`
	Failed bool   `json:"failed"` // Lazaret failed under the command; Reason says how
	Reason string `json:"reason,omitempty"`
	Log    string `json:"log,omitempty"` // directory of the generation's logs, when Failed
}

// The handshake's message kinds, over SOCK_SEQPACKET: the starting CLI sends
// one KindStart with the request in a sealed memfd; the coordinator sends
// progress and warnings, and at last KindReady or KindFailed.
const (
	KindStart    wire.Kind = "start"
	KindProgress wire.Kind = "progress"
	KindWarning  wire.Kind = "warning"
	KindReady    wire.Kind = "ready"
	KindFailed   wire.Kind = "failed"
)

// StartHeader announces the start request.
type StartHeader struct {
	Version int   `json:"version"`
	Size    int64 `json:"size"`
}

// Phase is a step of the start that a person may wait for.
type Phase string

// The phases, in order.
const (
	PhasePull    Phase = "pull"
	PhaseUnpack  Phase = "unpack"
	PhaseNetwork Phase = "network"
	PhaseSandbox Phase = "sandbox"
)

// Progress reports how far a phase is.
type Progress struct {
	Phase Phase  `json:"phase"`
	Item  string `json:"item,omitempty"` // e.g. "layer 2 of 5"
	Done  int64  `json:"done,omitempty"` // bytes
	Total int64  `json:"total,omitempty"`
}

// Warning is a line for the person who started the Domain.
type Warning struct {
	Text string `json:"text"`
}

// StartFailed is the coordinator's one report of a failed start.
type StartFailed struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Log   string `json:"log,omitempty"`
}

// Decode decodes a frame's JSON payload strictly: one value, and nothing after
// it.
func Decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("malformed message: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("malformed message: trailing data")
	}
	return nil
}
