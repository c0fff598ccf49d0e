/* Creates threads by pthread_create, and overwrites the stack where the C library had the flags of
 * clone3, before the new thread returns from that call. */
#include <pthread.h>
#include <stddef.h>

enum { THREADS = 200, WORDS = 2048 };

static void *nothing(void *unused) { return unused; }

static void overwrite(void)
{
    volatile unsigned long words[WORDS];
    for (int i = 0; i < WORDS; i++)
        words[i] = 0x200; /* CLONE_FS without CLONE_THREAD */
    (void)words[0];
}

int main(void)
{
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) != 0)
            return 1;
        overwrite();
        if (pthread_join(thread, NULL) != 0)
            return 1;
    }
    return 0;
}
