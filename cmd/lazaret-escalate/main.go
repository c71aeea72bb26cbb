// Command lazaret-escalate is the client in the sandbox: an agent asks the
// host to run a command, and Lazaret itself runs its helpers. Everything is in
// package escalate.
package main

import (
	"os"

	"lazaret.dev/lazaret/escalate"
)

func main() { os.Exit(escalate.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
