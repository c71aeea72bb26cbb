package paths_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A generation that ends removes the directory that the next client is just
// about to use.
func TestDirectoryIsRemovedMeanwhile(t *testing.T) {
	base := filepath.Join(realTemp(t), "run")
	mkdir(t, base, 0o700)
	r, _, err := host(t, map[string]string{"XDG_RUNTIME_DIR": base}).Runtime()
	if err != nil {
		t.Fatal(err)
	}
	const id = "0123456789ab"
	over := make(chan struct{})
	var remover sync.WaitGroup
	remover.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = os.Remove(r.DomainPath(id))
			}
		}
	})
	for range 5000 {
		if _, err := r.Domain(id); err != nil {
			t.Error(err)
			break
		}
	}
	close(over)
	remover.Wait()
}
