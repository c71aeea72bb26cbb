// Command lazaret-supervisor is the Runtime Supervisor of one Domain
// generation. The Host Coordinator starts it; see package supervisor.
package main

import (
	"os"
	"runtime"

	"lazaret.dev/lazaret/supervisor"
)

func main() {
	// Never unlocked: children's parent-death signals are bound to this thread.
	runtime.LockOSThread()
	os.Exit(supervisor.Main(os.Args[1:], os.Stderr))
}
