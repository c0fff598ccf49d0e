/* copier-c: `copier` in C. copier-c CASE --from SPEC --to SPEC [OPTIONS] | --list */
#include "copier.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind {
    PLAIN,
    /* It does not take --buffer. */
    UNBUFFERED = 1,
    /* Like `cat`, it writes to stdout unless told otherwise. */
    CAT = 2,
};

static const struct copy_case {
    const char *name, *about;
    int kind;
    uint64_t (*run)(struct job *job);
} cases[] = {
    {"read-write", "read and write over one buffer on the heap [8 KiB]", PLAIN, read_write},
    {"read-write-stack", "the same over a buffer on the stack [4096000 bytes]", PLAIN, read_write_stack},
    {"read-send", "read and send over one buffer on the heap [8 KiB]", PLAIN, read_send},
    {"byte-cat", "read and write of one byte; to stdout unless there is --to", UNBUFFERED | CAT, byte_cat},
    {"mmap-write", "the source mapped whole, and write [all at once]", PLAIN, mmap_write},
    {"mmap-send", "the source mapped whole, and send [all at once]", PLAIN, mmap_send},
    {"vmsplice", "the source mapped whole, vmsplice into a pipe, splice out of it [64 KiB]", PLAIN, copy_by_vmsplice},
    {"sendfile", "sendfile [as much as a call takes]", PLAIN, copy_by_sendfile},
    {"splice-pipe", "splice into a pipe and out of it [64 KiB; more widens the pipe]", PLAIN, splice_pipe},
    {"copy-file-range", "copy_file_range [as much as a call takes]", PLAIN, copy_by_copy_file_range},
    {"fast-cat", "splice from or to a pipe, else sendfile from a file, else splice through a pipe; to stdout unless there is --to",
     CAT, fast_cat},
};

#define CASES (sizeof cases / sizeof cases[0])

void fail(const struct job *job, const char *call) {
    fprintf(stderr, "copier-c: %s %s -> %s: %s: %s\n", call, job->from, job->to, strerrorname_np(errno), strerror(errno));
    exit(1);
}

void usage(const char *problem, const char *what) {
    fprintf(stderr, "copier-c: %s%s; see --help\n", problem, what);
    exit(2);
}

static _Noreturn void help(void) {
    puts("copier-c CASE --from SPEC --to SPEC [--buffer SIZE] [--size N] [--append], or copier-c --list\n"
         "SPEC: PATH, unix:PATH, or - (stdin or stdout)");
    exit(fflush(stdout) == 0 ? 0 : 1);
}

static void list(void) {
    for (size_t i = 0; i < CASES; i++) {
        printf("%-17s %s\n", cases[i].name, cases[i].about);
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

static uint64_t parse_within(const char *option, const char *text, uint64_t most) {
    uint64_t number = parse_size(text);
    if (number == 0 || number > most) {
        usage("out of range: ", option);
    }
    return number;
}

static void parse(int argc, char **argv, struct job *job) {
    static const struct option options[] = {
        {"from", required_argument, NULL, 'f'}, {"to", required_argument, NULL, 't'},
        {"buffer", required_argument, NULL, 'b'}, {"size", required_argument, NULL, 's'},
        {"append", no_argument, NULL, 'a'}, {"list", no_argument, NULL, 'l'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'f': job->from = optarg; break;
        case 't': job->to = optarg; break;
        case 'b': job->buffer = (size_t)parse_within("--buffer", optarg, SIZE_MAX); break;
        case 's': job->left = parse_size(optarg); break;
        case 'a': job->append = 1; break;
        case 'l': list(); break;
        case 'h': help(); break;
        default: usage("unknown option, or one without its value", "");
        }
    }
}

static const struct copy_case *chosen_case(int argc, char **argv, struct job *job) {
    if (optind + 1 != argc) {
        usage("one CASE is needed", "");
    }
    const struct copy_case *chosen = find(argv[optind]);
    if (job->to == NULL && (chosen->kind & CAT)) {
        job->to = "-";
    }
    if (job->from == NULL || job->to == NULL) {
        usage("--from and --to are needed", "");
    }
    if (job->buffer != 0 && (chosen->kind & UNBUFFERED)) {
        usage("there is no --buffer for ", chosen->name);
    }
    return chosen;
}

/* Closes the ends, so that the other side sees the end of the copy, and prints how much was copied, in one write; to stderr if the copy
 * went to stdout. */
static int finish(const struct job *job, uint64_t count) {
    char line[64];
    int length = snprintf(line, sizeof line, "copied %" PRIu64 " bytes\n", count);
    int is_to_stdout = job->out == STDOUT_FILENO;
    if (job->in != STDIN_FILENO) {
        close(job->in);
    }
    if (!is_to_stdout && close(job->out) != 0) {
        fail(job, "close");
    }
    if (write(is_to_stdout ? STDERR_FILENO : STDOUT_FILENO, line, (size_t)length) != length) {
        perror("copier-c: write the last line");
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct job job = {.in = -1, .out = -1, .left = NO_LIMIT};
    parse(argc, argv, &job);
    const struct copy_case *chosen = chosen_case(argc, argv, &job);
    /* If the peer is gone, the copier reports EPIPE instead of being killed. */
    signal(SIGPIPE, SIG_IGN);
    open_ends(&job);
    return finish(&job, chosen->run(&job));
}
