// A 32-bit program without a C library. In the 32-bit table read is not number 0, and mmap2 is not in the 64-bit table.
static int call(int number, int a, int b, int c) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(0x22), "D"(-1) : "memory");
    return result;
}

void _start(void) {
    call(192, 0, 8192, 3);
    call(4, 1, (int)"hi\n", 3);
    call(3, 99, 0, 10);
    call(1, 5, 0, 0);
}
