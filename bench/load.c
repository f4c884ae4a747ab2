// SPDX-License-Identifier: MIT
// The load generator: one thread, epoll, closed loop over a number of connections. It shares its cores with the server
// that it measures, so it copies nothing: a request is a gather write of the file's halves around a stamp.
//
// Usage: load, then a command a line on stdin and an answer a line on stdout:
//   http PORT KEY | url PORT KEY | clamd SOCKET -> ready  (url: what is in the files are URLs, which name the contents)
//   keys LIST_FILE                         -> ready COUNT   (of HTTP, a key a line: each scan has the next one)
//   files unique|fixed LIST_FILE           -> ready COUNT
//   run SECONDS CONNECTIONS keep|close     -> done {json}   (close: a connection per scan)
//   pace SECONDS CONNECTIONS RATE          -> done {json}   (open loop: so many scans a second, whatever the answers do)
//   overload SECONDS CONNECTIONS RATE      -> done {json}   (the same, and a refusal, since too many wait, is no error: it is counted for itself)
#define _GNU_SOURCE
#include <sys/epoll.h>
#include <sys/resource.h>

#include "files.h"
#include "targets.h"

// A round that is this much over its time has lost an answer.
#define PATIENCE_SECONDS 60.0
// Between two connections: of those that come at once one process takes most, when several share the listening socket.
#define CONNECT_GAP_MICROSECONDS 1000
// Of more than these it would take seconds.
#define CONNECTIONS_FEW 256
// For the connections of an open loop, which the server accepts when the clock runs already.
#define ACCEPT_SECONDS 0.5

// Microseconds, of answers of one kind.
struct times {
    uint32_t *list;
    size_t count;
    size_t room;
};

struct result {
    struct times scans;
    struct times refused;
    // The refusals once more, from the first byte of their requests.
    struct times refused_since_sent;
    // Of an open loop: scans that were due when every connection was busy. They began later, or never.
    uint64_t found_none;
    // Of both: those that came before the end, which is what a rate is made of. Others came from a queue that was left.
    uint64_t taken_in_time;
    uint64_t refused_in_time;
    uint64_t errors;
    char first_error[160];
};

struct run {
    const struct target *target;
    struct files *files;
    struct round round;
    struct result result;
    int epoll;
    int keep;
    int active;
    // Open loop: seconds between two scans, and when the next one is due. 0: the next one begins with an answer.
    double interval;
    double due;
    // When no connection was free, last.
    double full;
    double counted_from;
    // Whether a refusal is an answer as well.
    int overload;
    int connections;
    // Of an open loop: a ring of the connections that have nothing to do, the one that has rested for longest first.
    struct connection **free;
    int first_free;
    int free_count;
};

static void failed(struct run *run, const char *what) {
    if (run->result.errors++ > 0) return;
    size_t i = 0;
    for (; what[i] != 0 && i < sizeof run->result.first_error - 1; i++) {
        char c = what[i];
        run->result.first_error[i] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '.' : c;
    }
    run->result.first_error[i] = 0;
}

static void watch(struct run *run, struct connection *c, int operation, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(run->epoll, operation, c->fd, &event) != 0) abort();
}

static int open_connection(struct run *run, struct connection *c) {
    c->fd = connect_to(run->target, run->keep);
    if (c->fd < 0) return -1;
    c->waits_for_write = 0;
    watch(run, c, EPOLL_CTL_ADD, EPOLLIN);
    return 0;
}

