// Calls that signals interrupt: some restart, fail or resume; and a read that never returns.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ends[2];

static void on_alarm(int signal) { write(ends[1], "x", signal != SIGALRM ? 0 : 1); }
static void nothing(int signal) { (void)signal; }

static void alarm_soon(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct itimerval soon = {.it_value = {.tv_usec = 10000}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &soon, 0);
}

int main(void) {
    char byte;
    pipe(ends);
    alarm_soon(on_alarm, SA_RESTART);
    read(ends[0], &byte, 1);
    alarm_soon(nothing, 0);
    read(ends[0], &byte, 1);
    pid_t child = fork();
    if (child == 0) {
        struct timespec time = {.tv_nsec = 100000000};
        nanosleep(&time, 0);
        read(ends[0], &byte, 1);
        _exit(0);
    }
    usleep(20000);
    kill(child, SIGSTOP);
    usleep(20000);
    kill(child, SIGCONT);
    usleep(200000);
    kill(child, SIGTERM);
    waitpid(child, 0, 0);
    kill(getpid(), SIGUSR1);
}
