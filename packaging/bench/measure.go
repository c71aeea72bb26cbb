package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// joins is how many Client Sessions join before memory is read.
const joins = 10

// table is what one run measured.
type table struct {
	n                               int
	cold, bareRun, joined, bareExec time.Duration
	coordinatorHWM, supervisorHWM   int64 // kB
	coldSamples, runSamples         []time.Duration
	joinedSamples, bareExecSamples  []time.Duration
}

// measure takes the pairs that are compared in turn, so that what else the
// machine does meets both.
func measure(ctx context.Context, l *lazaret, b *bare, n int) (*table, error) {
	t := &table{n: n}
	// The first start prepares the image; it is not what is measured.
	if _, err := l.run(ctx); err != nil {
		return nil, err
	}
	if _, err := b.run(ctx); err != nil {
		return nil, err
	}
	for range n {
		d, err := l.run(ctx)
		if err != nil {
			return nil, err
		}
		t.coldSamples = append(t.coldSamples, d)
		if d, err = b.run(ctx); err != nil {
			return nil, err
		}
		t.runSamples = append(t.runSamples, d)
	}

	endSession, err := l.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer endSession()
	endBare, err := b.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer endBare()
	for range n {
		d, err := l.run(ctx)
		if err != nil {
			return nil, err
		}
		t.joinedSamples = append(t.joinedSamples, d)
		if d, err = b.exec(ctx); err != nil {
			return nil, err
		}
		t.bareExecSamples = append(t.bareExecSamples, d)
	}
	for range max(0, joins-n) {
		if _, err := l.run(ctx); err != nil {
			return nil, err
		}
	}
	t.coordinatorHWM, t.supervisorHWM, err = l.memory()
	if err != nil {
		return nil, err
	}
	t.cold, t.bareRun = median(t.coldSamples), median(t.runSamples)
	t.joined, t.bareExec = median(t.joinedSamples), median(t.bareExecSamples)
	return t, nil
}

func median(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond)) }
	verdict := func(ok bool) string {
		if ok {
			return "met"
		}
		return "missed"
	}
	row := func(what, value, other, ratio, goal string, ok bool) {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", what, value, other, ratio, goal, verdict(ok))
	}
	fmt.Fprintf(tw, "medians of %d, one run\tLazaret\tbare runsc\tratio\tgoal\t\n", t.n)
	cold := float64(t.cold) / float64(t.bareRun)
	row("cold `lazaret run -- true` ÷ `runsc --rootless --network=none run`", ms(t.cold), ms(t.bareRun), fmt.Sprintf("%.2f", cold), "≤ 2.5", cold <= 2.5)
	joined := float64(t.joined) / float64(t.bareExec)
	row("joined `lazaret run -- true` ÷ `runsc --rootless exec`", ms(t.joined), ms(t.bareExec), fmt.Sprintf("%.2f", joined), "≤ 4", joined <= 4)
	row("joined `lazaret run -- true`", ms(t.joined), "", "", "≤ 60 ms", t.joined <= 60*time.Millisecond)
	for _, m := range []struct {
		what string
		kb   int64
	}{{"Host Coordinator", t.coordinatorHWM}, {"Runtime Supervisor", t.supervisorHWM}} {
		row(fmt.Sprintf("VmHWM of the %s after %d joins", m.what, max(joins, t.n)),
			fmt.Sprintf("%.1f MB", float64(m.kb)/1000), "", "", "≤ 40 MB", m.kb <= 40_000)
	}
	return tw.Flush()
}
