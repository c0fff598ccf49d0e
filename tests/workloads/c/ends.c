/* The ends of a copy (PATH, unix:PATH, tcp:HOST:PORT, -) and sizes, as the command line writes them. */
#include "copier.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static _Noreturn void refuse(const char *spec, const char *why) {
    fprintf(stderr, "copier-c: %s: %s\n", spec, why);
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
        refuse(spec, strerror(errno));
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
    refuse(spec, strerror(errno));
}

static int connect_tcp(const char *spec, const char *address) {
    char host[256];
    const char *colon = strrchr(address, ':');
    if (colon == NULL || (size_t)(colon - address) >= sizeof host) {
        refuse(spec, "write tcp:HOST:PORT");
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

static int open_end(const char *spec, int standard, int flags) {
    if (strcmp(spec, "-") == 0) {
        return standard;
    }
    if (strncmp(spec, "unix:", 5) == 0) {
        return connect_unix(spec, spec + 5);
    }
    if (strncmp(spec, "tcp:", 4) == 0) {
        return connect_tcp(spec, spec + 4);
    }
    int fd = open(spec, flags | O_CLOEXEC, 0666);
    if (fd < 0) {
        refuse(spec, strerror(errno));
    }
    return fd;
}

int open_source(const char *spec) {
    return open_end(spec, STDIN_FILENO, O_RDONLY);
}

int open_sink(const char *spec) {
    return open_end(spec, STDOUT_FILENO, O_WRONLY | O_CREAT | O_TRUNC);
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
    refuse(text, "not a size; write 4096, 4KiB, 1M or 2GiB");
}
