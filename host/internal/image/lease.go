package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"lazaret.dev/lazaret/host/internal/image/durable"
)

// Lease says that a Domain generation uses a prepared lower.
type Lease struct {
	Domain     string
	Generation string
}

var (
	leaseDomain     = regexp.MustCompile(`^[0-9a-f]{1,64}$`)
	leaseGeneration = regexp.MustCompile(`^[0-9A-Za-z_-]{1,100}$`)
)

func (l Lease) file(dataRoot, id string) (string, error) {
	if !artifactName.MatchString(id) || !leaseDomain.MatchString(l.Domain) || !leaseGeneration.MatchString(l.Generation) {
		return "", fmt.Errorf("lease of %.100q by %.100q.%.100q is malformed", id, l.Domain, l.Generation)
	}
	return filepath.Join(preparedDir(dataRoot), id, "leases", l.Domain+"."+l.Generation), nil
}

// lockArtifact takes the lock of an artifact, making its directory if need be.
func lockArtifact(ctx context.Context, dataRoot, id string, waiting func()) (*os.File, error) {
	dir := filepath.Join(preparedDir(dataRoot), id)
	for {
		// Whoever held the lock may have removed the directory.
		if err := os.MkdirAll(filepath.Join(dir, "leases"), 0o700); err != nil {
			return nil, fmt.Errorf("create directory of prepared image: %w", err)
		}
		f, err := durable.Lock(ctx, filepath.Join(dir, "lock"), waiting)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lock prepared image: %w", err)
		}
		return f, nil
	}
}

// AcquireLease durably binds a Domain generation to a prepared lower; it must
// come before the tree is mounted. Acquiring a lease again changes nothing. An
// artifact that is not published, perhaps because it has just been removed,
// gives ErrNotPrepared: prepare it again.
func AcquireLease(ctx context.Context, dataRoot, id, domain, generation string) error {
	file, err := Lease{domain, generation}.file(dataRoot, id)
	if err != nil {
		return err
	}
	if _, err := load(dataRoot, id); err != nil {
		return err
	}
	lock, err := lockArtifact(ctx, dataRoot, id, nil)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // releases the lock
	if _, err := load(dataRoot, id); err != nil {
		return err
	}
	return durable.WriteJSON(file, struct {
		PID      int       `json:"pid"`
		Acquired time.Time `json:"acquired"`
	}{os.Getpid(), time.Now().UTC()})
}

// ReleaseLease ends a lease, after the last mount of the tree is gone. Releasing
// a lease that does not exist is no error.
func ReleaseLease(ctx context.Context, dataRoot, id, domain, generation string) error {
	file, err := Lease{domain, generation}.file(dataRoot, id)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := lockArtifact(ctx, dataRoot, id, nil)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // releases the lock
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("release lease: %w", err)
	}
	return durable.SyncDir(filepath.Dir(file))
}

// leases lists the leases of an artifact. A file that is no lease is one that
// cannot be judged, and counts.
func leases(dataRoot, id string) ([]Lease, error) {
	es, err := os.ReadDir(filepath.Join(preparedDir(dataRoot), id, "leases"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	var ls []Lease
	for _, e := range es {
		if strings.HasPrefix(e.Name(), durable.TempPrefix) {
			continue // half-written: its writer never went on to mount
		}
		domain, generation, _ := strings.Cut(e.Name(), ".")
		ls = append(ls, Lease{domain, generation})
	}
	return ls, nil
}
