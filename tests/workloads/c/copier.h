/* What the parts of copier-c share. */
#ifndef COPIER_H
#define COPIER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The most that one sendfile or copy_file_range moves. */
#define MOST ((size_t)0x7ffff000)
#define NO_LIMIT UINT64_MAX

/* One copy: both ends open, what one call asks for (0: the case's default), where to stop. */
struct job {
    const char *from, *to;
    int in, out;
    size_t buffer;
    uint64_t left;
};

/* copier.c */
_Noreturn void fail(const struct job *job, const char *call);

/* ends.c */
int open_source(const char *spec);
int open_sink(const char *spec);
uint64_t parse_size(const char *text);

/* What the next call should ask for: at most `chunk`, and no more than is left. */
size_t next_ask(const struct job *job, size_t chunk);

/* The cases; each returns the bytes it copied, and does not return on an error. */
uint64_t read_write(struct job *job);
uint64_t read_write_stack(struct job *job);
uint64_t read_send(struct job *job);
uint64_t mmap_write(struct job *job);
uint64_t mmap_send(struct job *job);
uint64_t copy_by_sendfile(struct job *job);
uint64_t copy_by_copy_file_range(struct job *job);
uint64_t splice_pipe(struct job *job);

#endif
