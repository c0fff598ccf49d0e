/* The loops through a buffer of the program's own. */
#include "copier.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAP_BUFFER ((size_t)8192)
#define STACK_BUFFER ((size_t)4096000)
/* This leaves room below the usual limit of 8 MiB. */
#define MOST_ON_STACK ((size_t)7 << 20)

ssize_t send_plain(int fd, const void *bytes, size_t count) {
    return send(fd, bytes, count, 0);
}

void put_all(const struct job *job, put_fn put, const char *call, const char *bytes, size_t count, size_t chunk) {
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
