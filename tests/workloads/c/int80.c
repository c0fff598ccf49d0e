/* int80 N [SIZE]: N writes of SIZE bytes (10) to /dev/null through the 32-bit entry, from 64-bit code.
 * The buffer is below 4 GiB, because that entry takes 32-bit pointers. No 32-bit libc is needed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The number of write in the 32-bit table. In the 64-bit table, 4 is stat. */
#define I386_WRITE 4L

static long write32(int fd, const void *bytes, size_t count) {
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(I386_WRITE), "b"((long)fd), "c"(bytes), "d"(count)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

int main(int argc, char **argv) {
    long calls = argc > 1 ? atol(argv[1]) : 0;
    long size = argc > 2 ? atol(argv[2]) : 10;
    if (calls <= 0 || size <= 0 || argc > 3) {
        fprintf(stderr, "usage: int80 N [SIZE]\n");
        return 1;
    }
    char *bytes = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (bytes == MAP_FAILED) {
        perror("int80: mmap");
        return 1;
    }
    int fd = open("/dev/null", O_WRONLY);
    if (fd < 0) {
        perror("int80: /dev/null");
        return 1;
    }
    for (long i = 0; i < calls; i++) {
        long result = write32(fd, bytes, (size_t)size);
        if (result != size) {
            errno = result < 0 ? (int)-result : EIO;
            perror("int80: write through int $0x80");
            return 1;
        }
    }
    printf("{\"case\":\"int80\",\"abi\":\"i386\",\"calls\":{\"write\":{\"calls\":%ld,\"errors\":0,\"errnos\":{},"
           "\"unfinished\":0,\"bytes\":%ld,\"requested_bytes\":%ld}}}\n",
           calls, calls * size, calls * size);
    return fflush(stdout) == 0 ? 0 : 1;
}
