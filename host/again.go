package host

import (
	"errors"

	"lazaret.dev/lazaret/host/internal/attach"
	"lazaret.dev/lazaret/protocol"
)

// again reports whether a session that was not opened is to be tried once more:
// the Domain is just ending, and a later look finds it gone; or its coordinator
// has ended without an answer, which happens by chance at most once. Nothing of
// the session has begun in either case.
func (c *client) again(err error) bool {
	if refused, ok := errors.AsType[*attach.RefusedError](err); ok {
		return refused.Why == protocol.RefusedNotReady
	}
	if _, ok := errors.AsType[*attach.UnansweredError](err); ok && !c.unanswered {
		c.unanswered = true
		return true
	}
	return false
}
