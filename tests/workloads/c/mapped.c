/* The copies out of a mapping of the source. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

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
