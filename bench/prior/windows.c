// SPDX-License-Identifier: GPL-2.0-only
// In how many units of clean documents each window of six bytes lies, by the class of the layer that libclamav finds it in. One pass.
//
//     windows DATABASE LIST OUTPUT [SIZE]
//
// SIZE: the binary logarithm of how many buckets the tables have; 25, which takes 4.5 GB, is enough for half a billion different windows.
// LIST has a line for each document: its package, a tab, its path; those of a package lie together. A unit is some documents of one package:
// what a maker puts into all of its files counts little more than once. OUTPUT gets, by class, how many units there are, and the windows that
// lie in two or more of them (a hash, no bytes), and likewise the first four bytes of layers.
#include <clamav.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../native/windows.h"

// Documents of one unit, by class: many where a package has many of a kind.
static const unsigned kUnitDocuments[kClasses] = {8, 8, 1, 8, 1, 8, 8, 16, 8, 2, 1, 1, 1};

#define LAYER_BYTES_MAX (24u << 20)
#define SCAN_BYTES_MAX (300u << 20)
#define FILES_MAX 3000

// What a unit has had: bits by hash, for each class.
static uint32_t unit_bits;
static uint64_t* unit_seen[kClasses];
// Which words of them are not zero; more than so many are all cleared at once.
#define TOUCHED_MAX (1u << 20)
static uint32_t* touched[kClasses];
static uint32_t touched_count[kClasses];
// What any unit has had: a Bloom filter of three bits in one line of 64 bytes.
static uint64_t* seen;
// What two units have had: buckets of eight entries. From the lowest bit: 11 of the last unit, 10 of the count, 4 of the class, 39 of the hash.
static uint32_t buckets;
#define UNIT_MASK 0x7ffu
#define COUNT_AT 11
#define COUNT_MAX 0x3ffu
#define KEY_AT 21
static uint64_t* repeated;
static uint64_t dropped;

#define BEGINNINGS (1u << 18)
static struct {
  uint32_t bytes, used;
  uint16_t last[kClasses], count[kClasses];
} *beginnings;

static uint32_t units[kClasses];      // the number of the present one
static uint32_t of_package[kClasses]; // documents of the package that had the class
static uint32_t layers_of_document[kClasses];

static void BeginUnit(int class) {
  units[class]++;
  if (touched_count[class] < TOUCHED_MAX) {
    for (uint32_t at = 0; at < touched_count[class]; at++) unit_seen[class][touched[class][at]] = 0;
  } else {
    memset(unit_seen[class], 0, unit_bits / 8);
  }
  touched_count[class] = 0;
}

#define AHEAD 128
static WindowHash pending[AHEAD];
static unsigned pending_count;

static void CountOne(uint32_t first, uint32_t second, uint64_t class, uint32_t unit) {
  const uint64_t key = ((uint64_t)(second >> 25) << 32 | first) << 4 | class;
  uint64_t* bucket = repeated + (size_t)(second & (buckets - 1)) * 8;
  unsigned at = 0;
  for (; at < 8 && bucket[at] != 0; at++) {
    if (bucket[at] >> KEY_AT != key) continue;
    if ((bucket[at] & UNIT_MASK) == unit) return;
    const uint64_t count = bucket[at] >> COUNT_AT & COUNT_MAX;
    bucket[at] = key << KEY_AT | (count < COUNT_MAX ? count + 1 : count) << COUNT_AT | unit;
    return;
  }
  uint64_t* line = seen + (size_t)(first & (buckets - 1)) * 8;
  int known = 1;
  for (unsigned bit = 0, hash = second * 0x9e3779b1u; bit < 3; bit++, hash >>= 9) {
    const uint64_t mask = 1ull << (hash & 63);
    if (!(line[hash >> 6 & 7] & mask)) known = 0;
    line[hash >> 6 & 7] |= mask;
  }
  if (!known) return;
  if (at == 8) dropped++;
  else bucket[at] = key << KEY_AT | 2u << COUNT_AT | unit;
}

static void CountPending(int class) {
  for (unsigned at = 0; at < pending_count; at++) CountOne(pending[at].first, pending[at].second, (uint64_t)class, units[class] & UNIT_MASK);
  pending_count = 0;
}

#define BLOCK 64
static void CountWindows(const unsigned char* bytes, size_t length, int class, int in_small) {
  uint64_t* mine = unit_seen[class];
  WindowWalk walk = {.since_capital = WINDOW};
  for (size_t start = 0; start < length;) {
    WindowHash found[BLOCK];
    unsigned count = 0;
    for (; start < length && count < BLOCK; start++) {
      if (!StepWindow(&walk, bytes[start], in_small)) continue;
      found[count] = HashWindow(class, walk.window);
      __builtin_prefetch(mine + (found[count].second & (unit_bits - 1)) / 64, 1);
      count++;
    }
    for (unsigned at = 0; at < count; at++) {
      const uint32_t bit = found[at].second & (unit_bits - 1);
      if (mine[bit / 64] >> bit % 64 & 1) continue;
      if (mine[bit / 64] == 0 && touched_count[class] < TOUCHED_MAX) touched[class][touched_count[class]++] = bit / 64;
      mine[bit / 64] |= 1ull << bit % 64;
      __builtin_prefetch(repeated + (size_t)(found[at].second & (buckets - 1)) * 8, 1);
      __builtin_prefetch(seen + (size_t)(found[at].first & (buckets - 1)) * 8, 1);
      pending[pending_count++] = found[at];
      if (pending_count == AHEAD) CountPending(class);
    }
  }
  CountPending(class);
}

