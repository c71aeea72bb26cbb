package recovery

// For tests of what is not reached from outside.
var (
	Alive        = alive
	KillExactly  = killExactly
	ErrNoProcess = errNoProcess
)
