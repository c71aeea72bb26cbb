package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil, err
	}
	return e, nil
}
