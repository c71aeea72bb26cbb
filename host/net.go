package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"lazaret.dev/lazaret/host/internal/netpolicy"
	"lazaret.dev/lazaret/host/internal/plan"
	"lazaret.dev/lazaret/host/internal/proof"
	"lazaret.dev/lazaret/host/internal/resolve"
	"lazaret.dev/lazaret/protocol/probe"
)

// derive derives a profile's network policy on this host, now.
func derive(configFile, name string) (*netpolicy.Derived, error) {
	cfg, err := resolve.Load(configFile)
	if err != nil {
		return nil, err
	}
	if name, err = cfg.Select(name); err != nil {
		return nil, err
	}
	prefixes, err := cfg.Network(name)
	if err != nil {
		return nil, err
	}
	facts, err := netpolicy.Gather(netpolicy.Machine{})
	if err != nil {
		return nil, err
	}
	return netpolicy.Derive(plan.NetworkRules(name, prefixes), facts)
}

// NetShow writes the derived network policy of a profile; an empty name is the
// default one.
func NetShow(configFile, name string, w io.Writer, asJSON bool) error {
	d, err := derive(configFile, name)
	if err != nil {
		return err
	}
	if asJSON {
		return d.WriteJSON(w)
	}
	return d.WriteText(w)
}

// netFinding is one line of NetTest's result.
type netFinding struct {
	Address netip.Addr    `json:"address"`
	Verdict probe.Verdict `json:"verdict"`
}

// netResult is NetTest's result.
type netResult struct {
	Holds    bool         `json:"holds"`
	Denied   []netFinding `json:"denied"`
	Offline  bool         `json:"offline"`
	Resolver bool         `json:"resolver"`
}

// NetTest proves a profile's policy from inside the sandbox of the current
// project, which it starts or joins, and writes what it found. It returns the
// command's exit status.
func NetTest(ctx context.Context, configFile, name string, w io.Writer, asJSON bool, ui UI) (int, error) {
	d, err := derive(configFile, name)
	if err != nil {
		return 0, err
	}
	req := proof.Request(&d.Policy)
	res, err := probeInside(ctx, configFile, name, req, ui)
	if err != nil {
		return 0, err
	}
	judged := proof.Judge(&d.Policy, req, res)
	out := netResult{Holds: judged == nil, Offline: d.Policy.Offline, Resolver: res.DNSOK, Denied: []netFinding{}}
	for _, f := range res.Denied {
		out.Denied = append(out.Denied, netFinding{Address: f.Addr.Addr(), Verdict: f.Verdict})
	}
	if err := out.write(w, asJSON); err != nil {
		return 0, err
	}
	if judged != nil {
		ui.Notice(judged.Error())
		return 1, nil
	}
	return 0, nil
}

func (r *netResult) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	var b bytes.Buffer
	for _, f := range r.Denied {
		fmt.Fprintf(&b, "%-15s  %s\n", f.Address, f.Verdict)
	}
	switch {
	case r.Offline:
		b.WriteString("resolver         not asked: the host is offline\n")
	case r.Resolver:
		b.WriteString("resolver         answers\n")
	default:
		b.WriteString("resolver         does not answer\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// probeInside runs the prober as an ordinary session.
func probeInside(ctx context.Context, configFile, name string, req probe.Request, ui UI) (*probe.Result, error) {
	in, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode probe request: %w", err)
	}
	stdin, feed, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer stdin.Close()
	defer feed.Close()
	read, stdout, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer read.Close()
	defer stdout.Close()

	go func() {
		_, _ = feed.Write(in) // a prober that does not read answers nothing either
		_ = feed.Close()
	}()
	result := make(chan *probe.Result, 1)
	failed := make(chan error, 1)
	go func() {
		res, err := probe.DecodeResult(read)
		if err != nil {
			_, _ = io.Copy(io.Discard, read) // let the writer come to its end
			failed <- err
			return
		}
		result <- res
	}()
	status, err := Run(ctx, RunOptions{
		ConfigFile: configFile, Profile: name, TTY: TTYOff, Command: proof.Command(),
		Stdin: stdin, Stdout: stdout, Stderr: os.Stderr, UI: ui,
	})
	_ = stdout.Close()
	if err != nil {
		return nil, err
	}
	if status != 0 {
		return nil, errors.New("the prober failed in the sandbox")
	}
	select {
	case res := <-result:
		return res, nil
	case err := <-failed:
		return nil, err
	}
}
