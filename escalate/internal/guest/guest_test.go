package guest

import "testing"

// A process chooses its own name, and must not choose its state or session by it.
func TestParseStat(t *testing.T) {
	for in, want := range map[string]struct {
		state   byte
		session int
		ok      bool
	}{
		"7 (sh) S 1 7 42 0 -1":                   {'S', 42, true},
		"7 (x) Z 1 1 1 (y) R 1 7 43 0":           {'R', 43, true},
		"7 (a\nb c) T 1 7 44":                    {'T', 44, true},
		"7 (sh) S 1 7":                           {0, 0, false},
		"7 sh S 1 7 42":                          {0, 0, false},
		"":                                       {0, 0, false},
		"7 (sh) SS 1 7 42":                       {0, 0, false},
		"7 (sh) S 1 7 99999999999999999999999 0": {'S', 0, false},
	} {
		p, ok := parseStat([]byte(in))
		if ok != want.ok || ok && (p.state != want.state || p.session != want.session) {
			t.Errorf("%q: %+v %t", in, p, ok)
		}
	}
}

func TestPasswdShell(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\nbroken:x:5\nd:x:1000:1000::/home/d:/usr/bin/zsh\n" +
		"svc:x:7:7::/:/usr/sbin/nologin\nno:x:8:8::/:\nrel:x:9:9::/:bin/sh\nlast:x:10:10::/:/bin/dash"
	for uid, want := range map[int]string{0: "/bin/bash", 1000: "/usr/bin/zsh", 7: "", 8: "", 9: "", 5: "", 10: "/bin/dash", 11: ""} {
		if got := passwdShell(passwd, uid); got != want {
			t.Errorf("uid %d: %q, want %q", uid, got, want)
		}
	}
}
