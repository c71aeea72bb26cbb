package supervisor_test

import (
	"testing"
	"time"

	"lazaret.dev/lazaret/protocol/handoff"
)

// BenchmarkColdStart reports what each phase of a start costs, in
// milliseconds.
func BenchmarkColdStart(b *testing.B) {
	w := newWorld(b)
	sums := map[string]time.Duration{}
	n := 0
	for b.Loop() {
		w.freshState(b)
		last := time.Now()
		phase := func(name string) {
			now := time.Now()
			sums[name] += now.Sub(last)
			last = now
		}
		c := w.start(b)
		phase("hello")
		c.sendPlan()
		c.expect(handoff.KindAnchorReady, &handoff.AnchorReady{})
		phase("anchor")
		c.expect(handoff.KindNetworkReady, &handoff.NetworkReady{})
		phase("network")
		if err := c.seq.Send(handoff.KindStartSandbox, handoff.Empty{}); err != nil {
			b.Fatal(err)
		}
		c.expect(handoff.KindSandboxReady, &handoff.SandboxReady{})
		phase("sandbox")
		c.stop()
		phase("stop")
		c.reap(5 * time.Second)
		n++
	}
	for name, d := range sums {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(n), name+"-ms")
	}
}
