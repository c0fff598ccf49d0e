/* copier-c: `copier` in C. copier-c CASE --from SPEC --to SPEC [OPTIONS] | --list */
#include "copier.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum kind {
    PLAIN,
    /* It does not take --buffer. */
    UNBUFFERED = 1,
    /* Like `cat`, it writes to stdout unless told otherwise. */
    CAT = 2,
};

/* `twin` is the case of `copier` that makes the same calls, or -. */
static const struct copy_case {
    const char *name, *twin, *about;
    int kind;
    uint64_t (*run)(struct job *job);
} cases[] = {
    {"read-write", "read-write", "read and write over one buffer on the heap [8 KiB]", PLAIN, read_write},
    {"read-write-stack", "-", "the same over a buffer on the stack [4096000 bytes]", PLAIN, read_write_stack},
    {"read-send", "-", "read and send over one buffer on the heap [8 KiB]", PLAIN, read_send},
    {"byte-cat", "-", "read and write of one byte; to stdout unless there is --to", UNBUFFERED | CAT, byte_cat},
    {"mmap-write", "mmap-write", "the source mapped whole, and write [all at once]", PLAIN, mmap_write},
    {"mmap-send", "-", "the source mapped whole, and send [all at once]", PLAIN, mmap_send},
    {"vmsplice", "vmsplice", "the source mapped whole, vmsplice into a pipe, splice out of it [64 KiB]", PLAIN, copy_by_vmsplice},
    {"sendfile", "libc-sendfile64", "sendfile [as much as a call takes]", PLAIN, copy_by_sendfile},
    {"splice-pipe", "splice-pipe", "splice into a pipe and out of it [64 KiB; more widens the pipe]", PLAIN, splice_pipe},
    {"copy-file-range", "copy-file-range", "copy_file_range [as much as a call takes]", PLAIN, copy_by_copy_file_range},
    {"fast-cat", "-", "splice from or to a pipe, else sendfile from a file, else splice through a pipe; to stdout unless there is --to",
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
    puts("copier-c CASE --from SPEC --to SPEC [--buffer SIZE] [--size N] [--append] [--checksum]\n"
         "         [--send-buffer SIZE] [--interrupt-every MICROSECONDS], or copier-c --list\n"
         "SPEC: PATH, unix:PATH, tcp:HOST:PORT, pipe:PATH, memfd:PATH (as destination memfd:), -\n"
         "copier --help says what each of them means");
    exit(fflush(stdout) == 0 ? 0 : 1);
}

static void list(void) {
    for (size_t i = 0; i < CASES; i++) {
        printf("%-17s %-15s %s\n", cases[i].name, cases[i].twin, cases[i].about);
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
        {"append", no_argument, NULL, 'a'}, {"checksum", no_argument, NULL, 'c'},
        {"send-buffer", required_argument, NULL, 'w'}, {"interrupt-every", required_argument, NULL, 'i'},
        {"list", no_argument, NULL, 'l'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'f': job->from = optarg; break;
        case 't': job->to = optarg; break;
        case 'b': job->buffer = (size_t)parse_within("--buffer", optarg, SIZE_MAX); break;
        case 's': job->left = parse_size(optarg); break;
        case 'a': job->append = 1; break;
        case 'c': job->checksum = 1; break;
        case 'w': job->send_buffer = (int)parse_within("--send-buffer", optarg, INT_MAX); break;
        case 'i': job->interrupt_every_us = (long)parse_within("--interrupt-every", optarg, LONG_MAX); break;
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

/* How many signals have interrupted the copy, to test that every case handles that. */
static volatile sig_atomic_t signals;

static void count_signal(int signal) {
    (void)signal;
    signals++;
}

static void set_timer(const struct job *job, long every_us) {
    struct timeval every = {every_us / 1000000, every_us % 1000000};
    struct itimerval timer = {every, every};
    if (setitimer(ITIMER_REAL, &timer, NULL) != 0) {
        fail(job, "setitimer");
    }
}

static void start_interruptions(const struct job *job) {
    /* No SA_RESTART: interrupted calls fail. */
    struct sigaction action = {.sa_handler = count_signal};
    if (job->interrupt_every_us == 0) {
        return;
    }
    if (sigaction(SIGALRM, &action, NULL) != 0) {
        fail(job, "sigaction");
    }
    set_timer(job, job->interrupt_every_us);
}

static unsigned long stop_interruptions(const struct job *job) {
    set_timer(job, 0);
    return (unsigned long)signals;
}

/* Closes the ends, so that the other sides see the end of the copy. A memfd is kept, because it would be freed, and so are the standard
 * streams. */
static void close_ends(const struct job *job) {
    int is_kept = after(job->to, "memfd:") != NULL || job->out == STDOUT_FILENO;
    if (job->in != STDIN_FILENO) {
        close(job->in);
    }
    if (!is_kept && close(job->out) != 0) {
        fail(job, "close");
    }
}

/* Closes the ends, checks the copy, and prints how much was copied, in one write; to stderr if the copy went to stdout. */
static int finish(const struct job *job, uint64_t count) {
    char line[256];
    int length = snprintf(line, sizeof line, "copied %" PRIu64 " bytes", count);
    if (job->interrupt_every_us != 0) {
        length += snprintf(line + length, sizeof line - (size_t)length, ", %lu signals", stop_interruptions(job));
    }
    close_ends(job);
    const struct moved *drained = end_other_ends(job);
    if (drained != NULL && drained->bytes != count) {
        refuse(job->to, "other bytes came out of the pipe than went in");
    }
    if (job->checksum) {
        print_checksums(job, count, drained, line + length, sizeof line - (size_t)length);
    }
    int output = strcmp(job->to, "-") == 0 ? STDERR_FILENO : STDOUT_FILENO;
    strcat(line, "\n");
    if (write(output, line, strlen(line)) != (ssize_t)strlen(line)) {
        perror("copier-c: write the last line");
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct job job = {.in = -1, .out = -1, .left = NO_LIMIT};
    parse(argc, argv, &job);
    const struct copy_case *chosen = chosen_case(argc, argv, &job);
    check_ends(&job);
    /* If the peer is gone, the copier reports EPIPE instead of being killed. */
    signal(SIGPIPE, SIG_IGN);
    if (job.checksum) {
        remember_ends(&job);
    }
    open_ends(&job);
    start_interruptions(&job);
    return finish(&job, chosen->run(&job));
}
