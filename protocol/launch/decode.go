package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// unmarshalStrict decodes exactly one JSON value without unknown fields.
func unmarshalStrict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("trailing data")
	}
	return nil
}
