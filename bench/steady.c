// SPDX-License-Identifier: MIT
// A client in an open loop: visits begin at times that don't depend on the answers, and latency counts from the time that was meant.
// A visit is one request, and after its answer the others at once, over as many connections as are free.
//
// Usage: steady PORT CONNECTIONS REQUESTS_FILE, then a command a line on stdin and an answer a line on stdout:
//   run SECONDS VISITS_PER_SECOND   -> done {json}   (the times between visits are exponential, from a fixed seed)
//   flood SECONDS                   -> done {json}   (a visit on each connection, the next one after its answer: the capacity)
// REQUESTS_FILE: for each request its length in a line, then its bytes. The first 16 bytes `@@@@@@@@@@@@@@@@` of a request are
// replaced by a number that never comes again.
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define REQUESTS_MAX 64
#define WAITING_MAX (1 << 16)
#define HEAD_BYTES 16384
#define STAMP_BYTES 16
// A round that is this much over its time has lost an answer.
#define PATIENCE_SECONDS 30.0

struct request {
    char *bytes;
    size_t size;
    char *stamp; // NULL: it is always the same
};

struct job {
    int request;
    double due;
};

struct connection {
    int fd;
    int busy;
    struct job job;
    size_t got;
    long left; // bytes of the body that are to come, -1 while the head is read
    char head[HEAD_BYTES];
};

static struct request requests[REQUESTS_MAX];
static int request_count;
static struct connection *connections;
static int connection_count;
static int port;
static int poller;
static int timer;
static uint64_t stamped;

static struct job waiting[WAITING_MAX];
static size_t waiting_from, waiting_to;

static uint32_t *latencies;
static size_t answers, latency_room, visits, errors;
static uint64_t received_bytes;
static int floods;
static double deadline;

static void die(const char *what) {
    fprintf(stderr, "steady: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double random_share(void) {
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 1.0) / 9007199254740993.0;
}

static void read_requests(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) die(path);
    size_t size;
    while (request_count < REQUESTS_MAX && fscanf(file, "%zu%*1[\n]", &size) == 1) {
        struct request *request = &requests[request_count++];
        request->bytes = malloc(size);
        request->size = size;
        if (request->bytes == NULL || fread(request->bytes, 1, size, file) != size) die("the requests end early");
        request->stamp = memmem(request->bytes, size, "@@@@@@@@@@@@@@@@", STAMP_BYTES);
    }
    fclose(file);
    if (request_count == 0) die("no requests");
}

static void open_connection(struct connection *c) {
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0) die("connect");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) != 0) die("epoll_ctl");
}

static void close_connection(struct connection *c) {
    close(c->fd);
    c->fd = -1;
}

static void send_job(struct connection *c, struct job job) {
    struct request *request = &requests[job.request];
    if (request->stamp != NULL) {
        char number[STAMP_BYTES + 1];
        snprintf(number, sizeof number, "%08x%08x", (unsigned)getpid(), (unsigned)++stamped);
        memcpy(request->stamp, number, STAMP_BYTES);
    }
    if (c->fd < 0) open_connection(c);
    c->busy = 1;
    c->job = job;
    c->got = 0;
    c->left = -1;
    // Requests are far smaller than what a socket takes at once.
    if (send(c->fd, request->bytes, request->size, MSG_NOSIGNAL) != (ssize_t)request->size) die("send");
}

static void dispatch(void) {
    for (int i = 0; i < connection_count && waiting_from != waiting_to; i++) {
        if (connections[i].busy) continue;
        send_job(&connections[i], waiting[waiting_from++ % WAITING_MAX]);
    }
}

static void add_job(int request, double due) {
    if (waiting_to - waiting_from == WAITING_MAX) {
        errors++;
        return;
    }
    waiting[waiting_to++ % WAITING_MAX] = (struct job){.request = request, .due = due};
}

static void record(double seconds) {
    if (answers == latency_room) {
        latency_room = latency_room == 0 ? 65536 : 2 * latency_room;
        latencies = realloc(latencies, latency_room * sizeof *latencies);
        if (latencies == NULL) die("memory");
    }
    latencies[answers++] = (uint32_t)(seconds * 1e6);
}

static void answered(struct connection *c) {
    double now = seconds_now();
    record(now - c->job.due);
    c->busy = 0;
    if (c->job.request == 0) {
        visits++;
        for (int i = 1; i < request_count; i++) add_job(i, now);
    }
    if (floods && now < deadline && waiting_from == waiting_to) add_job(0, now);
    dispatch();
}

