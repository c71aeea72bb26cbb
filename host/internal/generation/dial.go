package generation

import (
	"context"
	"errors"
	"slices"

	hostcontrol "lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/paths"
)

// Dial connects to a Domain's coordinator in whichever runtime directory of
// this user it has published itself: one that was started without
// XDG_RUNTIME_DIR is not where this process would put it, and one that was
// started with it is where the holder of the Domain lock says (case 100).
func Dial(ctx context.Context, h paths.Host, profile, domainID string, holder Holder) (*hostcontrol.Conn, error) {
	var dirs []string
	for _, rt := range h.Runtimes() {
		dirs = append(dirs, rt.DomainPath(domainID))
	}
	if d := holder.RuntimeDir; d != "" && !slices.Contains(dirs, d) {
		dirs = append(dirs, d)
	}
	err := hostcontrol.ErrNotPublished
	for _, dir := range dirs {
		var conn *hostcontrol.Conn
		conn, err = hostcontrol.Dial(ctx, dir, profile, domainID)
		if err == nil || !errors.Is(err, hostcontrol.ErrNotPublished) {
			return conn, err
		}
	}
	return nil, err
}
