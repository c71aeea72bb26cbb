package host

import (
	"context"
	"os"

	"lazaret.dev/lazaret/host/internal/coordinator"
	"lazaret.dev/lazaret/host/internal/spawn"
	"lazaret.dev/lazaret/host/internal/unpack"
)

// Programs are the mains of the processes that Lazaret starts of its own
// binary, by the hidden command that each is. Each has reported its error.
func Programs() map[string]func() error {
	return map[string]func() error{
		spawn.CoordinatorCommand: coordinator.Main,
		unpack.Program:           func() error { return unpack.Serve(context.Background(), os.Stdin, os.Stdout) },
		unpack.RemoveProgram:     func() error { return unpack.RemoveTree(os.Stdin, os.Stdout) },
	}
}
