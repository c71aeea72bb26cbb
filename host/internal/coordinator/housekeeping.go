package coordinator

import (
	"context"
	"path/filepath"
	"time"

	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/tidy"
)

// leaveGrace bounds how long a generation that is over cleans up behind itself.
// What it does not get done is for the next one.
const leaveGrace = 5 * time.Second

// keepHouse removes what dead generations have left and keeps the logs bounded.
// It costs no start any time, and no failure of it costs a session.
func (hc *coordinator) keepHouse(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hc.tasks.Go(func() {
		select {
		case <-hc.over:
			cancel()
		case <-ctx.Done():
		}
	})
	if err := tidy.Logs(filepath.Dir(hc.logDir), hc.req.Generation, tidy.KeepLogs); err != nil {
		hc.log.Warn("cannot remove old logs", "err", err)
	}
	if err := tidy.DeadTransients(ctx, hc.req.Runner(), hc.req.Transients(), hc.req.Generation); err != nil && ctx.Err() == nil {
		hc.log.Warn("cannot remove what dead generations have left", "err", err)
	}
	if _, err := image.Reclaim(ctx, hc.req.Domain.DataRoot, hc.req.Runner()); err != nil && ctx.Err() == nil {
		hc.log.Warn("cannot remove what dead preparations of images have left", "err", err)
	}
	tidy.BoundLogs(ctx, hc.logDir, hc.log)
}

// leave removes the generation's own transient layer. The supervisor is gone,
// and its mounts with it.
func (hc *coordinator) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveGrace)
	defer cancel()
	if err := tidy.Transient(ctx, hc.req.Runner(), hc.req.Transients(), hc.req.Generation); err != nil {
		hc.log.Warn("cannot remove the transient layer", "err", err)
	}
}
