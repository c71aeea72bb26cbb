//go:build explore

package protocol_test

import "testing"

// What TLC prints for the same fixture with LazaretFull.cfg: "18950757 states
// generated, 1667101 distinct states found".
const statesFull = 1667101

// TestExploreFull visits every state that two sessions with three requests can
// reach in two generations, either of which may die, as may the recovery
// between them. It takes minutes.
func TestExploreFull(t *testing.T) { testExplore(t, full(), statesFull) }
