package store_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/handoff"
)

// model is the document as plain values: what the store must hold after any
// sequence of calls, and which calls it must refuse.
type model struct {
	live  *store.Generation
	ended []string
}

func (m *model) participant(r store.Role) *store.Participant {
	i := slices.IndexFunc(m.live.Participants, func(p store.Participant) bool { return p.Role == r })
	if i < 0 {
		return nil
	}
	return &m.live.Participants[i]
}

func (m *model) session(id string) *store.Session {
	i := slices.IndexFunc(m.live.Sessions, func(s store.Session) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &m.live.Sessions[i]
}

func (m *model) lease(id string) *store.Lease {
	i := slices.IndexFunc(m.live.Leases, func(l store.Lease) bool { return l.PreparedID == id })
	if i < 0 {
		return nil
	}
	return &m.live.Leases[i]
}

func (m *model) clear() bool {
	g := m.live
	return !slices.ContainsFunc(g.Participants, func(p store.Participant) bool { return p.State != store.Released }) &&
		!slices.ContainsFunc(g.Leases, func(l store.Lease) bool { return !l.Released }) &&
		(g.Publication == nil || g.Publication.Withdrawn)
}

// Any sequence of calls leaves exactly the document that a plain model holds,
// across reopening; a call that the model forbids fails and changes nothing.
func TestRandomSequencesMatchTheModel(t *testing.T) {
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		n++
		dir := filepath.Join(root, string(rune('a'+n%26)), "x")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		held := rapidLock(t, dir)
		defer held.Close()
		s := rapidOpen(t, dir, held)
		defer func() { _ = s.Close() }()
		m := &model{}
		next := 0

		roles := rapid.SampledFrom([]store.Role{store.RoleAnchor, store.RoleHelper, store.RoleSandbox})
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		phases := rapid.SampledFrom([]protocol.DomainPhase{protocol.Starting, protocol.Stopping, protocol.Failed, protocol.Recovering})
		// expect runs one call and demands success exactly when the model allows.
		expect := func(t *rapid.T, allowed bool, err error) {
			t.Helper()
			if (err == nil) != allowed {
				t.Fatalf("error %v; the model allows it: %v", err, allowed)
			}
		}
		gen := func(t *rapid.T) (string, bool) {
			if m.live != nil && rapid.IntRange(0, 9).Draw(t, "stale") > 0 {
				return m.live.ID, true
			}
			if len(m.ended) > 0 {
				return m.ended[len(m.ended)-1], false
			}
			return "never", false
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				next++
				v := newGeneration("g" + string(rune('A'+next%50)) + string(rune('a'+next/50)))
				expect(t, m.live == nil, s.BeginGeneration(ctx, v))
				if m.live == nil {
					m.live = &store.Generation{New: v}
				}
			},
			"phase": func(t *rapid.T) {
				g, ok := gen(t)
				p := phases.Draw(t, "phase")
				expect(t, ok, s.SetPhase(ctx, g, p))
				if ok {
					m.live.Phase = p
				}
			},
			"intent": func(t *rapid.T) {
				g, ok := gen(t)
				r := roles.Draw(t, "role")
				var p *store.Participant
				if ok {
					p = m.participant(r)
					ok = p == nil || p.State == store.Released
				}
				expect(t, ok, s.RecordIntent(ctx, g, r))
				switch {
				case ok && p == nil:
					m.live.Participants = append(m.live.Participants, store.Participant{Role: r, State: store.Intended})
				case ok:
					*p = store.Participant{Role: r, State: store.Intended}
				}
			},
			"owned": func(t *rapid.T) {
				g, ok := gen(t)
				r := roles.Draw(t, "role")
				o := drawOwnership(t)
				var p *store.Participant
				if ok {
					p = m.participant(r)
					ok = p != nil && p.State == store.Intended
				}
				expect(t, ok, s.RecordOwned(ctx, g, r, o))
				if ok {
					p.State, p.Ownership = store.Owned, o
				}
			},
			"released": func(t *rapid.T) {
				g, ok := gen(t)
				r := roles.Draw(t, "role")
				var p *store.Participant
				if ok {
					p = m.participant(r)
					ok = p != nil && p.State != store.Released
				}
				expect(t, ok, s.RecordReleased(ctx, g, r))
				if ok {
					p.State = store.Released
				}
			},
			"publish": func(t *rapid.T) {
				g, ok := gen(t)
				ok = ok && m.live.Publication == nil
				p := store.Publication{Socket: names.Draw(t, "socket"), Inode: store.Inode{Dev: 1, Ino: rapid.Uint64().Draw(t, "ino")}}
				expect(t, ok, s.Publish(ctx, g, p))
				if ok {
					m.live.Publication, m.live.Phase = &p, protocol.Ready
				}
			},
			"withdraw": func(t *rapid.T) {
				g, ok := gen(t)
				ok = ok && m.live.Publication != nil && !m.live.Publication.Withdrawn
				p := phases.Draw(t, "phase")
				expect(t, ok, s.Withdraw(ctx, g, p))
				if ok {
					m.live.Publication.Withdrawn, m.live.Phase = true, p
				}
			},
			"session": func(t *rapid.T) {
				g, ok := gen(t)
				id := names.Draw(t, "session")
				ok = ok && m.session(id) == nil
				tty := rapid.Bool().Draw(t, "tty")
				expect(t, ok, s.AddSession(ctx, g, id, tty))
				if ok {
					m.live.Sessions = append(m.live.Sessions, store.Session{ID: id, Phase: protocol.SessionRegistered, Interactive: tty})
				}
			},
			"attach": func(t *rapid.T) {
				g, ok := gen(t)
				id := names.Draw(t, "session")
				client := drawProc(t)
				ok = ok && m.session(id) != nil && !m.session(id).Ended
				expect(t, ok, s.SetSession(ctx, g, id, protocol.SessionAttached, client))
				if ok {
					v := m.session(id)
					v.Phase = protocol.SessionAttached
					if client != nil {
						v.Client = client
					}
				}
			},
			"end session": func(t *rapid.T) {
				g, ok := gen(t)
				id := names.Draw(t, "session")
				status := rapid.Ptr(rapid.IntRange(0, 255), true).Draw(t, "status")
				ok = ok && m.session(id) != nil && !m.session(id).Ended
				expect(t, ok, s.EndSession(ctx, g, id, status))
				if ok {
					m.session(id).Ended, m.session(id).ExitStatus = true, status
				}
			},
			"lease": func(t *rapid.T) {
				g, ok := gen(t)
				id := names.Draw(t, "artifact")
				ok = ok && m.lease(id) == nil
				expect(t, ok, s.AddLease(ctx, g, id, "/"+id))
				if ok {
					m.live.Leases = append(m.live.Leases, store.Lease{PreparedID: id, Path: "/" + id})
					slices.SortFunc(m.live.Leases, func(a, b store.Lease) int { return int(a.PreparedID[0]) - int(b.PreparedID[0]) })
				}
			},
			"release": func(t *rapid.T) {
				g, ok := gen(t)
				id := names.Draw(t, "artifact")
				ok = ok && m.lease(id) != nil && !m.lease(id).Released
				expect(t, ok, s.ReleaseLease(ctx, g, id))
				if ok {
					m.lease(id).Released = true
				}
			},
			"end": func(t *rapid.T) {
				g, ok := gen(t)
				ok = ok && m.clear()
				expect(t, ok, s.EndGeneration(ctx, g, "done"))
				if ok {
					m.ended, m.live = append(m.ended, g), nil
				}
			},
			"reopen": func(t *rapid.T) {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = rapidOpen(t, dir, held)
			},
			"": func(t *rapid.T) {
				got, err := s.Current(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(m.live, got, ignoreTimes); d != "" {
					t.Fatalf("-model +store\n%s", d)
				}
				for _, id := range m.ended {
					if over, err := s.Over(ctx, id); err != nil || !over {
						t.Fatalf("Over(%s) = %v, %v", id, over, err)
					}
				}
			},
		})
	})
}

