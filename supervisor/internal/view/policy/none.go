package policy

// AllShared is the router of a workspace without Git.
type AllShared struct{}

// Place is Shared.
func (AllShared) Place(string, bool) Place { return Shared }

// Watches is false.
func (AllShared) Watches(string, Entry) bool { return false }

// Begin allows everything.
func (AllShared) Begin(string) (Change, error) { return NoChange{}, nil }

// Linking allows everything.
func (AllShared) Linking(string) error { return nil }

// Publishing allows everything.
func (AllShared) Publishing(string) (Change, error) { return NoChange{}, nil }

// Renaming allows everything.
func (AllShared) Renaming(string, string) (Change, error) { return NoChange{}, nil }

// Changed affects nothing.
func (AllShared) Changed(string, Entry) ([]string, error) { return nil, nil }

// NoChange is a change that affects nothing.
type NoChange struct{}

// End affects nothing.
func (NoChange) End(bool) ([]string, error) { return nil, nil }

// Unguarded is the guard of a workspace without Git.
type Unguarded struct{}

// Classify finds nothing to guard.
func (Unguarded) Classify(string) Verdict { return Verdict{} }

// Check allows everything.
func (Unguarded) Check(Op) (bool, error) { return false, nil }

// Publish replaces.
func (Unguarded) Publish(string, string, Content, *Content) (Outcome, error) { return Replace, nil }

// Writing notes nothing.
func (Unguarded) Writing(string) {}

// Protected is false.
func (Unguarded) Protected(uint64, uint64) bool { return false }

// Alias refuses nothing.
func (Unguarded) Alias(OpKind, string) error { return nil }

// Changed notes nothing.
func (Unguarded) Changed(string) {}

// Forget notes nothing.
func (Unguarded) Forget(string) {}
