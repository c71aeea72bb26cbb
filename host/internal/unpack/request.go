package unpack

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// Version is the version of the unpacker: of the conversation, and of the tree
// that it makes of given layers. It is part of every prepared-artifact ID, so a
// change of the rules in filter.go needs a new one.
const Version = 1

// The names of the programs, as subcommands of lazaret.
const (
	Program       = "_unpack"
	RemoveProgram = "_rmtree"
)

// MaxLayers bounds the layers of one request. Each is a descriptor, and no
// runtime of the time makes images of more than 127.
const MaxLayers = 200

const (
	maxRequest    = 1 << 20
	maxEvent      = 64 << 10
	maxLayerBytes = 256 << 30
	maxEntries    = 5 << 20 // per layer; the applier remembers each
	maxNotes      = 200     // reported one by one; the rest is counted
)

// Mapping is how the ids of the image's owners are kept.
type Mapping string

// The mappings.
const (
	MappingFull   Mapping = "full"   // owners are kept, by the subordinate ids
	MappingSingle Mapping = "single" // one id: everything belongs to 0
)

// UnmarshalText refuses unknown mappings.
func (m *Mapping) UnmarshalText(b []byte) error {
	switch v := Mapping(b); v {
	case MappingFull, MappingSingle:
		*m = v
		return nil
	}
	return fmt.Errorf("unknown id mapping %q", b)
}

// Request tells Serve what to do. The descriptors are inherited.
type Request struct {
	Version int     `json:"version"`
	Mapping Mapping `json:"mapping"`
	Target  int     `json:"target"` // descriptor of an empty directory
	Layers  []Layer `json:"layers"` // lowest first
}

// Layer is one layer: Size bytes at Offset of a regular file.
type Layer struct {
	FD     int    `json:"fd"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
	Digest string `json:"digest,omitempty"` // of those bytes; empty where no manifest names one
	DiffID string `json:"diff_id"`          // of the unpacked stream
}

// RemoveRequest tells RemoveTree what to remove: the entry Name of the
// directory Parent, with all that is below.
type RemoveRequest struct {
	Version int    `json:"version"`
	Parent  int    `json:"parent"`
	Name    string `json:"name"`
}

// EventKind names an Event.
type EventKind string

// The kinds of events. Each conversation ends with exactly one EventDone or
// EventFailed.
const (
	EventProgress EventKind = "progress"
	EventNote     EventKind = "note"
	EventDone     EventKind = "done"
	EventFailed   EventKind = "failed"
)

// UnmarshalText refuses unknown kinds.
func (k *EventKind) UnmarshalText(b []byte) error {
	switch v := EventKind(b); v {
	case EventProgress, EventNote, EventDone, EventFailed:
		*k = v
		return nil
	}
	return fmt.Errorf("unknown event %q", b)
}

// ErrorCode classifies a failure.
type ErrorCode string

// The codes of failures.
const (
	ErrDiskFull ErrorCode = "disk_full"
	ErrDigest   ErrorCode = "digest"  // the layer's bytes are not those of the manifest
	ErrDiffID   ErrorCode = "diff_id" // the unpacked bytes are not those of the configuration
	ErrLayer    ErrorCode = "layer"   // the layer is broken or hostile
	ErrOther    ErrorCode = "other"
)

// UnmarshalText refuses unknown codes.
func (c *ErrorCode) UnmarshalText(b []byte) error {
	switch v := ErrorCode(b); v {
	case ErrDiskFull, ErrDigest, ErrDiffID, ErrLayer, ErrOther:
		*c = v
		return nil
	}
	return fmt.Errorf("unknown error code %q", b)
}

// Event is one line that a program reports. All text is printable ASCII.
type Event struct {
	Kind EventKind `json:"kind"`

	Layer int   `json:"layer,omitempty"` // counted from 1; progress and notes
	Done  int64 `json:"done,omitempty"`  // bytes of the layer as stored
	Total int64 `json:"total,omitempty"`

	Entry string `json:"entry,omitempty"` // quoted; notes
	What  string `json:"what,omitempty"`

	Notes   int       `json:"notes,omitempty"` // done: all notes, the unreported ones included
	Bytes   int64     `json:"bytes,omitempty"` // done: of the regular files, those of lower layers included
	Code    ErrorCode `json:"code,omitempty"`  // failed
	Message string    `json:"message,omitempty"`
}

// DecodeEvent reads one line. The program that wrote it has parsed a hostile
// image, so the line is bounded and text is made printable again.
func DecodeEvent(line []byte) (Event, error) {
	var e Event
	if len(line) > maxEvent {
		return Event{}, fmt.Errorf("decode event: line of %d bytes", len(line))
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	if e.Kind == "" || (e.Kind == EventFailed && e.Code == "") {
		return Event{}, fmt.Errorf("decode event: incomplete")
	}
	e.Entry, e.What, e.Message = printable(e.Entry), printable(e.What), printable(e.Message)
	return e, nil
}

func (r *Request) validate() error {
	if r.Version != Version {
		return fmt.Errorf("unpack request of version %d, want %d", r.Version, Version)
	}
	if r.Mapping == "" {
		return fmt.Errorf("unpack request without a mapping")
	}
	if r.Target < 3 || len(r.Layers) > MaxLayers {
		return fmt.Errorf("unpack request with target %d and %d layers", r.Target, len(r.Layers))
	}
	digest := regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	for i, l := range r.Layers {
		if l.FD < 3 || l.Offset < 0 || l.Size < 0 || !digest.MatchString(l.DiffID) ||
			(l.Digest != "" && !digest.MatchString(l.Digest)) {
			return fmt.Errorf("unpack request: layer %d is malformed", i+1)
		}
	}
	return nil
}
