// Package network holds the end-to-end tests of the network policy, which run
// in the test internet: packaging/test/run sees by their imports that they want
// it. It is in no binary.
package network