static void close_connection(struct connection *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

static void compose(struct run *run, struct connection *c, const struct file *file) {
    size_t number = (size_t)(file - run->files->list);
    int http = run->target->http;
    size_t head = http ? http_head(c, run->target, file->size, number) : clamd_head(c, file->size);
    c->parts[0] = part(c->head, head);
    if (run->files->unique) {
        size_t at = stamp_offset(file->size);
        c->parts[1] = part(file->bytes, at);
        c->parts[2] = part(&c->stamp, STAMP_BYTES);
        c->parts[3] = part(file->bytes + at + STAMP_BYTES, file->size - at - STAMP_BYTES);
    } else {
        c->parts[1] = part(file->bytes, file->size);
        c->parts[2] = c->parts[3] = part(NULL, 0);
    }
    c->parts[4] = http ? part(tail_http, sizeof tail_http - 1) : part(tail_clamd, sizeof tail_clamd);
    c->part = 0;
}

// Writes what the socket takes. 0: go on, -1: the connection is broken.
static int write_some(struct run *run, struct connection *c) {
    while (c->part < PARTS) {
        struct msghdr message = {.msg_iov = c->parts + c->part, .msg_iovlen = (size_t)(PARTS - c->part)};
        ssize_t wrote = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0 && errno != EAGAIN) return -1;
        if (wrote < 0) {
            if (!c->waits_for_write) watch(run, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            c->waits_for_write = 1;
            return 0;
        }
        size_t left = (size_t)wrote;
        while (c->part < PARTS && left >= c->parts[c->part].iov_len) left -= c->parts[c->part++].iov_len;
        if (c->part < PARTS) {
            c->parts[c->part].iov_base = (char *)c->parts[c->part].iov_base + left;
            c->parts[c->part].iov_len -= left;
        }
    }
    if (c->waits_for_write) watch(run, c, EPOLL_CTL_MOD, EPOLLIN);
    c->waits_for_write = 0;
    return 0;
}

static void set_free(struct run *run, struct connection *c) {
    c->busy = 0;
    if (run->interval > 0) run->free[(run->first_free + run->free_count++) % run->connections] = c;
}

static void rest(struct run *run, struct connection *c) {
    set_free(run, c);
    run->active--;
}

static void give_up(struct run *run, struct connection *c, const char *what) {
    failed(run, what);
    close_connection(c);
    rest(run, c);
}

static void begin_scan(struct run *run, struct connection *c) {
    struct file *file = round_next(&run->round, run->files, &c->stamp);
    if (file == NULL) {
        rest(run, c);
        return;
    }
    // In an open loop a scan that had to wait for a connection has begun when it was due: its wait is part of its time.
    c->begin = run->interval > 0 ? run->due : seconds_now();
    if (run->interval > 0 && run->due <= run->full) run->result.found_none++;
    c->got = 0;
    c->busy = 1;
    if (c->fd < 0 && open_connection(run, c) != 0) {
        give_up(run, c, "connection refused");
        return;
    }
    compose(run, c, file);
    c->sent = seconds_now();
    // A broken pipe may hide an answer that says why: the read side finds out.
    if (write_some(run, c) != 0) c->part = PARTS;
}

static void record(struct times *times, double seconds) {
    if (times->count == times->room) {
        times->room = times->room == 0 ? 65536 : 2 * times->room;
        times->list = realloc(times->list, times->room * sizeof *times->list);
        if (times->list == NULL) abort();
    }
    times->list[times->count++] = (uint32_t)(seconds * 1e6);
}

static int in_time(const struct run *run) {
    double now = seconds_now();
    return now >= run->counted_from && now <= run->round.deadline;
}

// A refusal may come before the whole request was sent, or end the connection.
static void refused(struct run *run, struct connection *c) {
    if (in_time(run)) run->result.refused_in_time++;
    if (c->begin >= run->counted_from) {
        double now = seconds_now();
        record(&run->result.refused, now - c->begin);
        record(&run->result.refused_since_sent, now - c->sent);
    }
    if (c->part < PARTS || strcasestr(c->answer, "\r\nconnection: close") != NULL) close_connection(c);
    rest(run, c);
}

static void read_some(struct run *run, struct connection *c) {
    ssize_t got = recv(c->fd, c->answer + c->got, sizeof c->answer - 1 - c->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        give_up(run, c, c->got > 0 ? c->answer : "connection closed without an answer");
        return;
    }
    c->got += (size_t)got;
    c->answer[c->got] = 0;
    int state = run->target->http ? http_answer(c) : clamd_answer(c);
    if (state == 0 && c->got < sizeof c->answer - 1) return;
    if (state == -1 && run->overload && (run->target->http ? http_refusal(c) : clamd_refusal(c))) {
        refused(run, c);
        return;
    }
    if (state != 1 || c->part < PARTS) {
        // The status, and what the body says of it.
        char said[512];
        const char *body = strstr(c->answer, "\r\n\r\n");
        snprintf(said, sizeof said, "%.12s %s%s", c->answer, c->part < PARTS ? "(before the end of the request) " : "",
                 run->target->http && body != NULL ? body + 4 : c->answer);
        give_up(run, c, said);
        return;
    }
    if (in_time(run)) run->result.taken_in_time++;
    if (c->begin >= run->counted_from) record(&run->result.scans, seconds_now() - c->begin);
    if (!run->keep) close_connection(c);
    if (run->interval > 0) rest(run, c);
    else begin_scan(run, c);
}

// Begins what is due on connections that have nothing to do. Returns how long it is until the next one, in seconds.
static double begin_due(struct run *run) {
    double now = seconds_now();
    if (now >= run->round.deadline) return 1;
    while (run->free_count > 0 && run->due <= now) {
        struct connection *c = run->free[run->first_free];
        run->first_free = (run->first_free + 1) % run->connections;
        run->free_count--;
        run->active++;
        begin_scan(run, c);
        run->due += run->interval;
    }
    if (run->due > now) return run->due - now;
    run->full = now;
    return 1;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t percentile(const struct times *times, double share) {
    if (times->count == 0) return 0;
    size_t at = (size_t)((double)times->count * share);
    return times->list[at < times->count ? at : times->count - 1];
}

static void sort(struct times *times) {
    if (times->count > 0) qsort(times->list, times->count, sizeof *times->list, by_value);
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void serve_events(struct run *run) {
    struct epoll_event events[64];
    for (;;) {
        double wait = run->interval > 0 ? begin_due(run) : 1;
        if (run->active == 0 && (run->interval == 0 || seconds_now() >= run->round.deadline)) return;
        struct timespec timeout = {.tv_sec = (time_t)wait, .tv_nsec = (long)((wait - (double)(time_t)wait) * 1e9)};
        int count = epoll_pwait2(run->epoll, events, 64, &timeout, NULL);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->fd >= 0 && c->busy && (events[i].events & EPOLLOUT) && write_some(run, c) != 0) c->part = PARTS;
            if (c->fd >= 0 && c->busy && (events[i].events & ~(uint32_t)EPOLLOUT)) read_some(run, c);
            // An end that the other side has made: it would be told again and again, for as long as nobody takes the connection.
            else if (c->fd >= 0 && !c->busy) close_connection(c);
        }
        if (seconds_now() > run->round.deadline + PATIENCE_SECONDS) {
            failed(run, "no answer in time");
            return;
        }
    }
}

static void measure(struct run *run, double seconds, int connections) {
    struct connection *list = calloc((size_t)connections, sizeof *list);
    run->free = calloc((size_t)connections, sizeof *run->free);
    if (list == NULL || run->free == NULL) abort();
    run->connections = connections;
    for (int i = 0; i < connections; i++) {
        list[i].fd = -1;
        set_free(run, &list[i]);
        // Connections that are kept are opened before the clock starts.
        if (!run->keep) continue;
        if (i > 0) usleep(connections > CONNECTIONS_FEW ? CONNECT_GAP_MICROSECONDS / 20 : CONNECT_GAP_MICROSECONDS);
        if (open_connection(run, &list[i]) != 0) failed(run, "connection refused");
    }
    double cpu = cpu_seconds();
    double begin = seconds_now();
    run->round.deadline = begin + seconds;
    run->due = begin;
    // In an open loop what is due while the server still accepts the connections isn't counted.
    run->counted_from = run->interval > 0 ? begin + ACCEPT_SECONDS : begin;
    if (run->interval == 0) {
        run->active = connections;
        for (int i = 0; i < connections; i++) begin_scan(run, &list[i]);
    }
    serve_events(run);
    double elapsed = seconds_now() - begin;
    if (run->interval > 0 && run->due < run->round.deadline)
        run->result.found_none += (uint64_t)((run->round.deadline - run->due) / run->interval);
    cpu = cpu_seconds() - cpu;
    for (int i = 0; i < connections; i++) close_connection(&list[i]);
    free(list);
    free(run->free);
    struct result *result = &run->result;
    sort(&result->scans);
    sort(&result->refused);
    sort(&result->refused_since_sent);
    printf("done {\"scans\":%zu,\"seconds\":%.6f,\"countedSeconds\":%.6f,\"errors\":%llu,\"firstError\":\"%s\",\"p50Us\":%u,"
           "\"p95Us\":%u,\"p99Us\":%u,\"refused\":%zu,\"refusedP50Us\":%u,\"refusedP99Us\":%u,\"takenInTime\":%llu,"
           "\"refusedInTime\":%llu,\"refusedSinceSentP50Us\":%u,\"refusedSinceSentP99Us\":%u,\"foundNone\":%llu,"
           "\"clientCpuSeconds\":%.6f}\n",
           result->scans.count, elapsed, run->round.deadline - run->counted_from, (unsigned long long)result->errors,
           result->first_error, percentile(&result->scans, 0.5), percentile(&result->scans, 0.95),
           percentile(&result->scans, 0.99), result->refused.count, percentile(&result->refused, 0.5),
           percentile(&result->refused, 0.99), (unsigned long long)result->taken_in_time,
           (unsigned long long)result->refused_in_time, percentile(&result->refused_since_sent, 0.5),
           percentile(&result->refused_since_sent, 0.99), (unsigned long long)result->found_none, cpu);
    free(result->scans.list);
    free(result->refused.list);
    free(result->refused_since_sent.list);
}

static void run_once(struct run *run, double seconds, int connections) {
    pthread_mutex_init(&run->round.lock, NULL);
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    measure(run, seconds, connections);
    close(run->epoll);
}

// 0, or -1: it can't be read.
static int load_keys(struct target *target, const char *path) {
    FILE *list = fopen(path, "re");
    if (list == NULL) return -1;
    char line[KEY_BYTES + 1];
    target->key_count = 0;
    while (fgets(line, sizeof line, list) != NULL) {
        line[strcspn(line, "\n")] = 0;
        target->keys = realloc(target->keys, (target->key_count + 1) * sizeof *target->keys);
        if (target->keys == NULL) abort();
        memcpy(target->keys[target->key_count++], line, KEY_BYTES);
    }
    fclose(list);
    return 0;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct target target = {0};
    struct files files = {0};
    char line[4096];
    char word[16];
    char path[4001];
    double seconds;
    double rate;
    int connections;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "http %d %127s", &target.port, target.key) == 2 || sscanf(line, "url %d %127s", &target.port, target.key) == 2) {
            target.http = 1;
            target.by_url = line[0] == 'u';
            printf("ready\n");
        } else if (sscanf(line, "keys %4000[^\n]", path) == 1) {
            if (load_keys(&target, path) != 0) {
                fprintf(stderr, "load: the list of keys can't be read\n");
                return 1;
            }
            printf("ready %zu\n", target.key_count);
        } else if (sscanf(line, "clamd %107[^\n]", target.path) == 1) {
            target.http = 0;
            printf("ready\n");
        } else if (sscanf(line, "files %15s %4000[^\n]", word, path) == 2) {
            if (files_load(&files, path, strcmp(word, "unique") == 0) != 0) {
                fprintf(stderr, "load: a file of the list can't be read\n");
                return 1;
            }
            printf("ready %zu\n", files.count);
        } else if (sscanf(line, "run %lf %d %15s", &seconds, &connections, word) == 3 && files.count > 0) {
            struct run run = {.target = &target, .files = &files, .keep = strcmp(word, "keep") == 0};
            run_once(&run, seconds, connections);
        } else if (sscanf(line, "%15s %lf %d %lf", word, &seconds, &connections, &rate) == 4 && rate > 0 && files.count > 0 &&
                   (strcmp(word, "pace") == 0 || strcmp(word, "overload") == 0)) {
            int overload = strcmp(word, "overload") == 0;
            struct run run = {.target = &target, .files = &files, .keep = 1, .interval = 1 / rate, .overload = overload};
            run_once(&run, seconds, connections);
        } else {
            fprintf(stderr, "load: not understood: %s", line);
            return 2;
        }
    }
    files_free(&files);
    free(target.keys);
    return 0;
}
