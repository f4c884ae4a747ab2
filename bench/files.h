// SPDX-License-Identifier: MIT
// The files of a scenario and who takes which one next; shared by the raw loop and the load generator.
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#define STAMP_BYTES 8

struct file {
    unsigned char *bytes;
    size_t size;
};

struct files {
    struct file *list;
    size_t count;
    size_t largest;
    // Unique: every scan gets STAMP_BYTES of its own in the middle of the file.
    int unique;
    uint64_t stamp;
};

// One round: hands out file after file until the time is over and the pass through the list is whole.
struct round {
    pthread_mutex_t lock;
    size_t next;
    int over;
    double deadline;
};

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t stamp_offset(size_t size) {
    return size / 2 / STAMP_BYTES * STAMP_BYTES;
}

static void files_free(struct files *files) {
    for (size_t i = 0; i < files->count; i++) free(files->list[i].bytes);
    free(files->list);
    uint64_t stamp = files->stamp; // goes on, so that no later round repeats a content
    memset(files, 0, sizeof *files);
    files->stamp = stamp;
}

static int file_read(struct file *file, const char *path) {
    FILE *in = fopen(path, "rb");
    if (in == NULL) return -1;
    if (fseeko(in, 0, SEEK_END) != 0) {
        fclose(in);
        return -1;
    }
    off_t size = ftello(in);
    rewind(in);
    file->size = size > 0 ? (size_t)size : 0;
    file->bytes = malloc(file->size + 1);
    size_t got = file->bytes == NULL ? 0 : fread(file->bytes, 1, file->size, in);
    fclose(in);
    return file->size > 0 && got == file->size ? 0 : -1;
}

// Reads the files that the list file at `path` names, one path a line.
static int files_load(struct files *files, const char *path, int unique) {
    files_free(files);
    FILE *in = fopen(path, "r");
    if (in == NULL) return -1;
    char line[4096];
    int failed = 0;
    while (!failed && fgets(line, sizeof line, in) != NULL) {
        line[strcspn(line, "\n")] = 0;
        struct file *grown = realloc(files->list, (files->count + 1) * sizeof *grown);
        if (grown == NULL) abort();
        files->list = grown;
        struct file *file = &files->list[files->count++];
        memset(file, 0, sizeof *file);
        failed = file_read(file, line) != 0 || (unique && file->size < 2 * STAMP_BYTES);
        if (file->size > files->largest) files->largest = file->size;
    }
    fclose(in);
    files->unique = unique;
    return failed || files->count == 0 ? -1 : 0;
}

// The next file of the round and its stamp, or NULL when the round is over.
static struct file *round_next(struct round *round, struct files *files, uint64_t *stamp) {
    struct file *file = NULL;
    pthread_mutex_lock(&round->lock);
    if (!round->over && round->next % files->count == 0 && seconds_now() >= round->deadline) round->over = 1;
    if (!round->over) {
        file = &files->list[round->next++ % files->count];
        *stamp = ++files->stamp;
    }
    pthread_mutex_unlock(&round->lock);
    return file;
}

#endif
