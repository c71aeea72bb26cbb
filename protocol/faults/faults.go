// Package faults holds the fault points: places in the product at which a test
// can hold a process, to kill something there, and requests of tests for other
// faults.
//
// In an ordinary build there are none: Point is empty, and not even its names
// are in the binary. Under the build tag "faults" a test asks by files in the
// directory "faults" of the installation whose binary runs, which every process
// finds, whatever its environment and its namespaces:
//
//	test                                    process at Point("NAME")
//	 │ faults/NAME, holding a word           │
//	 │                                       │ faults/NAME.WORD, holding its pid
//	 │ kills, or not                         ⋮ waits while faults/NAME holds WORD
//	 │ removes faults/NAME ────────────────► │ goes on
//
// The first process that comes to a point is the only one that waits there. A
// point's name is the scenario in which it is reached, the process that reaches
// it, and the step: "start.hc.published". The package decides nothing and runs
// in every process but those in the sandbox.
package faults