// Reads the status and the length; the rest of what came with the head counts as body.
static void read_head(struct connection *c) {
    c->head[c->got] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (end == NULL) {
        if (c->got >= HEAD_BYTES - 1) die("an endless head");
        return;
    }
    int status = atoi(c->head + 9);
    if (status != 200 && status != 304 && errors++ == 0) fprintf(stderr, "steady: %.200s\n", c->head);
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    long body = length != NULL && length < end ? atol(length + 17) : 0;
    if (status == 304) body = 0;
    c->left = body - (long)(c->got - (size_t)(end + 4 - c->head));
}

static void read_some(struct connection *c) {
    static char sink[1 << 18];
    for (;;) {
        int heads = c->left < 0;
        ssize_t got = heads ? recv(c->fd, c->head + c->got, HEAD_BYTES - 1 - c->got, MSG_DONTWAIT)
                            : recv(c->fd, sink, sizeof sink, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (got <= 0) {
            // A server ends connections that are idle, maybe at the moment of the next request: browsers then send it again.
            if (c->busy && c->got > 0) die("the server closed a connection within an answer");
            close_connection(c);
            if (c->busy) send_job(c, c->job);
            return;
        }
        received_bytes += (uint64_t)got;
        if (heads) {
            c->got += (size_t)got;
            read_head(c);
            if (c->left < 0) continue;
        } else {
            c->left -= got;
        }
        if (c->left < 0) die("more than was announced");
        if (c->left > 0) continue;
        answered(c);
        return;
    }
}

static void set_timer(double at) {
    struct itimerspec due = {.it_value = {.tv_sec = (time_t)at, .tv_nsec = (long)((at - floor(at)) * 1e9)}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &due, NULL) != 0) die("timerfd_settime");
}

static int all_answered(void) {
    if (waiting_from != waiting_to) return 0;
    for (int i = 0; i < connection_count; i++) {
        if (connections[i].busy) return 0;
    }
    return 1;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static unsigned quantile(double share) {
    if (answers == 0) return 0;
    size_t at = (size_t)((double)answers * share);
    return latencies[at < answers ? at : answers - 1];
}

static void report(double elapsed, double cpu) {
    if (answers > 0) qsort(latencies, answers, sizeof *latencies, by_value);
    printf("done {\"visits\":%zu,\"answers\":%zu,\"bytes\":%llu,\"errors\":%zu,\"seconds\":%.3f,\"p50Us\":%u,"
           "\"p99Us\":%u,\"p999Us\":%u,\"cpuSeconds\":%.3f}\n",
           visits, answers, (unsigned long long)received_bytes, errors, elapsed, quantile(0.5), quantile(0.99),
           quantile(0.999), cpu);
}

static void run(double seconds, double rate) {
    answers = visits = errors = 0;
    received_bytes = 0;
    floods = rate <= 0;
    double cpu = cpu_seconds();
    double begin = seconds_now();
    double next = begin;
    deadline = begin + seconds;
    for (int i = 0; floods && i < connection_count; i++) add_job(0, begin);
    if (floods) dispatch();
    else set_timer(next);
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(poller, events, 64, 100);
        double now = seconds_now();
        while (!floods && next <= now && next < deadline) {
            add_job(0, next);
            next -= log(random_share()) / rate;
        }
        dispatch();
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (c != NULL) {
                read_some(c);
                continue;
            }
            uint64_t expirations;
            if (read(timer, &expirations, sizeof expirations) > 0) set_timer(next);
        }
        if (now > deadline + PATIENCE_SECONDS) die("no answer in time");
        if ((floods ? now : next) >= deadline && all_answered()) break;
    }
    report(seconds_now() - begin, cpu_seconds() - cpu);
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: steady PORT CONNECTIONS REQUESTS_FILE\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    port = atoi(words[1]);
    connection_count = atoi(words[2]);
    read_requests(words[3]);
    connections = calloc((size_t)connection_count, sizeof *connections);
    poller = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (connections == NULL || epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event) != 0) die("start");
    for (int i = 0; i < connection_count; i++) connections[i].fd = -1;
    char line[256];
    double seconds;
    double rate;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "run %lf %lf", &seconds, &rate) == 2 && rate > 0) run(seconds, rate);
        else if (sscanf(line, "flood %lf", &seconds) == 1) run(seconds, 0);
        else return 2;
    }
    return 0;
}
