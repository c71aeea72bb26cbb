// Package killmatrix holds the end-to-end tests that kill the product's
// processes: each one at each fault point, and at random under load. After any
// death the next command works, nothing is left, and nothing of the user's is
// harmed. They run in a process of their own, which adopts whatever loses its
// parent, so that no leftover can hide. It is in no binary.
package killmatrix
