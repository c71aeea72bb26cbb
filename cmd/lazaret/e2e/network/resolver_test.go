package network_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
	"lazaret.dev/lazaret/packaging/testnet/nettest"
)

// Issue 2, must show 5: names are resolved whatever the host's resolver is. The
// test runs once with each kind. Case 21.
func TestResolver(t *testing.T) {
	n, h := world(t)
	switch kind := n.Resolver(); kind {
	case "loopback", "plain", "link", "link-out":
		r := h.Lazaret("", "run", "--", "sh", "-c", "grep nameserver /etc/resolv.conf; getent hosts "+nettest.AllowName)
		if f := strings.Fields(r.Stdout); r.Status != 0 || len(f) != 4 || f[1] != "10.0.2.3" || f[2] != nettest.Public || f[3] != nettest.AllowName {
			t.Errorf("%s: %s", kind, describe(r))
		}
		if strings.Contains(r.Stderr, "offline") {
			t.Errorf("%s: %s", kind, r.Stderr)
		}
	case "none", "ipv6":
		// Published, with one line that says so.
		r := h.Lazaret("", "run", "--", "echo", "up")
		why := map[string]string{"none": "names no nameserver", "ipv6": "2001:db8::53"}[kind]
		if r.Status != 0 || r.Stdout != "up\n" || strings.Count(r.Stderr, "offline") != 1 || !strings.Contains(r.Stderr, why) {
			t.Errorf("%s: %s", kind, describe(r))
		}
	default:
		t.Fatalf("no test of the resolver kind %q", kind)
	}
	but := []string{}
	if n.Resolver() == "plain" {
		but = append(but, nettest.Private19) // where slirp4netns asks
		if n.Counts(t)["dns "+nettest.Private19+" "+nettest.AllowName+"."] == 0 {
			t.Error("the host's resolver was not asked")
		}
	}
	untouched(t, n.Counts(t), but...)
}

// A resolver that is the router's own address answers, while the router itself
// stays out of reach: the program inside speaks to slirp4netns alone.
func TestResolverIsNotTheRouter(t *testing.T) {
	n, h := world(t)
	if n.Resolver() != "plain" {
		return
	}
	if got := attack(t, h, nettest.Private19)[nettest.Private19]; len(got) > 0 {
		t.Errorf("%s was reached by %v", nettest.Private19, got)
	}
	c := n.Counts(t)
	for key := range c {
		if strings.HasSuffix(key, nettest.Private19+":9999") {
			t.Errorf("%s", key)
		}
	}
}

// What the host's resolv.conf becomes while a Domain runs is followed, since
// laptops move. Case 57.
func TestResolverChanges(t *testing.T) {
	n, h := world(t)
	if n.Resolver() != "link" {
		return
	}
	before, err := os.ReadFile(n.ResolvConf())
	if err != nil {
		t.Fatal(err)
	}
	// By rename, as those do it who manage the file.
	replace := func(text []byte) {
		t.Helper()
		fresh := n.ResolvConf() + ".new"
		if err := os.WriteFile(fresh, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fresh, n.ResolvConf()); err != nil {
			t.Fatal(err)
		}
	}
	defer replace(before)
	release := h.Hold("true")
	defer release()
	replace([]byte("nameserver 203.0.113.53\n"))
	n.Reset(t)
	e2etest.Eventually(t, 5*time.Second, func() bool {
		h.Must("getent", "hosts", nettest.AllowName)
		return n.Counts(t)["dns 203.0.113.53 "+nettest.AllowName+"."] > 0
	}, func() string { return "the new resolver is not asked" })
}
