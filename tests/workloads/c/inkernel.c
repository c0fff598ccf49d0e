/* The copies that leave the bytes in the kernel. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_SIZE ((size_t)65536)

/* One call that moves up to `ask` bytes. */
typedef ssize_t (*move_fn)(const struct job *job, size_t ask);

static uint64_t pump(struct job *job, move_fn move, const char *call, size_t chunk) {
    uint64_t total = 0;
    for (;;) {
        size_t ask = next_ask(job, job->buffer ? job->buffer : chunk);
        ssize_t count = ask == 0 ? 0 : move(job, ask);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            fail(job, call);
        }
        if (count == 0) {
            return total;
        }
        job->left -= job->left == NO_LIMIT ? 0 : (uint64_t)count;
        total += (uint64_t)count;
    }
}

static ssize_t one_sendfile(const struct job *job, size_t ask) {
    return sendfile(job->out, job->in, NULL, ask);
}

static ssize_t one_copy_file_range(const struct job *job, size_t ask) {
    return copy_file_range(job->in, NULL, job->out, NULL, ask, 0);
}

uint64_t copy_by_sendfile(struct job *job) {
    return pump(job, one_sendfile, "sendfile", MOST);
}

uint64_t copy_by_copy_file_range(struct job *job) {
    return pump(job, one_copy_file_range, "copy_file_range", MOST);
}

void open_pipe(const struct job *job, int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fail(job, "pipe2");
    }
    if (job->buffer > INT_MAX) {
        /* The kernel would use its lower 32 bits. */
        errno = EPERM;
        fail(job, "fcntl(F_SETPIPE_SZ)");
    }
    if (job->buffer > PIPE_SIZE && fcntl(ends[1], F_SETPIPE_SZ, (int)job->buffer) < 0) {
        fail(job, "fcntl(F_SETPIPE_SZ)");
    }
}

size_t pipe_chunk(const struct job *job) {
    return job->buffer ? job->buffer : PIPE_SIZE;
}

void splice_all_out(const struct job *job, const int ends[2], size_t count) {
    while (count > 0) {
        ssize_t taken = splice(ends[0], NULL, job->out, NULL, count, SPLICE_F_MOVE);
        if (taken > 0) {
            count -= (size_t)taken;
        } else if (taken == 0 || errno != EINTR) {
            fail(job, "splice");
        }
    }
}

static int pipe_ends[2];

static ssize_t one_round_through_pipe(const struct job *job, size_t ask) {
    ssize_t count = splice(job->in, NULL, pipe_ends[1], NULL, ask, SPLICE_F_MOVE);
    splice_all_out(job, pipe_ends, count > 0 ? (size_t)count : 0);
    return count;
}

uint64_t splice_pipe(struct job *job) {
    open_pipe(job, pipe_ends);
    uint64_t total = pump(job, one_round_through_pipe, "splice", PIPE_SIZE);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return total;
}

static ssize_t one_splice(const struct job *job, size_t ask) {
    return splice(job->in, NULL, job->out, NULL, ask, SPLICE_F_MOVE);
}

static mode_t kind_of(const struct job *job, int fd) {
    struct stat about;
    if (fstat(fd, &about) != 0) {
        fail(job, "fstat");
    }
    return about.st_mode & S_IFMT;
}

/* With a pipe at either end, splice needs no other pipe. From a file, sendfile can write to anything. */
uint64_t fast_cat(struct job *job) {
    mode_t in = kind_of(job, job->in), out = kind_of(job, job->out);
    if (in == S_IFIFO || out == S_IFIFO) {
        return pump(job, one_splice, "splice", MOST);
    }
    return in == S_IFREG || in == S_IFBLK ? copy_by_sendfile(job) : splice_pipe(job);
}
