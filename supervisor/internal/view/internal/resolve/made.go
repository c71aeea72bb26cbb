package resolve

import "sync"

// maxMade bounds how many names are remembered. Beyond it a name counts as the
// host's, which only takes rights away.
const maxMade = 1 << 17

// Made are the names on the host that came into being through the view.
type Made struct {
	mu    sync.Mutex
	names map[string]struct{}
}

// Add notes a name.
func (m *Made) Add(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = map[string]struct{}{}
	}
	if len(m.names) < maxMade {
		m.names[path] = struct{}{}
	}
}

// Has tells whether a name was noted.
func (m *Made) Has(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.names[path]
	return ok
}

// Remove forgets a name.
func (m *Made) Remove(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, path)
}
