# Tries every way to change files and directories that may not be changed.
#
#   assault.py files NAME...        protected files, there or not
#   assault.py directories NAME...  protected directories
#   assault.py races SECONDS        renames against opens, and births in pieces
#
# Prints what went through. What is written holds the word EVIL.
import ctypes, mmap, os, stat, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
AT = -100
os.chdir("/workspace")
os.umask(0)
counter = 0


def fresh(text=b"[core]\n\tfsmonitor = EVIL\n"):
    global counter
    counter += 1
    name = "scratch/f%d" % counter
    with open(name, "wb") as f:
        f.write(text)
    return name


def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))


def put(name, flags):
    fd = os.open(name, flags, 0o755)
    try:
        os.write(fd, b"EVIL\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def reopened(name):
    fd = os.open(name, os.O_RDONLY)
    try:
        put("/proc/self/fd/%d" % fd, os.O_WRONLY)
    finally:
        os.close(fd)


def mapped(name):
    fd = os.open(name, os.O_RDWR)
    try:
        m = mmap.mmap(fd, os.fstat(fd).st_size)
        m[:4] = b"EVIL"
        m.flush()
    finally:
        os.close(fd)


def with_fd(name, use, flags=os.O_RDWR):
    fd = os.open(name, flags)
    try:
        use(fd)
    finally:
        os.close(fd)


def linked_anonymous(name):
    fd = os.open(os.path.dirname(name) or ".", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(fd, b"EVIL\n")
    call("linkat", AT, b"/proc/self/fd/%d" % fd, AT, name.encode(), 0x400)


def copied_range(name):
    with open(fresh(), "rb") as source:
        with_fd(name, lambda fd: os.copy_file_range(source.fileno(), fd, 20, 0, 0))


def sent(name):
    with open(fresh(), "rb") as source:
        with_fd(name, lambda fd: os.sendfile(fd, source.fileno(), 0, 20))


def through_own_link(name):
    link = "scratch/l%d" % counter
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink("../" + name, link)
    put(link, os.O_WRONLY | os.O_CREAT)


def through_hard_link(name):
    alias = "scratch/h%d" % time.monotonic_ns()
    os.link(name, alias)
    put(alias, os.O_WRONLY)


def through_directory(name):
    fd = os.open(os.path.dirname(name) or ".", os.O_RDONLY)
    try:
        put("/proc/self/fd/%d/%s" % (fd, os.path.basename(name)), os.O_WRONLY | os.O_CREAT)
    finally:
        os.close(fd)


def through_bind_mount(name):
    os.makedirs("/tmp/bound", exist_ok=True)
    call("mount", b"/workspace", b"/tmp/bound", None, 4096, None)
    try:
        put("/tmp/bound/" + name, os.O_WRONLY | os.O_CREAT)
    finally:
        call("umount", b"/tmp/bound")


def lock_and_rename(name):
    with open(name + ".lock", "xb") as f:
        f.write(b"EVIL\n")
    try:
        os.rename(name + ".lock", name)
    except OSError:
        try:
            os.unlink(name + ".lock")
        except OSError:
            pass
        raise


def replaced(name):
    os.unlink(name)
    put(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def child(name):
    p = subprocess.run(["sh", "-c", 'echo EVIL >>"$1"', "sh", name], stderr=subprocess.DEVNULL, check=False)
    if p.returncode:
        raise OSError(p.returncode, "refused")


on_files = [
    ("written", lambda n: put(n, os.O_WRONLY | os.O_CREAT)),
    ("appended", lambda n: put(n, os.O_WRONLY | os.O_CREAT | os.O_APPEND)),
    ("rewritten", lambda n: put(n, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)),
    ("made anew", lambda n: put(n, os.O_WRONLY | os.O_CREAT | os.O_EXCL)),
    ("by a child", child),
    ("truncated", lambda n: os.truncate(n, 0)),
    ("grown", lambda n: os.truncate(n, 1 << 20)),
    ("truncated by handle", lambda n: with_fd(n, lambda fd: os.ftruncate(fd, 0))),
    ("allocated", lambda n: with_fd(n, lambda fd: os.posix_fallocate(fd, 0, 1 << 16))),
    ("punched", lambda n: with_fd(n, lambda fd: call("fallocate", fd, 3, ctypes.c_long(0), ctypes.c_long(8)))),
    ("copied into", copied_range),
    ("sent into", sent),
    ("mapped", mapped),
    ("reopened", reopened),
    ("through a link", through_own_link),
    ("through a hard link", through_hard_link),
    ("through a directory's handle", through_directory),
    ("through /proc/self/cwd", lambda n: put("/proc/self/cwd/" + n, os.O_WRONLY | os.O_CREAT)),
    ("through /proc/self/root", lambda n: put("/proc/self/root/workspace/" + n, os.O_WRONLY | os.O_CREAT)),
    ("through dots", lambda n: put("scratch/.././" + n.replace("/", "//./"), os.O_WRONLY | os.O_CREAT)),
    ("through a bind mount", through_bind_mount),
    ("renamed over", lambda n: os.rename(fresh(), n)),
    ("lock renamed over", lock_and_rename),
    ("exchanged", lambda n: call("renameat2", AT, fresh().encode(), AT, n.encode(), 2)),
    ("renamed in place", lambda n: call("renameat2", AT, fresh().encode(), AT, n.encode(), 1)),
    ("hard link onto", lambda n: os.link(fresh(), n)),
    ("hard link of", lambda n: os.link(n, "scratch/x%d" % time.monotonic_ns())),
    ("link onto", lambda n: os.symlink("/workspace/" + fresh(), n)),
    ("pipe onto", lambda n: os.mkfifo(n)),
    ("device onto", lambda n: os.mknod(n, stat.S_IFCHR | 0o666, os.makedev(1, 3))),
    ("directory onto", lambda n: os.mkdir(n)),
    ("anonymous file onto", linked_anonymous),
    ("mode", lambda n: os.chmod(n, 0o777)),
    ("owner", lambda n: os.chown(n, 1000, 1000)),
    ("attribute", lambda n: os.setxattr(n, "user.evil", b"1")),
    ("renamed away", lambda n: os.rename(n, "scratch/away%d" % time.monotonic_ns())),
    ("renamed beside", lambda n: os.rename(n, n + ".old")),
    ("removed", os.unlink),
    ("removed and made", replaced),
]


def elsewhere(name):
    os.rename(name, "scratch/d%d" % time.monotonic_ns())


def prepared():
    global counter
    counter += 1
    name = "scratch/p%d" % counter
    os.makedirs(name)
    with open(name + "/config", "w") as f:
        f.write("EVIL\n")
    return name


def emptied(name):
    for top, dirs, files in os.walk(name, topdown=False):
        for f in files:
            try:
                os.unlink(os.path.join(top, f))
            except OSError:
                pass
    os.rmdir(name)


on_directories = [
    ("renamed away", elsewhere),
    ("renamed beside", lambda n: os.rename(n, n + ".old")),
    ("exchanged", lambda n: call("renameat2", AT, prepared().encode(), AT, n.encode(), 2)),
    ("renamed over", lambda n: os.rename(prepared(), n)),
    ("removed", os.rmdir),
    ("replaced by a link", lambda n: (os.rename(n, n + ".o"), os.symlink("/workspace/" + prepared(), n))),
    ("link onto", lambda n: os.symlink("/workspace/" + prepared(), n)),
    ("mode", lambda n: ".git" in n and os.chmod(n, 0)),
    ("owner", lambda n: os.chown(n, 1000, 1000)),
    ("attribute", lambda n: os.setxattr(n, "user.evil", b"1")),
]


def attempt(kind, how, name):
    try:
        if how(name) is not False:
            print(kind, name)
    except (OSError, ValueError, AttributeError):
        pass


def races(seconds):
    end = time.monotonic() + seconds
    for d in "scratch/a", "scratch/b", "scratch/nest":
        os.makedirs(d)
    os.symlink("../.git", "scratch/l")
    gitdir = ["HEAD", "commondir", "config"]

    def forever(what):
        def loop():
            n = 0
            while time.monotonic() < end:
                n += 1
                try:
                    what(n)
                except OSError:
                    pass
        return loop

    def swing(n):  # a link between a plain directory and the gitdir
        os.symlink("../.git" if n % 2 else "a", "scratch/l.new")
        os.rename("scratch/l.new", "scratch/l")

    def turn(n):  # directories change places
        call("renameat2", AT, b"scratch/a", AT, b"scratch/b", 2)

    def gitdirs(n):  # the gitdir changes places with another directory
        call("renameat2", AT, b".git", AT, b"scratch/a", 2)

    def moved(n):
        os.rename("nest" if n % 2 else "scratch/nested", "scratch/nested" if n % 2 else "nest")

    def opens(n):
        put("scratch/" + ["l", "a", "b"][n % 3] + ["/config", "/hooks/post-checkout", "/info/attributes", "/commondir"][n % 4], os.O_WRONLY | os.O_CREAT)

    def names(n):
        os.rename(fresh(), "scratch/" + ["l", "a", "b"][n % 3] + ["/config", "/info/exclude", "/hooks/pre-commit"][n // 3 % 3])

    def births(n):  # pieces of a repository, by several at once
        d = "scratch/born%d" % (n % 5)
        os.makedirs(d, exist_ok=True)
        for piece in (["HEAD", "objects", "refs"] if n % 2 else ["refs", "HEAD", "objects"]):
            try:
                if piece == "HEAD":
                    put(d + "/HEAD", os.O_WRONLY | os.O_CREAT)
                else:
                    os.mkdir(d + "/" + piece)
            except OSError:
                pass
        if n % 4 == 0:
            for piece in ("objects", "refs"):
                os.rmdir(d + "/" + piece)

    def christened(n):  # a finished directory gets the name
        d = "scratch/c%d" % (n % 3)
        os.makedirs(d + "/x", exist_ok=True)
        for g in gitdir:
            put(d + "/x/" + g, os.O_WRONLY | os.O_CREAT)
        os.rename(d + "/x", d + "/" + [".git", ".GIT", ".Git", "git~1", ".git ", ".git."][n % 6])

    todo = [swing, turn, gitdirs, moved, opens, opens, names, births, births, christened]
    threads = [threading.Thread(target=forever(f)) for f in todo]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


os.makedirs("scratch", exist_ok=True)
if sys.argv[1] == "races":
    races(float(sys.argv[2]))
else:
    for n in sys.argv[2:]:
        for k, h in on_files if sys.argv[1] == "files" else on_directories:
            attempt(k, h, n)
