/* Parses ends (PATH, unix:PATH, tcp:HOST:PORT, pipe:PATH, memfd:PATH, -) and sizes. */
#include "copier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
