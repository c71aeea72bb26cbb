package generation

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Holder is what the holder of a Domain lock says about itself in the lock
// file. Others read it without the lock, so that it proves nothing: it is for
// people who wait, and a hint where the Domain may be published.
type Holder struct {
	PID        int
	Since      time.Time
	RuntimeDir string // the Domain's; empty in a file that says nothing of it
}

// maxHolder bounds the text, in bytes.
const maxHolder = 8 << 10

// NoteHolder writes the holder into the lock file.
func NoteHolder(lock *os.File, h Holder) error {
	text := fmt.Sprintf("%d %s %q\n", h.PID, h.Since.Format(time.RFC3339), h.RuntimeDir)
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if _, err := lock.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// ReadHolder reads what NoteHolder wrote. What cannot be read is left out.
func ReadHolder(lock *os.File) Holder {
	b := make([]byte, maxHolder)
	n, _ := lock.ReadAt(b, 0) // a short file is the rule
	line, _, _ := strings.Cut(string(b[:n]), "\n")
	pid, rest, _ := strings.Cut(line, " ")
	since, dir, _ := strings.Cut(rest, " ")
	var h Holder
	var err error
	if h.PID, err = strconv.Atoi(pid); err != nil {
		return Holder{}
	}
	if h.Since, err = time.Parse(time.RFC3339, since); err != nil {
		return Holder{PID: h.PID}
	}
	if dir, err = strconv.Unquote(dir); err == nil {
		h.RuntimeDir = dir
	}
	return h
}

// String names the holder for people.
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "another process"
	case h.Since.IsZero():
		return fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("process %d since %s", h.PID, h.Since.Format(time.RFC3339))
}
