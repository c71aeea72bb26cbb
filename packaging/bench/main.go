// Command bench compares Lazaret with bare runsc in one run: starting, joining,
// memory. It owns the measurements and must not judge them beyond the goals it
// prints. It runs as an ordinary user on the machine that is measured; it is no
// part of Lazaret.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	n := flag.Int("n", 15, "measurements of each kind")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: bench [-n N] BUILD")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 || *n < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *n); err != nil {
		fmt.Fprintf(os.Stderr, "lazaret: error: cannot measure: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, tree string, n int) error {
	tree, err := filepath.Abs(tree)
	if err != nil {
		return err
	}
	state := filepath.Join(tree, "bench")
	b, err := newBare(ctx, tree, state)
	if err != nil {
		return fmt.Errorf("bare runsc: %w", err)
	}
	l, err := newLazaret(tree, state)
	if err != nil {
		return err
	}
	t, err := measure(ctx, l, b, n)
	if err != nil {
		return err
	}
	return t.print(os.Stdout)
}
