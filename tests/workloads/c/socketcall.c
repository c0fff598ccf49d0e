/* socketcall N SIZE: through the 32-bit entry, N sends and N receives of SIZE bytes, and one old mmap of 8192 bytes.
 * All of them have their arguments in memory, below 4 GiB. No 32-bit libc is needed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* Numbers of the 32-bit table. */
#define I386_MMAP 90L
#define I386_SOCKETCALL 102L
#define SEND 9L
#define RECV 10L

static long call32(long number, long first, const void *second) {
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(0L), "S"(0L), "D"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

int main(int argc, char **argv) {
    long calls = argc > 1 ? atol(argv[1]) : 10, size = argc > 2 ? atol(argv[2]) : 1000;
    uint32_t *low = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    int ends[2];
    if (low == MAP_FAILED || size > 32768 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        perror("socketcall");
        return 1;
    }
    uint32_t buffer = (uint32_t)(uintptr_t)(low + 1024);
    for (long i = 0; i < calls; i++) {
        for (int end = 0; end < 2; end++) {
            low[0] = (uint32_t)ends[end], low[1] = buffer, low[2] = (uint32_t)size, low[3] = 0;
            if (call32(I386_SOCKETCALL, end == 0 ? SEND : RECV, low) != size) {
                fprintf(stderr, "socketcall: not %ld bytes\n", size);
                return 1;
            }
        }
    }
    low[0] = 0, low[1] = 8192, low[2] = PROT_READ, low[3] = MAP_PRIVATE | MAP_ANONYMOUS, low[4] = UINT32_MAX, low[5] = 0;
    return call32(I386_MMAP, (long)(uintptr_t)low, (void *)0x1234567) == 0;
}
