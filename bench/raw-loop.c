// SPDX-License-Identifier: GPL-2.0-only
// The plain loop over libclamav that everything else is measured against: threads, buffers in memory, nothing else.
// The engine's options are those of native/clamav.cc without gates; keep both in step.
//
// Usage: raw-loop DATABASE_DIR TEMP_DIR, then a command a line on stdin and an answer a line on stdout:
//   files unique|fixed LIST_FILE   -> ready COUNT
//   check                          -> notclean INDEX... (files of the list that are not simply clean)
//   run SECONDS THREADS            -> done {json}
#include <clamav.h>
#include <malloc.h>

#include "files.h"

struct worker {
    pthread_t thread;
    struct cl_engine *engine;
    struct files *files;
    struct round *round;
    pthread_barrier_t *start;
    unsigned char *scratch;
    uint64_t scans;
    uint64_t notclean;
    char first_error[128];
};

static struct cl_scan_options scan_options(void) {
    struct cl_scan_options options;
    memset(&options, 0, sizeof options);
    options.general = CL_SCAN_GENERAL_HEURISTICS;
    options.parse = ~0u;
    options.heuristic =
        CL_SCAN_HEURISTIC_EXCEEDS_MAX | CL_SCAN_HEURISTIC_ENCRYPTED_ARCHIVE | CL_SCAN_HEURISTIC_ENCRYPTED_DOC;
    return options;
}

static cl_error_t scan_memory(const void *bytes, size_t size, struct cl_engine *engine, const char **name) {
    cl_fmap_t *map = cl_fmap_open_memory(bytes, size);
    if (map == NULL) return CL_EMAP;
    struct cl_scan_options options = scan_options();
    unsigned long scanned = 0;
    *name = NULL;
    cl_error_t code = cl_scanmap_callback(map, NULL, name, &scanned, engine, &options, NULL);
    cl_fmap_close(map);
    return code;
}

static void *work(void *argument) {
    struct worker *self = argument;
    pthread_barrier_wait(self->start);
    uint64_t stamp = 0;
    struct file *file;
    while ((file = round_next(self->round, self->files, &stamp)) != NULL) {
        unsigned char *bytes = file->bytes;
        if (self->files->unique) {
            // One file only: the thread's own copy of it was made before the clock started.
            bytes = self->scratch;
            memcpy(bytes + stamp_offset(file->size), &stamp, STAMP_BYTES);
        }
        const char *name = NULL;
        cl_error_t code = scan_memory(bytes, file->size, self->engine, &name);
        self->scans++;
        if (code != CL_CLEAN && self->notclean++ == 0) {
            snprintf(self->first_error, sizeof self->first_error, "%.60s %.60s", cl_strerror(code),
                     name == NULL ? "" : name);
        }
    }
    return NULL;
}

static void run(struct cl_engine *engine, struct files *files, double seconds, unsigned threads) {
    struct worker *workers = calloc(threads, sizeof *workers);
    struct round round = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        struct worker *worker = &workers[i];
        worker->engine = engine;
        worker->files = files;
        worker->round = &round;
        worker->start = &start;
        if (files->unique) {
            worker->scratch = malloc(files->largest);
            memcpy(worker->scratch, files->list[0].bytes, files->largest);
        }
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) abort();
    }
    double begin = seconds_now();
    round.deadline = begin + seconds;
    pthread_barrier_wait(&start);
    uint64_t scans = 0;
    uint64_t notclean = 0;
    char first_error[128] = "";
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        scans += workers[i].scans;
        notclean += workers[i].notclean;
        if (workers[i].notclean > 0) memcpy(first_error, workers[i].first_error, sizeof first_error);
        free(workers[i].scratch);
    }
    double elapsed = seconds_now() - begin;
    pthread_barrier_destroy(&start);
    free(workers);
    printf("done {\"scans\":%llu,\"seconds\":%.6f,\"errors\":%llu,\"firstError\":\"%s\"}\n", (unsigned long long)scans,
           elapsed, (unsigned long long)notclean, first_error);
}

