package netns

import "lazaret.dev/lazaret/protocol/netpolicy"

// LookUp is the part of Observe that asks the kernel what it would do.
func LookUp(p *netpolicy.Policy) error { return outerSide(p).lookUp() }
