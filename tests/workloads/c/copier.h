/* Declarations for all parts of copier-c. */
#ifndef COPIER_H
#define COPIER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The most that one sendfile or copy_file_range moves. */
#define MOST ((size_t)0x7ffff000)
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

/* spec.c: parses ends and sizes. */
_Noreturn void refuse(const char *spec, const char *why);
_Noreturn void refuse_errno(const char *spec, const char *what);
const char *after(const char *spec, const char *prefix);
const char *origin_of(const char *spec);
void check_ends(const struct job *job);
uint64_t parse_size(const char *text);

/* ends.c */
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

/* again.c: reads the bytes of both ends again. */
void remember_ends(const struct job *job);
void print_checksums(const struct job *job, uint64_t count, const struct moved *drained, char *line, size_t room);

/* crc32.c */
uint32_t crc32_of(uint32_t before, const void *bytes, size_t count);

/* interruptions.c */
void start_interruptions(const struct job *job);
unsigned long stop_interruptions(const struct job *job);

/* The size that the next call should ask for: at most `chunk`, and at most what is left. */
size_t next_ask(const struct job *job, size_t chunk);

/* loops.c: put_fn is a call that takes bytes, write or send. put_all makes as many calls as it takes, of at most `chunk` bytes each. */
typedef ssize_t (*put_fn)(int fd, const void *bytes, size_t count);
ssize_t send_plain(int fd, const void *bytes, size_t count);
void put_all(const struct job *job, put_fn put, const char *call, const char *bytes, size_t count, size_t chunk);

/* inkernel.c: opens a pipe that holds what one call moves, and splices everything out of it. */
void open_pipe(const struct job *job, int ends[2]);
void splice_all_out(const struct job *job, const int ends[2], size_t count);
size_t pipe_chunk(const struct job *job);

/* The cases. Each returns the number of bytes that it copied, and does not return on an error. */
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
