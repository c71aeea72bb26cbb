"""Tries to reach addresses by every way that a program inside has.

usage: attack.py SOURCE DEVICE PORT WAIT ADDRESS...

Prints one line for each success, "reached ADDRESS METHOD", and one for each
method that the sandbox's kernel refused, "refused ADDRESS METHOD ERROR". All
attempts run at once; those that hang have WAIT seconds.
"""
import ctypes, os, select, socket, struct, sys, time

source, device, port, wait = sys.argv[1], sys.argv[2].encode() + b"\0", int(sys.argv[3]), float(sys.argv[4])
SO_BINDTODEVICE, IP_PKTINFO, IP_FREEBIND, IP_TRANSPARENT, MSG_FASTOPEN = 25, 8, 15, 19, 0x20000000
pending = {}


def done(what, address, method, detail=""):
    print(what, address, method, detail, flush=True)


def try_(address, method, f):
    try:
        s = f()
        if s is not None:
            s.setblocking(False)
            pending[s] = (address, method)
    except OSError as e:
        if e.errno == 115:  # in progress
            return
        done("refused", address, method, e)


def make(kind, address, bind=None, dev=False, opts=(), family=socket.AF_INET):
    s = socket.socket(family, kind)
    s.setblocking(False)
    for level, name, value in opts:
        s.setsockopt(level, name, value)
    if dev:
        s.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, device)
    if bind:
        s.bind((bind, 0))
    return s


def tcp(address, method, **how):
    def f():
        s = make(socket.SOCK_STREAM, address, **how)
        pending[s] = (address, method)
        to = "::ffff:" + address if how.get("family") == socket.AF_INET6 and "." in address else address
        s.connect((to, port))
        return s
    try_(address, method, f)


def udp(address, method, **how):
    def f():
        s = make(socket.SOCK_DGRAM, address, **how)
        to = "::ffff:" + address if how.get("family") == socket.AF_INET6 and "." in address else address
        s.sendto(b"x", (to, port))
        return s
    try_(address, method, f)


def pktinfo(address):
    index = socket.if_nametoindex("tap0")
    def f():
        s = make(socket.SOCK_DGRAM, address)
        info = struct.pack("=i4s4s", index, socket.inet_aton(source), b"\0" * 4)
        s.sendmsg([b"x"], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0, (address, port))
        return s
    try_(address, "udp-pktinfo", f)


def connected(address):
    def f():
        s = make(socket.SOCK_DGRAM, address, bind=source)
        s.connect((address, port))
        s.send(b"x")
        return s
    try_(address, "udp-connected-bind", f)


def fragments(address):
    def f():
        s = make(socket.SOCK_DGRAM, address, bind=source)
        s.sendto(b"x" * 65507, (address, port))
        return s
    try_(address, "udp-fragments", f)


def dontroute(address):
    def f():
        s = make(socket.SOCK_DGRAM, address, dev=True)
        s.sendto(b"x", socket.MSG_DONTROUTE, (address, port))
        return s
    try_(address, "udp-dontroute", f)


def fastopen(address):
    def f():
        s = make(socket.SOCK_STREAM, address, bind=source)
        s.sendto(b"x", MSG_FASTOPEN, (address, port))
        return s
    try_(address, "tcp-fastopen", f)


def checksum(b):
    n = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    while n >> 16:
        n = (n & 0xFFFF) + (n >> 16)
    return ~n & 0xFFFF


def ping(address, kind, method, **how):
    def f():
        s = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
        if how.get("dev"):
            s.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, device)
        if how.get("bind"):
            s.bind((source, 0))
        m = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, 1)
        s.sendto(struct.pack("!BBHHH", 8, 0, checksum(m), os.getpid() & 0xFFFF, 1), (address, 0))
        return s
    try_(address, method, f)


def raw_udp(address, spoof, method):
    def f():
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        u = struct.pack("!HHHH", 4444, port, 9, 0) + b"x"
        h = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(u), 1, 0, 64, 17, 0, socket.inet_aton(spoof), socket.inet_aton(address))
        s.sendto(h + u, (address, port))
    try_(address, method, f)


