/* failed_paths: calls that are given a path below /zc-none, which does not exist, and fail. Their paths are known.
 * On x86 one of them comes through the 32-bit entry, from 64-bit code. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int must_fail(const char *what, long result, int error) {
    if (result == -1 && errno == error) {
        return 0;
    }
    perror(what);
    return 1;
}

#ifdef __x86_64__
/* The number of open in the 32-bit table. */
#define I386_OPEN 5L

static int open32(void) {
    char *path = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (path == MAP_FAILED) {
        return 1;
    }
    strcpy(path, "/zc-none/32");
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(I386_OPEN), "b"(path), "c"(0L), "d"(0L) : "memory", "r8", "r9", "r10", "r11");
    return result != -ENOENT;
}
#else
static int open32(void) {
    return 0;
}
#endif

int main(void) {
    int wrong = 0;
    for (int i = 0; i < 3; i++) {
        wrong += must_fail("openat", syscall(SYS_openat, AT_FDCWD, "/zc-none/a", O_RDONLY), ENOENT);
    }
    wrong += must_fail("openat", syscall(SYS_openat, AT_FDCWD, "/zc-none/b \"\303\244\"", O_RDONLY), ENOENT);
    /* The descriptor is not open, but the path is absolute. */
    wrong += must_fail("openat", syscall(SYS_openat, 12345, "/zc-none/a", O_WRONLY), ENOENT);
    wrong += must_fail("openat", syscall(SYS_openat, 12345, "zc-none", O_RDONLY), EBADF);
    int root = open("/", O_PATH);
    wrong += must_fail("openat", syscall(SYS_openat, root, "zc-none/below", O_RDONLY), ENOENT);
    wrong += must_fail("linkat", syscall(SYS_linkat, root, "zc-none/from", root, "zc-none/to", 0), ENOENT);
    /* The path ends with its length, not with a NUL. */
    struct sockaddr_un address = {AF_UNIX, "/zc-none/socket+"};
    int length = strchr(address.sun_path, '+') - (char *)&address;
    int unix_socket = socket(AF_UNIX, SOCK_STREAM, 0);
    wrong += must_fail("connect", connect(unix_socket, (struct sockaddr *)&address, length), ENOENT);
    wrong += must_fail("mkdirat", syscall(SYS_mkdirat, AT_FDCWD, "/", 0700), EEXIST);
    wrong += must_fail("symlinkat", syscall(SYS_symlinkat, "target", AT_FDCWD, "/zc-none/link"), ENOENT);
    wrong += must_fail("renameat2", syscall(SYS_renameat2, AT_FDCWD, "/zc-none/from", AT_FDCWD, "/zc-none/to", 0), ENOENT);
    wrong += must_fail("execve", execl("/zc-none/program", "program", (char *)NULL), ENOENT);
    /* Nothing is mapped at this address. */
    wrong += must_fail("openat", syscall(SYS_openat, AT_FDCWD, 8L, O_RDONLY), EFAULT);
    char path[1024];
    memset(path, 'x', sizeof path - 1);
    memcpy(path, "/zc-none/", 9);
    path[sizeof path - 1] = '\0';
    wrong += must_fail("openat", syscall(SYS_openat, AT_FDCWD, path, O_RDONLY), ENOENT);
    /* None of these is a failure. */
    wrong += syscall(SYS_faccessat, AT_FDCWD, "/", F_OK) != 0;
    wrong += open32();
    return wrong;
}
