/* Parses the ends of a copy (PATH, unix:PATH, tcp:HOST:PORT, pipe:PATH, memfd:PATH, -) and sizes, and opens the ends. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

void refuse(const char *spec, const char *why) {
    fprintf(stderr, "copier-c: %s: %s\n", spec, why);
    exit(1);
}

void refuse_errno(const char *spec, const char *what) {
    fprintf(stderr, "copier-c: %s %s: %s: %s\n", what, spec, strerrorname_np(errno), strerror(errno));
    exit(1);
}

/* The text after a prefix; NULL if the text does not start with it. */
const char *after(const char *spec, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(spec, prefix, length) == 0 ? spec + length : NULL;
}

/* The path of the file with a source's bytes; NULL if there is none. */
const char *origin_of(const char *spec) {
    const char *path = after(spec, "pipe:");
    path = path == NULL ? after(spec, "memfd:") : path;
    int is_elsewhere = strcmp(spec, "-") == 0 || after(spec, "unix:") != NULL || after(spec, "tcp:") != NULL;
    return path != NULL ? path : is_elsewhere ? NULL : spec;
}

static int is_path(const char *spec) {
    return origin_of(spec) == spec;
}

void check_ends(const struct job *job) {
    const char *from = origin_of(job->from), *to = origin_of(job->to), *memory = after(job->to, "memfd:");
    if (from != NULL && *from == '\0') {
        refuse(job->from, "a source needs a path");
    }
    if (memory != NULL && *memory != '\0') {
        refuse(job->to, "a destination in memory has no name: write memfd:");
    }
    if (memory == NULL && to != NULL && *to == '\0') {
        refuse(job->to, "a destination needs a path; pipe:/dev/null drains it away");
    }
    if (job->append && !is_path(job->to)) {
        refuse(job->to, "--append is for a destination that is a path");
    }
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

static int connect_first(const char *spec, const struct addrinfo *found) {
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        int fd = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
        if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) == 0) {
            return fd;
        }
        if (fd >= 0) {
            int cause = errno;
            close(fd);
            errno = cause;
        }
    }
    refuse_connection(spec);
}

static int connect_tcp(const char *spec, const char *address) {
    char host[256];
    const char *colon = strrchr(address, ':');
    if (colon == NULL || (size_t)(colon - address) >= sizeof host) {
        refuse(spec, "write tcp:HOST:PORT");
    }
    char *end;
    if (strtoul(colon + 1, &end, 10) > UINT16_MAX && *end == '\0') {
        /* getaddrinfo would use its lower 16 bits. */
        refuse(spec, "a port is at most 65535");
    }
    int bracketed = address[0] == '[' && colon[-1] == ']';
    size_t length = (size_t)(colon - address) - (bracketed ? 2 : 0);
    memcpy(host, address + bracketed, length);
    host[length] = '\0';
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found;
    int code = getaddrinfo(host, colon + 1, &wanted, &found);
    if (code != 0) {
        refuse(spec, gai_strerror(code));
    }
    int fd = connect_first(spec, found);
    freeaddrinfo(found);
    return fd;
}

/* A socket, or a standard stream; -1 if it is neither. */
static int open_elsewhere(const char *spec, int standard) {
    const char *path = after(spec, "unix:"), *address = after(spec, "tcp:");
    if (path != NULL) {
        return connect_unix(spec, path);
    }
    if (address != NULL) {
        return connect_tcp(spec, address);
    }
    return strcmp(spec, "-") == 0 ? standard : -1;
}

/* A directory can be opened but not read. It is refused here, before the destination is touched. */
static int open_file(const char *path) {
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        refuse_errno(path, "open for reading");
    }
    if (S_ISDIR(about.st_mode)) {
        errno = EISDIR;
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

static int create_memory(const struct job *job) {
    int fd = memfd_create("copier-c", MFD_CLOEXEC);
    if (fd < 0) {
        fail(job, "memfd_create");
    }
    return fd;
}

static int open_source(const struct job *job) {
    int fd = open_elsewhere(job->from, STDIN_FILENO);
    if (fd >= 0) {
        return fd;
    }
    int file = open_file(origin_of(job->from));
    if (after(job->from, "pipe:") != NULL) {
        return fed_pipe(job, file);
    }
    if (after(job->from, "memfd:") != NULL) {
        int memory = create_memory(job);
        fill_memory(job, file, memory);
        return memory;
    }
    return file;
}

/* Whether the bytes of an end are, or will be, in a regular file; `standard` is the descriptor for "-". */
static int is_regular(const char *spec, int standard, struct stat *about) {
    const char *path = origin_of(spec);
    int found = path != NULL ? stat(path, about) : strcmp(spec, "-") == 0 ? fstat(standard, about) : -1;
    return found == 0 && S_ISREG(about->st_mode);
}

/* A copy of a file onto itself, also through a pipe or memory, would empty the file or never end. */
static void refuse_same_file(const struct job *job) {
    struct stat from, to;
    if (is_regular(job->from, STDIN_FILENO, &from) && is_regular(job->to, STDOUT_FILENO, &to)
        && from.st_dev == to.st_dev && from.st_ino == to.st_ino) {
        refuse(job->to, "is the source already; name another destination");
    }
}

static int open_sink(const struct job *job) {
    int fd = open_elsewhere(job->to, STDOUT_FILENO);
    if (fd >= 0) {
        int is_socket = fd != STDOUT_FILENO;
        if (is_socket && job->send_buffer != 0
            && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &job->send_buffer, sizeof job->send_buffer) != 0) {
            fail(job, "setsockopt(SO_SNDBUF)");
        }
        return fd;
    }
    if (after(job->to, "memfd:") != NULL) {
        return create_memory(job);
    }
    const char *path = origin_of(job->to);
    int file = create_file(path, job->append);
    return after(job->to, "pipe:") != NULL ? drained_pipe(job, file) : file;
}

/* The destination is opened second, so that a missing source does not change it. */
void open_ends(struct job *job) {
    refuse_same_file(job);
    job->in = open_source(job);
    job->out = open_sink(job);
}
