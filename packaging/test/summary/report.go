package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

// Counts is the outcome of a run. Subtests count as tests of their own, and a
// package that fails outside any test counts as one failure.
type Counts struct {
	Passed, Failed, Skipped int

	// Traces of coordinators that end-to-end tests replayed through the protocol,
	// and their steps.
	Traces, Steps int

	skips    []string
	failures []string
}

// key names one test of one package.
type key struct{ pkg, test string }

// Report reads events until the end and prints one line for each package, and
// all of the output of what failed. Lines that are no events are printed too.
func Report(w io.Writer, r io.Reader) *Counts {
	c := &Counts{}
	output := map[key][]string{}
	failed := map[string]bool{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprint(w, string(line))
			} else {
				c.add(w, e, output, failed)
			}
		}
		if err != nil {
			return c
		}
	}
}

func (c *Counts) add(w io.Writer, e event, output map[key][]string, failed map[string]bool) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(w, e.Output)
	case "output":
		output[k] = append(output[k], e.Output)
		if _, said, ok := strings.Cut(e.Output, "conformance: "); ok {
			var traces, steps int
			if n, _ := fmt.Sscanf(said, "%d traces, %d steps", &traces, &steps); n == 2 {
				c.Traces += traces
				c.Steps += steps
			}
		}
	case "pass":
		if e.Test != "" {
			c.Passed++
		} else {
			fmt.Fprintf(w, "ok  \t%s\t%.3fs\n", e.Package, e.Elapsed)
		}
		delete(output, k)
	case "skip":
		if e.Test != "" {
			c.Skipped++
			c.skips = append(c.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(output[k])))
		}
		delete(output, k)
	case "fail":
		if e.Test != "" {
			c.Failed++
			failed[e.Package] = true
			c.failures = append(c.failures, e.Package+" "+e.Test)
		} else {
			fmt.Fprintf(w, "FAIL\t%s\t%.3fs\n", e.Package, e.Elapsed)
			if !failed[e.Package] {
				c.Failed++
				c.failures = append(c.failures, e.Package)
			}
		}
		for _, l := range output[k] {
			fmt.Fprint(w, l)
		}
		delete(output, k)
	}
}

// reason is what a skipped test said: the lines that are not its frame.
func reason(output []string) string {
	var said []string
	for _, l := range output {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "=== ") || strings.HasPrefix(l, "--- ") {
			continue
		}
		said = append(said, l)
	}
	return strings.Join(said, " ")
}

// Finish prints the summary and tells whether the run is a success: the
// command succeeded, nothing failed, and something was tested.
func (c *Counts) Finish(w io.Writer, err error) bool {
	if len(c.skips) > 0 {
		fmt.Fprintln(w, "\nskipped:")
		for _, s := range slices.Sorted(slices.Values(c.skips)) {
			fmt.Fprintln(w, "  "+s)
		}
	}
	if err != nil && c.Failed == 0 {
		c.Failed++
		c.failures = append(c.failures, "the test command: "+err.Error())
	}
	if len(c.failures) > 0 {
		fmt.Fprintln(w, "\nfailed:")
		for _, f := range c.failures {
			fmt.Fprintln(w, "  "+f)
		}
	}
	if c.Traces > 0 {
		fmt.Fprintf(w, "\n%d traces of coordinators replayed through the protocol, %d steps\n", c.Traces, c.Steps)
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", c.Passed, c.Failed, c.Skipped)
	return c.Failed == 0 && c.Passed > 0
}
