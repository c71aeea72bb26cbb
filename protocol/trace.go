package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// UnmarshalEvent reads an event back from its name and its JSON encoding, as a
// coordinator's log holds them, so that what it did can be replayed through
// Next. It refuses unknown events, unknown fields and unknown values.
func UnmarshalEvent(name string, b []byte) (Event, error) {
	decode := map[string]func([]byte) (Event, error){
		"Start":             decodeEvent[Start],
		"SupervisorStarted": decodeEvent[SupervisorStarted],
		"Leased":            decodeEvent[Leased],
		"AnchorMounted":     decodeEvent[AnchorMounted],
		"HelperStarted":     decodeEvent[HelperStarted],
		"NetworkReady":      decodeEvent[NetworkReady],
		"SandboxStarted":    decodeEvent[SandboxStarted],
		"TrustIssued":       decodeEvent[TrustIssued],
		"PolicyVerified":    decodeEvent[PolicyVerified],
		"Published":         decodeEvent[Published],
		"IdleExpired":       decodeEvent[IdleExpired],
		"StopRequested":     decodeEvent[StopRequested],
		"Lost":              decodeEvent[Lost],
		"ComponentStopped":  decodeEvent[ComponentStopped],
		"SupervisorGone":    decodeEvent[SupervisorGone],
		"CoordinatorLost":   decodeEvent[CoordinatorLost],
		"Recover":           decodeEvent[Recover],
		"Compared":          decodeEvent[Compared],
		"Cleaned":           decodeEvent[Cleaned],
		"LeaseReleased":     decodeEvent[LeaseReleased],
		"Register":          decodeEvent[Register],
		"Attached":          decodeEvent[Attached],
		"Closed":            decodeEvent[Closed],
		"Ended":             decodeEvent[Ended],
		"Submitted":         decodeEvent[Submitted],
		"Asked":             decodeEvent[Asked],
		"Approved":          decodeEvent[Approved],
		"Denied":            decodeEvent[Denied],
		"TimedOut":          decodeEvent[TimedOut],
		"Cancelled":         decodeEvent[Cancelled],
		"HostStarted":       decodeEvent[HostStarted],
		"HostEnded":         decodeEvent[HostEnded],
		"HostFailed":        decodeEvent[HostFailed],
		"Delivered":         decodeEvent[Delivered],
	}[name]
	if decode == nil {
		return nil, fmt.Errorf("unknown event %q", name)
	}
	e, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("decode event %s: %w", name, err)
	}
	return e, nil
}

func decodeEvent[T Event](b []byte) (Event, error) {
	var e T
	err := decodeStrict(b, &e)
	return e, err
}

// UnmarshalRecord reads back what a dead generation has left on record, as a
// coordinator's log holds it, so that its recovery can be replayed from
// Left(record). It refuses unknown fields, unknown roles and unknown intents,
// and a role that is being cleared away: that is no part of a record that
// nobody works on.
func UnmarshalRecord(b []byte) (Record, error) {
	var r Record
	if err := decodeStrict(b, &r); err != nil {
		return Record{}, fmt.Errorf("decode record: %w", err)
	}
	if r.Generation == "" {
		return Record{}, errors.New("decode record: it names no generation")
	}
	for role, i := range r.Intents {
		if i != Intended && i != Owned {
			return Record{}, fmt.Errorf("decode record: the %s is %q", role, i)
		}
	}
	return r, nil
}

// decodeStrict reads exactly one value without unknown fields.
func decodeStrict(b []byte, v any) error {
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
