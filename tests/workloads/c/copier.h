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
    int append;
};

/* copier.c: end the program with an error: a failed call with both ends and the errno, or an invalid command line. */
_Noreturn void fail(const struct job *job, const char *call);
_Noreturn void usage(const char *problem, const char *what);

/* ends.c: parses ends and sizes, and opens the ends. */
uint64_t parse_size(const char *text);
void open_ends(struct job *job);

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