func drawProc(t *rapid.T) *handoff.Proc {
	return rapid.Ptr(rapid.Custom(func(t *rapid.T) handoff.Proc {
		return handoff.Proc{PID: rapid.IntRange(1, 1<<22).Draw(t, "pid"), Start: rapid.Uint64().Draw(t, "start"), BootID: "boot"}
	}), true).Draw(t, "process")
}

func drawOwnership(t *rapid.T) store.Ownership {
	o := store.Ownership{
		Proc:  drawProc(t),
		MntNS: rapid.Uint64().Draw(t, "mntns"), NetNS: rapid.Uint64().Draw(t, "netns"),
		PreparedID: rapid.StringN(0, 5, -1).Draw(t, "prepared"), NetworkFingerprint: rapid.StringN(0, 5, -1).Draw(t, "readiness"),
	}
	if m := rapid.MapOf(rapid.String(), rapid.Uint64()).Draw(t, "mounts"); len(m) > 0 {
		o.MountIDs = maps.Clone(m)
	}
	inode := rapid.Custom(func(t *rapid.T) claim.Identity {
		return claim.Identity{
			Dev: rapid.Uint64().Draw(t, "dev"), Ino: rapid.Uint64().Draw(t, "ino"),
			Type: rapid.Uint32().Draw(t, "type"), Born: rapid.Int64().Draw(t, "born"),
		}
	})
	if m := rapid.MapOf(rapid.String(), inode).Draw(t, "files"); len(m) > 0 {
		o.Files = m
	}
	return o
}
