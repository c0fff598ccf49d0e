# Programs whose syncs both backends report the same. Each begins with the lines before the first one.
import ctypes, mmap, os, socket, threading, time
def new(name, flags=0): return os.open('data/' + name, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags)
def sync_directory(): os.fsync(os.open('data', os.O_RDONLY))
def synced_pages():
    f = new('a')
    os.ftruncate(f, 8192)
    os.fsync(f)
    sync_directory()
    return f
def flush_after_change(changed, start, length):
    m = mmap.mmap(synced_pages(), 8192)
    m[changed] = 1
    m.flush(start, length)
libc = ctypes.CDLL(None)
def wait_for_splice():
    number = {'x86_64': '275 ', 'aarch64': '76 '}[os.uname().machine]
    calls = lambda: [open(f'/proc/self/task/{tid}/syscall').read() for tid in os.listdir('/proc/self/task')]
    while not any(call.startswith(number) for call in calls()): time.sleep(0.01)

# --- O_TMPFILE and linkat
f = os.open('data', os.O_WRONLY | os.O_TMPFILE)
os.write(f, b'x')
os.fsync(f)
os.link('/proc/self/fd/%d' % f, 'data/n', src_dir_fd=0, follow_symlinks=True)
sync_directory()

# --- Several descriptors and names of one file, and fork
f = new('a')
os.link('data/a', 'data/b')
g = os.open('data/b', os.O_WRONLY)
if os.fork() == 0:
    os.write(f, b'x')
    os._exit(0)
os.wait()
os.fsync(g)
sync_directory()
os.write(os.dup(g), b'y')

# --- Paths that begin in open directories
d = os.open('data', 0)
os.mkdir('s', dir_fd=d)
e = os.open('s', 0, dir_fd=d)
f = os.open('q', os.O_WRONLY | os.O_CREAT, dir_fd=e)
os.write(f, b'a')
os.rename('q', 'r', src_dir_fd=e, dst_dir_fd=d)
os.unlink('r', dir_fd=d)
os.fsync(d)

# --- A path through a symbolic link that no call made
f = new('x')
os.write(f, b'x')
os.fsync(f)
os.close(os.open('to-data/x', os.O_RDONLY))
os.rename('to-data/x', 'to-data/y')
sync_directory()

# --- RENAME_EXCHANGE
for name in 'ab':
    f = new(name)
    os.write(f, b'x')
    os.fsync(f)
sync_directory()
libc.renameat2(-100, b'data/a', -100, b'data/b', 2)

# --- truncate, posix_fallocate, fdatasync and O_TRUNC
for name in 'abc':
    f = new(name)
    os.write(f, b'x')
    os.fsync(f)
sync_directory()
os.truncate('data/a', 0)
os.posix_fallocate(f, 0, 10000)
os.fdatasync(f)
open('data/b', 'w').close()

# --- What others are told
os.write(new('a'), b'x')
a, b = socket.socketpair()
s = socket.socket()
s.bind(('127.0.0.1', 0))
s.listen()
c = socket.create_connection(s.getsockname())
a.send(b'x')
c.sendall(b'y')
os.write(c.fileno(), b'z')
os.path.exists('/zctrace/mark/end')

# --- Many writes, also with O_DSYNC
f, g = new('a'), new('b', os.O_DSYNC)
for _ in range(1000):
    os.write(f, b'x' * 100)
    os.write(g, b'y' * 10)
os.fsync(f)
for _ in range(1000): os.write(f, b'x' * 100)
os.fdatasync(f)
os.pwrite(f, b'z', 0)
for _ in range(10): os.write(f, b'x' * 100)

# --- A mapping that is synced and one that is not
f, g = new('a'), new('b')
for file in (f, g):
    os.ftruncate(file, 8192)
    os.fsync(file)
sync_directory()
m, n = mmap.mmap(f, 8192), mmap.mmap(g, 8192)
m[0] = n[0] = 1
m.flush()

# --- A shared mapping that becomes writable
f, g = new('a'), new('b')
libc.mmap.restype = ctypes.c_void_p
maps = []
for file in (f, g):
    os.ftruncate(file, 8192)
    os.fsync(file)
    maps.append(ctypes.c_void_p(libc.mmap(None, 8192, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)))
    libc.mprotect(maps[-1], 8192, mmap.PROT_READ | mmap.PROT_WRITE)
sync_directory()
libc.msync(maps[0], 8192, 4)

# --- The same in a child
f = new('a')
libc.mmap.restype = ctypes.c_void_p
os.ftruncate(f, 4096)
address = ctypes.c_void_p(libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, f, 0))
os.fsync(f)
sync_directory()
if os.fork() == 0:
    libc.mprotect(address, 4096, mmap.PROT_READ | mmap.PROT_WRITE)
    os._exit(0)
os.wait()

# --- A sync while a write is under way: what it moves from a pipe comes later
f = new('a')
os.fsync(f)
sync_directory()
r, w = os.pipe()
thread = threading.Thread(target=lambda: libc.splice(r, None, f, None, 100, 0))
thread.start()
wait_for_splice()
os.fsync(f)
os.write(w, b'x')
thread.join()
os.fsync(f)
os.fsync(f)

# --- A mapping that pkey_mprotect made writable: data/a is unknown
f = synced_pages()
libc.mmap.restype = ctypes.c_void_p
m = ctypes.c_void_p(libc.mmap(None, 8192, mmap.PROT_READ, mmap.MAP_SHARED, f, 0))
assert libc.pkey_mprotect(m, 8192, mmap.PROT_READ | mmap.PROT_WRITE, -1) == 0
ctypes.memset(m, 1, 1)

# --- msync of the page before the one that changed: data/a is unknown
flush_after_change(4096, 0, 4096)

# --- msync of the page after the one that changed: data/a is unknown
flush_after_change(0, 4096, 4096)

# --- msync of no bytes: data/a is unknown
flush_after_change(0, 0, 0)

# --- msync of both pages: data/a is in order
flush_after_change(0, 0, 5000)
