package host

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupt takes the signals that would end this process while nothing is
// attached yet: they end the start instead, and are reported.
type interrupt struct {
	cancel context.CancelFunc
	ch     chan os.Signal
	done   chan struct{}
	came   bool // written before done is closed
	once   sync.Once
}

// catchInterrupt begins to take signals. The first one cancels the context that
// it returns.
func catchInterrupt(ctx context.Context) (context.Context, *interrupt) {
	i := &interrupt{ch: make(chan os.Signal, 4), done: make(chan struct{})}
	ctx, i.cancel = context.WithCancel(ctx)
	signal.Notify(i.ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		defer close(i.done)
		for range i.ch {
			i.came = true
			i.cancel()
		}
	}()
	return ctx, i
}

// release gives the signals back and reports whether one came, however late: a
// signal that was taken here must not be lost between a start and its session.
func (i *interrupt) release() bool {
	i.once.Do(func() {
		signal.Stop(i.ch) // from here on the channel receives nothing more
		close(i.ch)
	})
	<-i.done
	i.cancel()
	return i.came
}
