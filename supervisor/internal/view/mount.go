package view

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fsmount"
)

// Mount makes the view's filesystem and gives it its place over the directory
// target. It returns the descriptor to serve it by, close-on-exec and the
// caller's: whoever else held it would keep a mount alive that nobody serves.
// Until [Start] has been called, every access to the mount waits.
func Mount(target int) (fuseFD int, err error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &DeviceError{err}
	}
	m, err := fsmount.New("fuse", []fsmount.Option{
		{Key: "source", Value: "lazaret"},
		{Key: "subtype", Value: "lazaret"},
		{Key: "fd", Value: strconv.Itoa(fd)},
		{Key: "rootmode", Value: "40000"},
		{Key: "user_id", Value: "0"},
		{Key: "group_id", Value: "0"},
		{Key: "max_read", Value: strconv.Itoa(MaxRead)},
		// The sandbox's processes are in a user namespace of their own.
		{Key: "allow_other"},
		{Key: "default_permissions"},
	}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err == nil {
		err = fsmount.Attach(m, target)
		_ = unix.Close(m)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("mount the workspace view: %w", err)
	}
	return fd, nil
}

// DeviceError reports that there is no usable FUSE device.
type DeviceError struct{ Err error }

func (e *DeviceError) Error() string {
	return (&os.PathError{Op: "open", Path: "/dev/fuse", Err: e.Err}).Error()
}

func (e *DeviceError) Unwrap() error { return e.Err }

// Hint says what usually is wrong.
func (e *DeviceError) Hint() string {
	return "the workspace is served through FUSE: load the module (modprobe fuse) and make /dev/fuse accessible to you (lazaret doctor)"
}
