# Looks for texts in all that can be read below the workspace.
#
#   search.py TEXT,... [NAME...]
#
# Prints "TEXT PLACE" for each find. Every file is read, through links too, and
# every NAME whether or not a directory lists it, and the contents of every
# repository's objects.
import os, stat, subprocess, sys

texts = [t.encode() for t in sys.argv[1].split(",")]
root = b"/workspace"
found = set()


def look(data, place):
    for t in texts:
        if t in data:
            found.add(t.decode() + " " + place)


def read(name, shown=None):
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            return
        with open(name, "rb") as f:
            look(f.read(), os.fsdecode(shown or name))
    except OSError:
        pass


repositories = []
for top, dirs, files in os.walk(root):
    for name in dirs + files:
        path = os.path.join(top, name)
        look(name, "name of " + os.fsdecode(path))
        if os.path.islink(path):
            look(os.readlink(path), "link " + os.fsdecode(path))
            if os.path.isdir(path):
                for below, _, inner in os.walk(path):
                    for i in inner:
                        read(os.path.join(below, i))
        read(path)
    if b".git" in dirs or b".git" in files:
        repositories.append(top)
for name in sys.argv[2:]:
    path = os.path.join(root, name.encode())
    read(path)
    fd = None
    try:
        fd = os.open(os.path.dirname(path), os.O_PATH)
        read(b"/proc/self/fd/%d/%s" % (fd, os.path.basename(path)), path + b" by a handle")
    except OSError:
        pass
    finally:
        if fd is not None:
            os.close(fd)
for r in repositories:
    p = subprocess.run(
        ["git", "-C", r, "cat-file", "--batch-all-objects", "--unordered", "--batch"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    look(p.stdout, "objects of " + os.fsdecode(r))
print("\n".join(sorted(found)))
