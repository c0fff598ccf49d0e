/* The cases: loops through a buffer of the program, copies that leave the bytes in the kernel, and copies out of a mapping of the source. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEAP_BUFFER ((size_t)8192)
#define STACK_BUFFER ((size_t)4096000)
/* This leaves room below the usual limit of 8 MiB. */
#define MOST_ON_STACK ((size_t)7 << 20)

/* The size that the next call should ask for: at most `chunk`, and at most what is left. */
static size_t next_ask(const struct job *job, size_t chunk) {
    return job->left < chunk ? (size_t)job->left : chunk;
}

/* A call that takes bytes: write or send. */
typedef ssize_t (*put_fn)(int fd, const void *bytes, size_t count);

static ssize_t send_plain(int fd, const void *bytes, size_t count) {
    return send(fd, bytes, count, 0);
}

/* Makes as many calls as it takes, of at most `chunk` bytes each. */
static void put_all(const struct job *job, put_fn put, const char *call, const char *bytes, size_t count, size_t chunk) {
    while (count > 0) {
        ssize_t taken = put(job->out, bytes, count < chunk ? count : chunk);
        if (taken < 0 && errno == EINTR) {
            continue;
        }
        if (taken < 0) {
            fail(job, call);
        }
        bytes += taken;
        count -= (size_t)taken;
    }
}

static uint64_t loop(struct job *job, put_fn put, const char *call, char *buffer, size_t size) {
    uint64_t total = 0;
    for (;;) {
        size_t ask = next_ask(job, size);
        ssize_t count = ask == 0 ? 0 : read(job->in, buffer, ask);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            fail(job, "read");
        }
        if (count == 0) {
            return total;
        }
        put_all(job, put, call, buffer, (size_t)count, SIZE_MAX);
        job->left -= job->left == NO_LIMIT ? 0 : (uint64_t)count;
        total += (uint64_t)count;
    }
}

static uint64_t loop_on_heap(struct job *job, put_fn put, const char *call) {
    size_t size = job->buffer ? job->buffer : HEAP_BUFFER;
    char *buffer = malloc(size);
    if (buffer == NULL) {
        fail(job, "malloc");
    }
    uint64_t total = loop(job, put, call, buffer, size);
    free(buffer);
    return total;
}

uint64_t read_write(struct job *job) {
    return loop_on_heap(job, write, "write");
}

uint64_t read_send(struct job *job) {
    return loop_on_heap(job, send_plain, "send");
}

uint64_t read_write_stack(struct job *job) {
    size_t size = job->buffer ? job->buffer : STACK_BUFFER;
    if (size > MOST_ON_STACK) {
        errno = ENOMEM;
        fail(job, "buffer on the stack");
    }
    char buffer[size];
    return loop(job, write, "write", buffer, size);
}

uint64_t byte_cat(struct job *job) {
    char byte;
    return loop(job, write, "write", &byte, sizeof byte);
}

/* The most that one sendfile or copy_file_range moves. */
#define MOST ((size_t)0x7ffff000)
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

/* Opens a pipe that holds what one call moves. */
static void open_pipe(const struct job *job, int ends[2]) {
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

static size_t pipe_chunk(const struct job *job) {
    return job->buffer ? job->buffer : PIPE_SIZE;
}

static void splice_all_out(const struct job *job, const int ends[2], size_t count) {
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

/* A mapping of `length` bytes from the start of the source; `bytes` begins at the source's position. */
struct mapping {
    char *start;
    size_t length;
    const char *bytes;
    size_t count;
};

static off_t seek_to(const struct job *job, int whence) {
    off_t position = lseek(job->in, 0, whence);
    if (position < 0) {
        fail(job, "lseek");
    }
    return position;
}

static struct mapping map_source(const struct job *job) {
    off_t start = seek_to(job, SEEK_CUR), end = seek_to(job, SEEK_END);
    uint64_t there = end > start ? (uint64_t)(end - start) : 0;
    size_t count = job->left < there ? (size_t)job->left : (size_t)there;
    if (count == 0) {
        return (struct mapping){0};
    }
    size_t length = (size_t)start + count;
    char *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, job->in, 0);
    if (bytes == MAP_FAILED) {
        fail(job, "mmap");
    }
    return (struct mapping){bytes, length, bytes + start, count};
}

static uint64_t unmap(const struct job *job, struct mapping mapping) {
    if (mapping.count > 0 && munmap(mapping.start, mapping.length) != 0) {
        fail(job, "munmap");
    }
    return mapping.count;
}

static uint64_t put_mapping(const struct job *job, put_fn put, const char *call) {
    struct mapping mapping = map_source(job);
    put_all(job, put, call, mapping.bytes, mapping.count, job->buffer ? job->buffer : SIZE_MAX);
    return unmap(job, mapping);
}

uint64_t mmap_write(struct job *job) {
    return put_mapping(job, write, "write");
}

uint64_t mmap_send(struct job *job) {
    return put_mapping(job, send_plain, "send");
}

/* It uses a mapping, because pages that vmsplice put into a pipe must not change until the other side has read them. */
uint64_t copy_by_vmsplice(struct job *job) {
    struct mapping mapping = map_source(job);
    int ends[2];
    open_pipe(job, ends);
    for (size_t done = 0; done < mapping.count;) {
        size_t left = mapping.count - done, chunk = pipe_chunk(job);
        struct iovec piece = {(char *)mapping.bytes + done, left < chunk ? left : chunk};
        ssize_t lent = vmsplice(ends[1], &piece, 1, 0);
        if (lent >= 0) {
            splice_all_out(job, ends, (size_t)lent);
            done += (size_t)lent;
        } else if (errno != EINTR) {
            fail(job, "vmsplice");
        }
    }
    close(ends[0]);
    close(ends[1]);
    return unmap(job, mapping);
}
