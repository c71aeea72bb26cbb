package paths

import "golang.org/x/sys/unix"

// kernelFS are the filesystems that show the host itself, by magic number
// (statfs(2)): its processes, devices and settings.
var kernelFS = map[int64]string{
	unix.PROC_SUPER_MAGIC:    "proc",
	unix.SYSFS_MAGIC:         "sysfs",
	unix.DEVPTS_SUPER_MAGIC:  "devpts",
	unix.CGROUP_SUPER_MAGIC:  "cgroup",
	unix.CGROUP2_SUPER_MAGIC: "cgroup2",
	unix.DEBUGFS_MAGIC:       "debugfs",
	unix.TRACEFS_MAGIC:       "tracefs",
	unix.SECURITYFS_MAGIC:    "securityfs",
	unix.SELINUX_MAGIC:       "selinuxfs",
	unix.BPF_FS_MAGIC:        "bpf",
	unix.EFIVARFS_MAGIC:      "efivarfs",
	unix.PSTOREFS_MAGIC:      "pstore",
	unix.BINFMTFS_MAGIC:      "binfmt_misc",
	unix.NSFS_MAGIC:          "nsfs",
	0x62656570:               "configfs",
	0x19800202:               "mqueue",
}

// KernelPlace reports whether a canonical path is one of the kernel's
// interfaces instead of a place for files, and which. A sandbox must see its own
// kernel's, never the host's (SR-1).
func KernelPlace(path string) (fs string, is bool) {
	// Where devices are is a tmpfs like any other; /dev/shm is a place for files.
	if Within("/dev", path) && !Within("/dev/shm", path) {
		return "devtmpfs", true
	}
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return "", false // whoever opens it will say why
	}
	fs, is = kernelFS[int64(st.Type)&0xffffffff] // signed on some architectures
	return fs, is
}
