// Command summary runs `go test -json`, prints what a person wants to see of
// it and ends with the line "N passed, N failed, N skipped". It owns the form
// of the report and must not decide which tests run. It runs on the machine of
// whoever tests Lazaret; it is no part of it.
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: summary COMMAND [ARG...]")
		os.Exit(2)
	}
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lazaret: error: cannot run the tests: %v\n", err)
		os.Exit(1)
	}
	counts := Report(os.Stdout, out)
	err = cmd.Wait()
	if counts.Finish(os.Stdout, err) {
		return
	}
	os.Exit(1)
}
