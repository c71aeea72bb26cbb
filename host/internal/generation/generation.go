// Package generation is what the CLI that starts a Domain generation and the
// coordinator that becomes it have in common: the start request, the wait for
// the coordinator's word, the generation's ids, and the names in its runtime
// directory.
//
// It starts nothing and owns no state. It runs in both processes.
package generation

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	hostcontrol "lazaret.dev/lazaret/host/internal/control"
)

// NewID mints a generation's id: it sorts by time, and its random part
// makes it unique where clocks jump.
func NewID(now time.Time) (string, error) {
	b := make([]byte, 5)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("mint generation id: %w", err)
	}
	return fmt.Sprintf("g%011x%s", now.UnixMilli(), hex.EncodeToString(b)), nil
}

// OpenLog opens a log file for appending, made 0600.
func OpenLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

// ComponentIDs are the runtime component IDs of one generation.
type ComponentIDs struct{ Coordinator, Sandbox, Network string }

// MintIDs makes fresh component IDs. The Agent Sandbox ID is short, because it
// becomes part of the address of runsc's control socket.
func MintIDs() (ComponentIDs, error) {
	var ids ComponentIDs
	for _, p := range []*string{&ids.Coordinator, &ids.Sandbox, &ids.Network} {
		id, err := hostcontrol.NewID()
		if err != nil {
			return ids, err
		}
		*p = id
	}
	ids.Sandbox = SandboxID(ids.Sandbox)
	return ids, nil
}

// SandboxID shortens a random id to an Agent Sandbox ID.
func SandboxID(random string) string { return "lz" + random[:10] }
