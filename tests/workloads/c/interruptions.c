/* A timer whose signals interrupt the copy, to test that every case handles that. */
#include "copier.h"

#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t signals;

static void count_signal(int signal) {
    (void)signal;
    signals++;
}

static void set_timer(const struct job *job, long every_us) {
    struct timeval every = {every_us / 1000000, every_us % 1000000};
    struct itimerval timer = {every, every};
    if (setitimer(ITIMER_REAL, &timer, NULL) != 0) {
        fail(job, "setitimer");
    }
}

void start_interruptions(const struct job *job) {
    /* No SA_RESTART: interrupted calls fail. */
    struct sigaction action = {.sa_handler = count_signal};
    if (job->interrupt_every_us == 0) {
        return;
    }
    if (sigaction(SIGALRM, &action, NULL) != 0) {
        fail(job, "sigaction");
    }
    set_timer(job, job->interrupt_every_us);
}

unsigned long stop_interruptions(const struct job *job) {
    set_timer(job, 0);
    return (unsigned long)signals;
}
