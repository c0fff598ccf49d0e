/* Checksums of both ends: reads their bytes again, from regular files and block devices, independently of how they were copied. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* For CRC-32 as in zip and Ethernet (reflected, polynomial 0xedb88320). */
static uint32_t remainders[256];

static void compute_remainders(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) {
            value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
        }
        remainders[byte] = value;
    }
}

/* The checksum of bytes with the checksum `before`, followed by these bytes. The checksum of no bytes is 0. */
uint32_t crc32_of(uint32_t before, const void *bytes, size_t count) {
    if (remainders[1] == 0) {
        compute_remainders();
    }
    uint32_t value = ~before;
    for (const unsigned char *byte = bytes; count > 0; byte++, count--) {
        value = value >> 8 ^ remainders[(value ^ *byte) & 0xff];
    }
    return ~value;
}

/* Where copied bytes are: in a file, from an offset on. `path` is NULL if they cannot be read twice. */
static struct stored {
    const char *path;
    off_t start;
} source, sink;

/* Whether the file can be read twice; if so, fills in `about`. */
static int can_be_read_twice(const char *path, struct stat *about) {
    return stat(path, about) == 0 && (S_ISREG(about->st_mode) || S_ISBLK(about->st_mode));
}

static struct stored of_standard(int fd, const char *path) {
    struct stat about;
    if (!can_be_read_twice(path, &about)) {
        return (struct stored){0};
    }
    return (struct stored){path, fcntl(fd, F_GETFL) & O_APPEND ? about.st_size : lseek(fd, 0, SEEK_CUR)};
}

static struct stored of_source(const struct job *job) {
    struct stat about;
    const char *path = origin_of(job->from);
    if (path == NULL) {
        return strcmp(job->from, "-") == 0 ? of_standard(STDIN_FILENO, "/proc/self/fd/0") : (struct stored){0};
    }
    return (struct stored){can_be_read_twice(path, &about) ? path : NULL, 0};
}

static struct stored of_sink(const struct job *job) {
    struct stat about = {0};
    if (strcmp(job->to, "-") == 0) {
        return of_standard(STDOUT_FILENO, "/proc/self/fd/1");
    }
    if (origin_of(job->to) != job->to) {
        return (struct stored){0};
    }
    int is_new = stat(job->to, &about) != 0 && errno == ENOENT;
    int is_there = is_new || can_be_read_twice(job->to, &about);
    return (struct stored){is_there ? job->to : NULL, job->append ? about.st_size : 0};
}

void remember_ends(const struct job *job) {
    source = of_source(job);
    sink = of_sink(job);
    int is_told = after(job->to, "pipe:") != NULL || after(job->to, "memfd:") != NULL;
    if (source.path == NULL && sink.path == NULL && !is_told) {
        refuse(job->to, "--checksum: neither this nor the source can be read again; ask the other side");
    }
}

static uint32_t crc32_in(struct stored stored, uint64_t count) {
    static char buffer[262144];
    uint32_t crc = 0;
    int fd = open(stored.path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        refuse_errno(stored.path, "open again");
    }
    for (uint64_t done = 0; done < count;) {
        size_t ask = count - done < sizeof buffer ? (size_t)(count - done) : sizeof buffer;
        ssize_t got = pread(fd, buffer, ask, stored.start + (off_t)done);
        if (got < 0) {
            refuse_errno(stored.path, "read again");
        }
        if (got == 0) {
            refuse(stored.path, "fewer bytes are there than were copied");
        }
        crc = crc32_of(crc, buffer, (size_t)got);
        done += (uint64_t)got;
    }
    close(fd);
    return crc;
}

/* Compares the checksums, and adds to the line which ends they are of: ", crc32 ... of both ends". */
void print_checksums(const struct job *job, uint64_t count, const struct moved *drained, char *line, size_t room) {
    char memory[64];
    snprintf(memory, sizeof memory, "/proc/self/fd/%d", job->out);
    if (after(job->to, "memfd:") != NULL) {
        sink.path = memory;
    }
    int knows_source = source.path != NULL, knows_sink = sink.path != NULL || drained != NULL;
    uint32_t read_crc = knows_source ? crc32_in(source, count) : 0;
    uint32_t written_crc = sink.path != NULL ? crc32_in(sink, count) : drained != NULL ? drained->crc : 0;
    if (knows_source && knows_sink && read_crc != written_crc) {
        fprintf(stderr, "copier-c: %s has crc32 %08" PRIx32 ", but %s has %08" PRIx32 "\n", job->from, read_crc, job->to, written_crc);
        exit(1);
    }
    const char *which = knows_source && knows_sink ? "both ends" : knows_source ? "the source" : "the destination";
    snprintf(line, room, ", crc32 %08" PRIx32 " of %s", knows_source ? read_crc : written_crc, which);
}
