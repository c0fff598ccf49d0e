// A thread that is not the first one replaces the program.
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

static void *run(void *path) {
    execl(path, "compat", "from a thread", (char *)0);
    return 0;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, run, "/tmp/zc-golden/compat");
    pause();
}
