// Package entries is the workspace view's operations on names: it looks them
// up and lists them, and makes, removes and renames entries.
//
// It touches no file's bytes, but for the copy by which a file moves between
// stores. It runs in the Runtime Supervisor.
package entries

import (
	"lazaret.dev/lazaret/supervisor/internal/view/internal/content"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
)

// Entries serves the names of a view.
type Entries struct {
	*resolve.View
	Content *content.Content

	lists lists
}
