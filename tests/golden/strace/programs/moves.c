// Moves bytes by most calls that can do that, some of them in a second thread that blocks in between.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int socks[2];

static void *echo(void *unused) {
    char buffer[64];
    ssize_t got = recv(socks[1], buffer, sizeof buffer, 0);
    struct iovec vector[2] = {{buffer, got / 2}, {buffer + got / 2, got - got / 2}};
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    sendmsg(socks[1], &message, 0);
    return unused;
}

int main(void) {
    char buffer[4096] = "a) = 1, \"quoted\" <b>\n";
    struct iovec vector[2] = {{buffer, 10}, {buffer + 10, 90}};
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    int in = open("/tmp/zc-golden/in", O_CREAT | O_RDWR | O_TRUNC, 0600);
    int out = open("/tmp/zc-golden/out->", O_CREAT | O_RDWR | O_TRUNC, 0600);
    int ends[2];
    pthread_t thread;

    writev(in, vector, 2);
    pwrite(in, buffer, sizeof buffer, 100);
    preadv(in, vector, 2, 0);
    pread(in, buffer, sizeof buffer, 4000);
    ioctl(out, FICLONE, in);
    lseek(in, 0, SEEK_SET);
    copy_file_range(in, 0, out, 0, 1000, 0);
    sendfile(out, in, 0, 1 << 20);
    pipe(ends);
    lseek(in, 0, SEEK_SET);
    splice(in, 0, ends[1], 0, 300, 0);
    read(ends[0], buffer, sizeof buffer);
    vmsplice(ends[1], vector, 2, 0);
    splice(ends[0], 0, out, 0, 65536, 0);
    munmap(mmap(0, 8192, PROT_READ, MAP_SHARED, in, 0), 8192);

    socketpair(AF_UNIX, SOCK_STREAM, 0, socks);
    recvmsg(socks[0], &message, MSG_DONTWAIT);
    pthread_create(&thread, 0, echo, 0);
    usleep(20000);
    send(socks[0], "seven b", 7, 0);
    recvmsg(socks[0], &message, 0);
    pthread_join(thread, 0);
    read(99, buffer, 5);
    return 3;
}