static void check(struct cl_engine *engine, struct files *files) {
    printf("notclean");
    for (size_t i = 0; i < files->count; i++) {
        const char *name = NULL;
        if (scan_memory(files->list[i].bytes, files->list[i].size, engine, &name) != CL_CLEAN) printf(" %zu", i);
    }
    printf("\n");
}

#define MIB (1024LL * 1024)
#define MAX_SCAN_SIZE (200 * MIB)

static const struct {
    enum cl_engine_field field;
    long long value;
} settings[] = {
    {CL_ENGINE_MAX_SCANSIZE, MAX_SCAN_SIZE},
    {CL_ENGINE_MAX_FILESIZE, 2000 * MIB},
    {CL_ENGINE_MAX_FILES, 10000},
    {CL_ENGINE_MAX_RECURSION, 17},
    {CL_ENGINE_MAX_SCANTIME, 25000},
    {CL_ENGINE_MAX_EMBEDDEDPE, MAX_SCAN_SIZE},
    {CL_ENGINE_MAX_HTMLNORMALIZE, MAX_SCAN_SIZE},
    {CL_ENGINE_MAX_HTMLNOTAGS, MAX_SCAN_SIZE},
    {CL_ENGINE_MAX_SCRIPTNORMALIZE, MAX_SCAN_SIZE},
    {CL_ENGINE_MAX_ZIPTYPERCG, MAX_SCAN_SIZE},
    {CL_ENGINE_PCRE_MAX_FILESIZE, MAX_SCAN_SIZE},
    {CL_ENGINE_DISABLE_CACHE, 1},
};

static struct cl_engine *load(const char *database, const char *temp) {
    unsigned signatures = 0;
    if (cl_init(CL_INIT_DEFAULT) != CL_SUCCESS) return NULL;
    struct cl_engine *engine = cl_engine_new();
    if (engine == NULL) return NULL;
    cl_error_t code = CL_SUCCESS;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && code == CL_SUCCESS; i++) {
        code = cl_engine_set_num(engine, settings[i].field, settings[i].value);
    }
    if (code == CL_SUCCESS) code = cl_engine_set_str(engine, CL_ENGINE_TMPDIR, temp);
    if (code == CL_SUCCESS) code = cl_load(database, engine, &signatures, CL_DB_STDOPT);
    if (code == CL_SUCCESS) code = cl_engine_compile(engine);
    if (code != CL_SUCCESS) {
        fprintf(stderr, "raw-loop: the database does not load: %s\n", cl_strerror(code));
        return NULL;
    }
    printf("loaded {\"version\":\"%s\",\"signatures\":%u}\n", cl_retver(), signatures);
    return engine;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count != 3) {
        fprintf(stderr, "usage: raw-loop DATABASE_DIR TEMP_DIR\n");
        return 2;
    }
    // With many logical signatures a scan takes and frees megabytes of counters. By default glibc may give them back to the
    // kernel each time (over 600 page faults for 1 KB, three times slower) or not, depending on what the process freed before.
    // The measure must not: it keeps its memory. 32 MB is the most that M_MMAP_THRESHOLD takes.
    if (mallopt(M_MMAP_THRESHOLD, 32 << 20) != 1 || mallopt(M_TRIM_THRESHOLD, 1 << 30) != 1) return 1;
    struct cl_engine *engine = load(arguments[1], arguments[2]);
    if (engine == NULL) return 1;
    struct files files = {0};
    char line[4096];
    char mode[16];
    char path[4001];
    double seconds;
    unsigned threads;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "files %15s %4000[^\n]", mode, path) == 2) {
            if (files_load(&files, path, strcmp(mode, "unique") == 0) != 0) {
                fprintf(stderr, "raw-loop: a file of the list can't be read\n");
                return 1;
            }
            printf("ready %zu\n", files.count);
        } else if (sscanf(line, "run %lf %u", &seconds, &threads) == 2 && files.count > 0 && threads > 0) {
            run(engine, &files, seconds, threads);
        } else if (strcmp(line, "check\n") == 0) {
            check(engine, &files);
        } else {
            fprintf(stderr, "raw-loop: not understood: %s", line);
            return 2;
        }
    }
    files_free(&files);
    cl_engine_free(engine);
    return 0;
}
