/* Declarations for all parts of copier-c. */
#ifndef COPIER_H
#define COPIER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NO_LIMIT UINT64_MAX

/* One copy: its ends, the size that one call asks for (0: the case's default), the bytes left to copy, and options. */
struct job {
    const char *from, *to;
    int in, out;
    size_t buffer;
    uint64_t left;
    int append, checksum;
    int send_buffer;
    long interrupt_every_us;
};

/* copier.c: end the program with an error: a failed call with both ends and the errno, or an invalid command line. */
_Noreturn void fail(const struct job *job, const char *call);
_Noreturn void usage(const char *problem, const char *what);

/* ends.c: parses ends and sizes, and opens the ends. */
_Noreturn void refuse(const char *spec, const char *why);
_Noreturn void refuse_errno(const char *spec, const char *what);
const char *after(const char *spec, const char *prefix);
const char *origin_of(const char *spec);
void check_ends(const struct job *job);
uint64_t parse_size(const char *text);
void open_ends(struct job *job);

/* other_end.c: the processes at the other ends of pipes. Each function except the last starts one. */
struct moved {
    uint64_t bytes;
    uint32_t crc;
};
int fed_pipe(const struct job *job, int file);
int drained_pipe(const struct job *job, int file);
void fill_memory(const struct job *job, int file, int memory);
/* Waits for all of them. Returns what the draining process received, or NULL if there is none. */
const struct moved *end_other_ends(const struct job *job);

/* checksum.c: checksums of both ends. */
void remember_ends(const struct job *job);
void print_checksums(const struct job *job, uint64_t count, const struct moved *drained, char *line, size_t room);
uint32_t crc32_of(uint32_t before, const void *bytes, size_t count);

/* interfaces.c: the cases. Each returns the number of bytes that it copied, and does not return on an error. */
uint64_t read_write(struct job *job);
uint64_t read_write_stack(struct job *job);
uint64_t read_send(struct job *job);
uint64_t byte_cat(struct job *job);
uint64_t mmap_write(struct job *job);
uint64_t mmap_send(struct job *job);
uint64_t copy_by_vmsplice(struct job *job);
uint64_t copy_by_sendfile(struct job *job);
uint64_t copy_by_copy_file_range(struct job *job);
uint64_t splice_pipe(struct job *job);
uint64_t fast_cat(struct job *job);

#endif
