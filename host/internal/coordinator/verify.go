package coordinator

import (
	"context"

	"lazaret.dev/lazaret/host/internal/proof"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/faults"
)

// verify runs the prober inside the sandbox and reports its finding (FR-20).
func (hc *coordinator) verify(ctx context.Context) {
	faults.Point("start.hc.proving")
	if err := proof.Prove(ctx, hc.sandbox, &hc.plan.Network); err != nil {
		hc.log.Error("the network policy could not be proven from inside", "err", err)
		hc.do(func() {
			hc.fail(err.Error(), hintOf(err))
			hc.lose(protocol.ComponentNetwork, err)
		})
		return
	}
	faults.Point("start.hc.proven")
	hc.post(protocol.PolicyVerified{})
}
