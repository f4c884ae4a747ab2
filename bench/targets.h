// SPDX-License-Identifier: MIT
// What the load generator says to a target and how it reads the answer: POST /api/v1/scans over HTTP/1.1, clamd's INSTREAM.
#ifndef BENCH_TARGETS_H
#define BENCH_TARGETS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "files.h"

#define ANSWER_BYTES 16384
#define PARTS 5
// With its end.
#define KEY_BYTES 33

struct target {
    int http;
    // The contents are named, and not sent.
    int by_url;
    int port;
    char key[128];
    // In the place of the one key, if there are any: each scan has the next one.
    char (*keys)[KEY_BYTES];
    size_t key_count;
    char path[108];
};

struct connection {
    int fd;
    int busy;
    int waits_for_write;
    struct iovec parts[PARTS];
    int part;
    char head[1024];
    uint64_t stamp;
    // When it was due, in an open loop; and when its first byte was handed to the kernel.
    double begin;
    double sent;
    size_t got;
    char answer[ANSWER_BYTES];
};

static const char tail_http[] = "\r\n--sluice-bench-5b1c9d0e7f--\r\n";
static const char tail_clamd[4] = {0, 0, 0, 0};

static int connect_to(const struct target *target, int keep) {
    int fd = socket(target->http ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    int code;
    if (target->http) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)target->port)};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        code = connect(fd, (struct sockaddr *)&to, sizeof to);
    } else {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        memcpy(to.sun_path, target->path, sizeof to.sun_path);
        code = connect(fd, (struct sockaddr *)&to, sizeof to);
        static const char session[] = "zIDSESSION";
        if (code == 0 && keep && send(fd, session, sizeof session, MSG_NOSIGNAL) != (ssize_t)sizeof session) code = -1;
    }
    if (code == 0) return fd;
    close(fd);
    return -1;
}

static struct iovec part(const void *bytes, size_t size) {
    return (struct iovec){.iov_base = (void *)bytes, .iov_len = size};
}

static size_t http_head(struct connection *c, const struct target *target, size_t size, size_t number) {
    static const char envelope[] =
        "--sluice-bench-5b1c9d0e7f\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file-%05zu.bin\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\n";
    static const char envelope_url[] = "--sluice-bench-5b1c9d0e7f\r\nContent-Disposition: form-data; name=\"url\"\r\n\r\n";
    char before[256];
    const char *key = target->key_count == 0 ? target->key : target->keys[c->stamp % target->key_count];
    int length = target->by_url ? snprintf(before, sizeof before, envelope_url) : snprintf(before, sizeof before, envelope, number % 100000);
    return (size_t)snprintf(c->head, sizeof c->head,
                            "POST /api/v1/scans HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-API-KEY: %s\r\n"
                            "Content-Type: multipart/form-data; boundary=sluice-bench-5b1c9d0e7f\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            target->port, key, (size_t)length + size + sizeof tail_http - 1, before);
}

static size_t clamd_head(struct connection *c, size_t size) {
    static const char command[] = "zINSTREAM";
    uint32_t length = htonl((uint32_t)size);
    memcpy(c->head, command, sizeof command);
    memcpy(c->head + sizeof command, &length, sizeof length);
    return sizeof command + sizeof length;
}

// 1: the answer is whole and good, 0: more is to come, -1: it is bad.
static int http_answer(const struct connection *c) {
    const char *end = strstr(c->answer, "\r\n\r\n");
    if (end == NULL) return 0;
    const char *length = strcasestr(c->answer, "\r\ncontent-length:");
    if (length == NULL || length > end) return -1;
    size_t body = strtoul(length + 17, NULL, 10);
    size_t have = c->got - (size_t)(end + 4 - c->answer);
    if (have < body) return 0;
    int good = strncmp(c->answer, "HTTP/1.1 200", 12) == 0 && strstr(end, "\"infected\":false") != NULL;
    return good && have == body ? 1 : -1;
}

static int clamd_answer(const struct connection *c) {
    static const char good[] = "stream: OK";
    if (memchr(c->answer, 0, c->got) == NULL) return 0;
    if (c->got < sizeof good || strlen(c->answer) + 1 != c->got) return -1;
    return strcmp(c->answer + c->got - sizeof good, good) == 0 ? 1 : -1;
}

static int http_refusal(const struct connection *c) {
    return strncmp(c->answer, "HTTP/1.1 503", 12) == 0;
}

// Sluice's words: clamd itself refuses nothing.
static int clamd_refusal(const struct connection *c) {
    return strstr(c->answer, "Too many scans") != NULL || strstr(c->answer, "The scan queue") != NULL;
}

#endif