static void CountBeginning(const unsigned char* bytes, int class) {
  uint32_t four;
  memcpy(&four, bytes, 4);
  for (uint32_t at = MixWindow(four) & (BEGINNINGS - 1), tries = 0; tries < 64; tries++, at = (at + 1) & (BEGINNINGS - 1)) {
    if (beginnings[at].used && beginnings[at].bytes != four) continue;
    beginnings[at].used = 1;
    beginnings[at].bytes = four;
    if (beginnings[at].last[class] == (uint16_t)(units[class] + 1)) return;
    beginnings[at].last[class] = (uint16_t)(units[class] + 1);
    beginnings[at].count[class]++;
    return;
  }
}

static cl_error_t Layer(int fd, const char* type, const char** ancestors, size_t parent_size, const char* name, size_t length, const char* content,
                        uint32_t level, uint32_t attributes, void* context) {
  (void)fd, (void)ancestors, (void)parent_size, (void)name, (void)level, (void)attributes, (void)context;
  static unsigned char* normal;
  if (content == NULL || length < WINDOW) return CL_CLEAN;
  if (length > LAYER_BYTES_MAX) length = LAYER_BYTES_MAX;
  const int class = ClassOfType(type);
  const unsigned char* bytes = (const unsigned char*)content;
  if (layers_of_document[class]++ == 0 && of_package[class]++ % kUnitDocuments[class] == 0) BeginUnit(class);
  CountBeginning(bytes, class);
  CountWindows(bytes, length, class, 0);
  CountWindows(bytes, length, class, 1);
  if (!IsOfText(class)) return CL_CLEAN;
  if (normal == NULL) normal = malloc(LAYER_BYTES_MAX);
  CountWindows(normal, NormalizeText(bytes, length, normal), class, 0);
  return CL_CLEAN;
}

static void* Zeros(size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("mmap");
    exit(1);
  }
  if (bytes > 1u << 28) madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

// By class: its number, units, how many windows there are; then for each of these the hash and the count. Last the beginnings, as text.
static void Write(const char* path) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  fwrite(units, sizeof *units, kClasses, file);
  uint32_t count = 0;
  for (uint32_t at = 0; at < BEGINNINGS; at++) {
    for (int class = 0; class < kClasses; class++) count += beginnings[at].count[class] > 1;
  }
  fwrite(&count, sizeof count, 1, file);
  for (uint32_t at = 0; at < BEGINNINGS; at++) {
    for (uint32_t class = 0; class < kClasses; class++) {
      const uint32_t record[3] = {class, beginnings[at].bytes, beginnings[at].count[class]};
      if (record[2] > 1) fwrite(record, sizeof record, 1, file);
    }
  }
  for (size_t at = 0; at < (size_t)buckets * 8; at++) {
    if (repeated[at] == 0) continue;
    const uint64_t record = repeated[at] >> COUNT_AT;
    fwrite(&record, sizeof record, 1, file);
  }
  if (fclose(file) != 0) exit(1);
}

int main(int count, char** arguments) {
  if (count != 4 && count != 5) return 2;
  buckets = 1u << (count == 5 ? atoi(arguments[4]) : 25);
  unit_bits = buckets * 8;
  for (int class = 0; class < kClasses; class++) {
    unit_seen[class] = Zeros(unit_bits / 8);
    touched[class] = Zeros(TOUCHED_MAX * sizeof **touched);
  }
  seen = Zeros((size_t)buckets * 64);
  repeated = Zeros((size_t)buckets * 64);
  beginnings = Zeros(sizeof *beginnings * BEGINNINGS);
  cl_init(CL_INIT_DEFAULT);
  struct cl_engine* engine = cl_engine_new();
  unsigned signatures = 0;
  if (cl_load(arguments[1], engine, &signatures, CL_DB_STDOPT) != CL_SUCCESS) return 1;
  cl_engine_set_clcb_file_inspection(engine, Layer);
  cl_engine_set_num(engine, CL_ENGINE_MAX_SCANSIZE, SCAN_BYTES_MAX);
  cl_engine_set_num(engine, CL_ENGINE_MAX_FILESIZE, SCAN_BYTES_MAX);
  cl_engine_set_num(engine, CL_ENGINE_MAX_FILES, FILES_MAX);
  cl_engine_set_num(engine, CL_ENGINE_DISABLE_CACHE, 1);
  cl_engine_set_str(engine, CL_ENGINE_TMPDIR, "/dev/shm");
  if (cl_engine_compile(engine) != CL_SUCCESS) return 1;
  FILE* list = fopen(arguments[2], "r");
  if (list == NULL) return 1;
  char line[4096], package[4096] = "";
  unsigned documents = 0;
  while (fgets(line, sizeof line, list)) {
    line[strcspn(line, "\n")] = 0;
    char* path = strchr(line, '\t');
    if (path == NULL) return 1;
    *path++ = 0;
    if (strcmp(package, line) != 0) memset(of_package, 0, sizeof of_package);
    snprintf(package, sizeof package, "%s", line);
    memset(layers_of_document, 0, sizeof layers_of_document);
    struct cl_scan_options options = {.general = CL_SCAN_GENERAL_ALLMATCHES, .parse = ~0u};
    const char* name = NULL;
    unsigned long scanned = 0;
    cl_scanfile(path, &name, &scanned, engine, &options);
    if (++documents % 1000 == 0) fprintf(stderr, "%u documents\n", documents);
  }
  Write(arguments[3]);
  fprintf(stderr, "%u documents, dropped %llu, units by class:", documents, (unsigned long long)dropped);
  for (int class = 0; class < kClasses; class++) fprintf(stderr, " %u", units[class]);
  fputc('\n', stderr);
  return 0;
}
