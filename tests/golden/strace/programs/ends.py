# Writes to a file of each kind, so that strace names them all.
import os, socket, sys

here = sys.argv[1]


def path(name):
    return os.path.join(here, name)


def unix(kind):
    near, far = socket.socketpair(socket.AF_UNIX, kind)
    near.send(b"pair")
    far.recv(9)
    server = socket.socket(socket.AF_UNIX, kind)
    server.bind(path("socket%d" % kind))
    client = socket.socket(socket.AF_UNIX, kind)
    if kind != socket.SOCK_DGRAM:
        server.listen()
    client.connect(path("socket%d" % kind))
    client.send(b"client")
    if kind != socket.SOCK_DGRAM:
        server = server.accept()[0]
    server.recv(9)
    client.send(b"again")


def internet(family, host):
    server = socket.create_server((host, 0), family=family)
    client = socket.create_connection(server.getsockname()[:2])
    accepted = server.accept()[0]
    client.send(b"tcp")
    accepted.recv(9)
    server = socket.socket(family, socket.SOCK_DGRAM)
    server.bind((host, 0))
    client = socket.socket(family, socket.SOCK_DGRAM)
    client.sendto(b"udp", server.getsockname()[:2])
    server.recv(9)


for name in ["plain", "a<b>c", 'q"uo\\te', "tab\tnl\n", "\u00fcml", "x->y", "gone (deleted)"]:
    fd = os.open(path(name), os.O_RDWR | os.O_CREAT)
    os.write(fd, b"before")
    os.unlink(path(name))
    os.write(fd, b"after")
    os.close(fd)
for fd in [os.open("/dev/null", os.O_WRONLY), os.memfd_create("na me"), os.memfd_create("na me")]:
    os.write(fd, b"x")
read, write = os.pipe()
os.write(write, b"x")
os.read(read, 1)
os.mkfifo(path("fifo"))
os.write(os.open(path("fifo"), os.O_RDWR), b"x")
os.write(os.eventfd(1), b"\1\0\0\0\0\0\0\0")
for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET]:
    unix(kind)
abstract = socket.socket(socket.AF_UNIX)
abstract.bind(b'\0zc"golden')
abstract.listen()
client = socket.socket(socket.AF_UNIX)
client.connect(b'\0zc"golden')
client.send(b"x")
internet(socket.AF_INET, "127.0.0.1")
internet(socket.AF_INET6, "::1")
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).send(b"x")
