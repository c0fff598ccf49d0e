/* The processes at the other ends of pipes: each copies its stdin to its stdout. It ends when its pipe or this process ends. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* There is at most one process that feeds a pipe, and one that drains one. */
static struct other_end {
    pid_t pid;
    /* Memory that is shared with the process. */
    struct moved *moved;
} feeder, drainer;

static void kill_other_end(struct other_end *end) {
    if (end->pid > 0) {
        kill(end->pid, SIGKILL);
        waitpid(end->pid, NULL, 0);
        end->pid = 0;
    }
}

static void kill_other_ends(void) {
    kill_other_end(&feeder);
    kill_other_end(&drainer);
}

static _Noreturn void give_up(const char *call) {
    fprintf(stderr, "copier-c: the process at the pipe's other end: %s: %s\n", call, strerrorname_np(errno));
    _exit(1);
}

static _Noreturn void relay(struct moved *moved, int checksum) {
    static char buffer[65536];
    for (ssize_t count; (count = read(STDIN_FILENO, buffer, sizeof buffer)) != 0;) {
        if (count < 0) {
            give_up("read");
        }
        moved->crc = checksum ? crc32_of(moved->crc, buffer, (size_t)count) : 0;
        for (ssize_t done = 0; done < count;) {
            ssize_t taken = write(STDOUT_FILENO, buffer + done, (size_t)(count - done));
            if (taken < 0 && errno == EPIPE) {
                /* The reader has enough and closed the pipe. */
                _exit(0);
            }
            if (taken < 0) {
                give_up("write");
            }
            done += taken;
            moved->bytes += (uint64_t)taken;
        }
    }
    _exit(0);
}

/* Starts a process with these descriptors as stdin and stdout. */
static void start(const struct job *job, struct other_end *end, int in, int out) {
    atexit(kill_other_ends);
    end->moved = mmap(NULL, sizeof *end->moved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (end->moved == MAP_FAILED) {
        fail(job, "mmap");
    }
    end->pid = fork();
    if (end->pid < 0) {
        fail(job, "fork");
    }
    if (end->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || close_range(3, ~0U, 0) != 0) {
            give_up("dup2");
        }
        relay(end->moved, job->checksum);
    }
    close(in);
    close(out);
}

static void open_between(const struct job *job, int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fail(job, "pipe2");
    }
}

int fed_pipe(const struct job *job, int file) {
    int ends[2];
    open_between(job, ends);
    start(job, &feeder, file, ends[1]);
    return ends[0];
}

int drained_pipe(const struct job *job, int file) {
    int ends[2];
    open_between(job, ends);
    start(job, &drainer, ends[0], file);
    return ends[1];
}

static void wait_for(struct other_end *end, const char *spec) {
    int status;
    if (end->pid <= 0) {
        return;
    }
    while (waitpid(end->pid, &status, 0) < 0 && errno == EINTR) {
    }
    end->pid = 0;
    if (status != 0) {
        refuse(spec, "the process at the pipe's other end failed");
    }
}

/* Another process fills the memory, so that this one makes only the calls of the copy. */
void fill_memory(const struct job *job, int file, int memory) {
    int other = fcntl(memory, F_DUPFD_CLOEXEC, 0);
    if (other < 0) {
        fail(job, "fcntl(F_DUPFD_CLOEXEC)");
    }
    start(job, &feeder, file, other);
    wait_for(&feeder, job->from);
    if (lseek(memory, 0, SEEK_SET) != 0) {
        fail(job, "lseek");
    }
}

const struct moved *end_other_ends(const struct job *job) {
    wait_for(&feeder, job->from);
    wait_for(&drainer, job->to);
    return drainer.moved;
}
