package coordinator

import (
	"context"
	"errors"
	"fmt"

	pc "lazaret.dev/lazaret/protocol/control"
	"lazaret.dev/lazaret/protocol/wire"
)

// handle takes one frame of a client. An error ends the session: a client that
// breaks the rules is no client.
func (in *input) handle(ctx context.Context, typ wire.FrameType, payload []byte) error {
	switch typ {
	case pc.FrameStdin:
		return in.put(payload, false)
	case pc.FrameStdinEOF:
		return in.put(nil, true)
	case pc.FrameResize:
		var size pc.Size
		if err := pc.Decode(payload, &size); err != nil {
			return err
		}
		if size.Rows == 0 || size.Cols == 0 {
			return errors.New("a terminal of no size")
		}
		// The command may have ended; then there is nothing to resize.
		_ = in.sess.Resize(size)
		return nil
	case pc.FrameSignal:
		var sig pc.Signal
		if err := pc.Decode(payload, &sig); err != nil {
			return err
		}
		// Likewise: a signal to a command that has just ended is late, not wrong.
		_ = in.sess.Signal(ctx, sig.Name)
		return nil
	default:
		return fmt.Errorf("unexpected frame %q", typ)
	}
}
