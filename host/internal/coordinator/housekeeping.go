package coordinator

import (
	"context"
	"path/filepath"
	"time"

	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/host/internal/tidy"
)

// leaveGrace bounds how long a generation that is over cleans up behind itself.
// What it does not get done is for the next one.
const leaveGrace = 5 * time.Second

// transients is where each generation of the Domain has its transient layer.
func (r *Request) transients() string { return filepath.Join(r.Domain.DomainDir, "transient") }

// runner runs programs in the generation's id mapping.
func (r *Request) runner() spawn.Enter {
	return spawn.Enter{Supervisor: r.Tools.Supervisor, Executable: r.Executable, Mapping: r.Mapping}
}

// keepHouse removes what dead generations have left and keeps the logs bounded.
// It costs no start any time, and no failure of it costs a session.
func (g *generation) keepHouse(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.tasks.Go(func() {
		select {
		case <-g.over:
			cancel()
		case <-ctx.Done():
		}
	})
	if err := tidy.Logs(filepath.Dir(g.logDir), g.req.Generation, tidy.KeepLogs); err != nil {
		g.log.Warn("cannot remove old logs", "err", err)
	}
	if err := tidy.DeadTransients(ctx, g.req.runner(), g.req.transients(), g.req.Generation); err != nil && ctx.Err() == nil {
		g.log.Warn("cannot remove what dead generations have left", "err", err)
	}
	tidy.BoundLogs(ctx, g.logDir, g.log)
}

// leave removes the generation's own transient layer. The supervisor is gone,
// and its mounts with it.
func (g *generation) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveGrace)
	defer cancel()
	if err := tidy.Transient(ctx, g.req.runner(), g.req.transients(), g.req.Generation); err != nil {
		g.log.Warn("cannot remove the transient layer", "err", err)
	}
}
