// Command pack turns a root filesystem, read as a tar stream from standard
// input, into an OCI image layout with the reference "base". It owns the form
// of the base image and must not decide its contents. It runs on the
// developer's machine while the project is built; it is no part of Lazaret.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pack DIRECTORY <ROOT.TAR")
		os.Exit(2)
	}
	if err := Pack(os.Stdin, os.Args[1], runtime.GOARCH); err != nil {
		fmt.Fprintf(os.Stderr, "lazaret: error: cannot pack the base image: %v\n", err)
		os.Exit(1)
	}
}
