// Package content is the workspace view's operations on objects: their bytes,
// attributes and extended attributes.
//
// It makes and removes no name. It runs in the Runtime Supervisor.
package content

import (
	"sync"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
)

// Content serves what is in the objects of a view.
type Content struct {
	*resolve.View

	announcing sync.Mutex // held while a change is announced to the router
}
