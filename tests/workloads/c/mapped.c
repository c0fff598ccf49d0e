/* The copies out of a mapping of the source. */
#include "copier.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static size_t mapped_size(const struct job *job) {
    off_t end = lseek(job->in, 0, SEEK_END);
    if (end < 0) {
        fail(job, "lseek");
    }
    return job->left < (uint64_t)end ? (size_t)job->left : (size_t)end;
}

static void put_all(const struct job *job, int sending, const char *bytes, size_t size) {
    size_t chunk = job->buffer ? job->buffer : MOST;
    for (size_t done = 0; done < size;) {
        size_t ask = size - done < chunk ? size - done : chunk;
        ssize_t taken = sending ? send(job->out, bytes + done, ask, 0) : write(job->out, bytes + done, ask);
        if (taken >= 0) {
            done += (size_t)taken;
        } else if (errno != EINTR) {
            fail(job, sending ? "send" : "write");
        }
    }
}

static uint64_t copy(const struct job *job, int sending) {
    size_t size = mapped_size(job);
    if (size == 0) {
        return 0;
    }
    char *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, job->in, 0);
    if (bytes == MAP_FAILED) {
        fail(job, "mmap");
    }
    put_all(job, sending, bytes, size);
    if (munmap(bytes, size) != 0) {
        fail(job, "munmap");
    }
    return size;
}

uint64_t mmap_write(struct job *job) {
    return copy(job, 0);
}

uint64_t mmap_send(struct job *job) {
    return copy(job, 1);
}
