/* Parses the ends of a copy (PATH, unix:PATH, -) and sizes, and opens the ends. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static _Noreturn void refuse(const char *spec, const char *why) {
    fprintf(stderr, "copier-c: %s: %s\n", spec, why);
    exit(1);
}

static _Noreturn void refuse_errno(const char *spec, const char *what) {
    fprintf(stderr, "copier-c: %s %s: %s: %s\n", what, spec, strerrorname_np(errno), strerror(errno));
    exit(1);
}

uint64_t parse_size(const char *text) {
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0}, {"b", 0}, {"k", 10}, {"kb", 10}, {"kib", 10}, {"m", 20},
                 {"mb", 20}, {"mib", 20}, {"g", 30}, {"gb", 30}, {"gib", 30}};
    char *unit;
    errno = 0;
    unsigned long long number = strtoull(text, &unit, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(unit, units[i].name) == 0 && unit != text && text[0] != '-' && errno == 0
            && number <= UINT64_MAX >> units[i].shift) {
            return (uint64_t)number << units[i].shift;
        }
    }
    usage("not a size (write 4096, 4KiB, 1M or 2GiB): ", text);
}

static _Noreturn void refuse_connection(const char *spec) {
    fprintf(stderr, "copier-c: connect to %s (does a `copier sink` or `copier feed` listen there?): %s: %s\n", spec,
            strerrorname_np(errno), strerror(errno));
    exit(1);
}

static int connect_unix(const char *spec, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        refuse(spec, "the path is too long for a Unix socket");
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        refuse_connection(spec);
    }
    return fd;
}

/* A socket, or a standard stream; -1 if it is neither. */
static int open_elsewhere(const char *spec, int standard) {
    static const char prefix[] = "unix:";
    if (strncmp(spec, prefix, sizeof prefix - 1) == 0) {
        return connect_unix(spec, spec + sizeof prefix - 1);
    }
    return strcmp(spec, "-") == 0 ? standard : -1;
}

static int open_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        refuse_errno(path, "open for reading");
    }
    return fd;
}

/* Something that exists and is not a regular file is neither created nor emptied. */
static int create_file(const char *path, int append) {
    struct stat about;
    int is_special = stat(path, &about) == 0 && !S_ISREG(about.st_mode);
    int flags = (is_special ? 0 : O_CREAT) | (append ? O_APPEND : is_special ? 0 : O_TRUNC);
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (fd < 0) {
        refuse_errno(path, "open for writing");
    }
    return fd;
}

/* The destination is opened second, so that a missing source does not change it. */
void open_ends(struct job *job) {
    job->in = open_elsewhere(job->from, STDIN_FILENO);
    if (job->in < 0) {
        job->in = open_file(job->from);
    }
    job->out = open_elsewhere(job->to, STDOUT_FILENO);
    if (job->out < 0) {
        job->out = create_file(job->to, job->append);
    }
}
