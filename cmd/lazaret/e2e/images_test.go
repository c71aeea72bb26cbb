package e2e_test

import (
	"archive/tar"
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"lazaret.dev/lazaret/cmd/lazaret/e2etest"
)

// Cases 38, 57 and 96: images as they are made small. Root has a name, a home and a
// shell, and a resolv.conf that leads nowhere is no obstacle.
func TestSmallImages(t *testing.T) {
	file := func(name, text string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Linkname: text}
	}
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	for name, tc := range map[string]struct {
		config v1.Config
		more   []tar.Header
		group  string
	}{
		"like alpine": {
			v1.Config{Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Cmd: []string{"/bin/sh"}},
			[]tar.Header{
				file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"),
				file("etc/group", "root:x:0:root\nbin:x:1:root\n"), file("etc/resolv.conf", "nameserver 192.0.2.1\n"),
				{Name: "root", Typeflag: tar.TypeDir, Mode: 0o700},
				{Name: "opt/suid", Typeflag: tar.TypeReg, Mode: 0o4755},
				{Name: "opt/sgid", Typeflag: tar.TypeReg, Mode: 0o2755, Uid: 33, Gid: 44},
				{Name: "opt/sticky", Typeflag: tar.TypeDir, Mode: 0o1777},
				{Name: "opt/none", Typeflag: tar.TypeReg},
			},
			"root",
		},
		"like distroless": {
			v1.Config{User: "65532:65532", WorkingDir: "/home/nonroot", Env: []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}},
			[]tar.Header{
				file("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"),
				file("etc/group", "root:x:0:\nnonroot:x:65532:\n"),
				{Name: "home/nonroot", Typeflag: tar.TypeDir, Mode: 0o700, Uid: 65532, Gid: 65532},
			},
			"root",
		},
		"no accounts, links to nowhere": {
			v1.Config{},
			[]tar.Header{
				link("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf"), link("etc/hostname", "/nowhere/at/all"), link("etc/hosts", "hosts"),
			},
			"root",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := e2etest.New(t)
			h.Config(fmt.Sprintf("[profiles.small]\nimage = %q\n", e2etest.Archive(t, e2etest.Small(t, tc.config, tc.more...))))
			defer h.Hold("")()
			for command, want := range map[string]string{
				"id -u; id -un; whoami; id -gn":        "0\nroot\nroot\n" + tc.group + "\n",
				`echo "$HOME $LANG"; pwd`:              "/root C.UTF-8\n/workspace\n",
				"touch ~/x && echo written":            "written\n",
				"grep -c ^nameserver /etc/resolv.conf": "1\n",
				"cat /etc/hostname":                    "lazaret\n",
				"grep -c localhost /etc/hosts":         "2\n",
			} {
				if out := h.Must("sh", "-c", command); out != want {
					t.Errorf("%s: %q, want %q", command, out, want)
				}
			}
			if name == "like alpine" { // case 38, in a persistent directory
				want := "4755 0:0 suid\n2755 33:44 sgid\n1777 0:0 sticky\n0 0:0 none\n"
				if out := h.Must("sh", "-c", "cd /opt; busybox stat -c '%a %u:%g %n' suid sgid sticky none"); out != want {
					t.Errorf("modes inside: %q", out)
				}
			}
			term := h.Terminal(24, 80, "run", "--quiet")
			term.Expect(`[#$] `, starts)
			term.Type("echo s=$((1+1))\r")
			term.Expect("s=2\r\n", starts)
			term.Type("\x04")
			if s := term.Status(starts); s != 0 {
				t.Errorf("the login shell: status %d: %q", s, term.Output())
			}
		})
	}
}
