/* copier-c: the twin of `copier` in C. copier-c CASE --from SPEC --to SPEC [--buffer SIZE] [--size N] | --list */
#include "copier.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct copy_case {
    const char *name, *about;
    uint64_t (*run)(struct job *job);
};

static const struct copy_case cases[] = {
    {"read-write", "read and write over one buffer on the heap (8 KiB)", read_write},
    {"read-write-stack", "the same over a buffer on the stack (4096000 bytes)", read_write_stack},
    {"read-send", "read and send over one buffer on the heap (8 KiB)", read_send},
    {"mmap-write", "the source mapped whole, and write (all at once)", mmap_write},
    {"mmap-send", "the source mapped whole, and send (all at once)", mmap_send},
    {"sendfile", "sendfile (as much as a call takes)", copy_by_sendfile},
    {"splice-pipe", "splice into a pipe and out of it (64 KiB; more widens the pipe)", splice_pipe},
    {"copy-file-range", "copy_file_range (as much as a call takes)", copy_by_copy_file_range},
};

#define CASES (sizeof cases / sizeof cases[0])

void fail(const struct job *job, const char *call) {
    fprintf(stderr, "copier-c: %s %s -> %s: %s\n", call, job->from, job->to, strerror(errno));
    exit(1);
}

size_t next_ask(const struct job *job, size_t chunk) {
    return job->left < chunk ? (size_t)job->left : chunk;
}

static _Noreturn void usage(const char *problem, const char *what) {
    fprintf(stderr, "copier-c: %s%s\n", problem, what);
    fprintf(stderr, "usage: copier-c CASE --from SPEC --to SPEC [--buffer SIZE] [--size N], or copier-c --list\n");
    exit(1);
}

static void list(void) {
    for (size_t i = 0; i < CASES; i++) {
        printf("%-16s %s\n", cases[i].name, cases[i].about);
    }
    exit(fflush(stdout) == 0 ? 0 : 1);
}

static const struct copy_case *find(const char *name) {
    for (size_t i = 0; i < CASES; i++) {
        if (strcmp(cases[i].name, name) == 0) {
            return &cases[i];
        }
    }
    usage("no such case, see --list: ", name);
}

static void parse(int argc, char **argv, struct job *job) {
    static const struct option options[] = {
        {"from", required_argument, NULL, 'f'}, {"to", required_argument, NULL, 't'},
        {"buffer", required_argument, NULL, 'b'}, {"size", required_argument, NULL, 's'},
        {"list", no_argument, NULL, 'l'}, {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'f': job->from = optarg; break;
        case 't': job->to = optarg; break;
        case 'b':
            job->buffer = (size_t)parse_size(optarg);
            if (job->buffer == 0) {
                usage("--buffer must be at least 1", "");
            }
            break;
        case 's': job->left = parse_size(optarg); break;
        case 'l': list(); break;
        default: usage("unknown option, or one without its value", "");
        }
    }
}

int main(int argc, char **argv) {
    struct job job = {.in = -1, .out = -1, .left = NO_LIMIT};
    parse(argc, argv, &job);
    if (optind + 1 != argc || job.from == NULL || job.to == NULL) {
        usage("one CASE, --from and --to are needed", "");
    }
    const struct copy_case *chosen = find(argv[optind]);
    /* A peer that is gone is an error with a name (EPIPE), not the end of the program. */
    signal(SIGPIPE, SIG_IGN);
    job.in = open_source(job.from);
    job.out = open_sink(job.to);
    uint64_t count = chosen->run(&job);
    if (close(job.out) != 0) {
        fail(&job, "close");
    }
    char line[64];
    int length = snprintf(line, sizeof line, "copied %" PRIu64 " bytes\n", count);
    int output = strcmp(job.to, "-") == 0 ? STDERR_FILENO : STDOUT_FILENO;
    if (write(output, line, (size_t)length) != length) {
        perror("copier-c: write the last line");
        return 1;
    }
    return 0;
}
