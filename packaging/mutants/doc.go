// Package mutants proves that the tests of the protocol would miss any of its
// guards: it drops one condition of the state machine after the other and wants
// the explorer, a liveness property or a test of single events to fail.
//
// It holds tests only. They need the go command and the checkout, and build
// what they run outside of it.
package mutants
