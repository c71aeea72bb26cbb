package gitodb

// Patch applies a delta.
func Patch(base, delta []byte) ([]byte, error) { return patch(base, delta) }

// Unpack reads the object at a place of a pack without an index.
func Unpack(pack File, at int64) error {
	_, err := unpack(pack, pack, at, 20)
	return err
}