def frame(address):
    def f():
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        s.bind(("tap0", 0x0800))
        u = struct.pack("!HHHH", 4444, port, 9, 0) + b"x"
        h = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(u), 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(address))
        s.send(b"\xff" * 6 + b"\x02\0\0\0\0\x01" + b"\x08\0" + h + u)
    try_(address, "frame", f)


def route(address):
    """Adds a route of one's own."""
    def f():
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        index = socket.if_nametoindex("tap0")
        attrs = struct.pack("=HH4s", 8, 1, socket.inet_aton(address)) + struct.pack("=HHi", 8, 4, index)
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 0, 0, 254, 3, 253, 1, 0) + attrs
        s.send(struct.pack("=IHHII", 16 + len(body), 24, 0x505, 1, 0) + body)
        answer = s.recv(4096)
        code = struct.unpack_from("=i", answer, 16)[0]
        if code:
            raise OSError(-code, os.strerror(-code))
    try_(address, "new-route", f)


for address in sys.argv[5:]:
    if ":" in address:
        tcp(address, "tcp6", family=socket.AF_INET6)
        udp(address, "udp6", family=socket.AF_INET6)
        udp(address, "udp6-device", family=socket.AF_INET6, dev=True)
        continue
    lsrr = lambda via: ((socket.IPPROTO_IP, socket.IP_OPTIONS, b"\x83\x07\x04" + socket.inet_aton(via) + b"\x01"),)
    for name, f in (("tcp", tcp), ("udp", udp)):
        f(address, name)
        f(address, name + "-bind", bind=source)
        f(address, name + "-device", dev=True)
        f(address, name + "-bind-device", bind=source, dev=True)
        f(address, name + "-loopback", bind="127.0.0.1")
        f(address, name + "-mapped", family=socket.AF_INET6)
        f(address, name + "-mapped-bind", family=socket.AF_INET6, bind="::ffff:" + source)
        f(address, name + "-lsrr", opts=lsrr("203.0.113.5"))
        f(address, name + "-lsrr-bind", bind=source, opts=lsrr("203.0.113.5"))
        f(address, name + "-freebind", bind=address, opts=((socket.IPPROTO_IP, IP_FREEBIND, 1),))
        f(address, name + "-transparent", bind="10.0.2.3", opts=((socket.IPPROTO_IP, IP_TRANSPARENT, 1),))
    pktinfo(address)
    connected(address)
    fragments(address)
    dontroute(address)
    fastopen(address)
    ping(address, socket.SOCK_DGRAM, "ping")
    ping(address, socket.SOCK_DGRAM, "ping-bind", bind=True)
    ping(address, socket.SOCK_DGRAM, "ping-device", dev=True)
    ping(address, socket.SOCK_RAW, "ping-raw")
    raw_udp(address, source, "raw-udp")
    raw_udp(address, "203.0.113.5", "raw-udp-spoofed")
    frame(address)
    route(address)
    udp(address, "udp-after-route")
    for group in ("224.0.0.251", "239.255.255.250", "255.255.255.255", "10.0.2.255"):
        udp(group, "multicast", opts=((socket.SOL_SOCKET, socket.SO_BROADCAST, 1),), dev=True)
        udp(group, "multicast-bind", bind=source, opts=((socket.SOL_SOCKET, socket.SO_BROADCAST, 1),))

# The same with whatever a namespace of one's own gives: it has capabilities,
# but over other interfaces.
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0:
    for address in sys.argv[5:]:
        if "." in address:
            raw_udp(address, source, "userns-raw-udp")
            frame(address)
            route(address)

end = time.monotonic() + wait
poll = select.poll()
for s in pending:
    poll.register(s, select.POLLIN)
by_fd = {s.fileno(): s for s in pending}
while by_fd and time.monotonic() < end:
    for fd, _ in poll.poll(max(0, (end - time.monotonic()) * 1000)):
        s = by_fd.pop(fd)
        poll.unregister(fd)
        address, method = pending[s]
        try:
            b = s.recv(1000)
            done("reached" if b else "refused", address, method, b[:60])
        except OSError as e:
            done("refused", address, method, e)
done("end", "-", "-")
