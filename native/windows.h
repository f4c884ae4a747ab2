// SPDX-License-Identifier: GPL-2.0-only
// Windows of six bytes: which class of layer they are of, and their hashes. Plain C, for bench/prior/windows.c as well.
#pragma once

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Classes are ClamAV's targets.
enum {
  kClassOther = 0,
  kClassProgram = 1,
  kClassOle2 = 2,
  kClassHtml = 3,
  kClassMail = 4,
  kClassPicture = 5,
  kClassElf = 6,
  kClassText = 7,
  kClassMacho = 9,
  kClassPdf = 10,
  kClassFlash = 11,
  kClassJava = 12,
  kClasses = 13,
};

#define WINDOW 6
#define WINDOW_MASK 0xffffffffffffull

typedef struct {
  uint32_t first;
  uint32_t second;
} WindowHash;

// Of a layer, by what libclamav says it is.
static inline int ClassOfType(const char* type) {
  static const struct {
    const char* part;
    int of_class;
  } kParts[] = {{"MSEXE", kClassProgram}, {"MSOLE2", kClassOle2}, {"HTML", kClassHtml},    {"MAIL", kClassMail},
                {"GRAPHICS", kClassPicture}, {"GIF", kClassPicture}, {"PNG", kClassPicture}, {"JPEG", kClassPicture},
                {"TIFF", kClassPicture},  {"ELF", kClassElf},     {"MACHO", kClassMacho},  {"TYPE_PDF", kClassPdf},
                {"SWF", kClassFlash},     {"JAVA", kClassJava},   {"TEXT", kClassText},    {"SCRIPT", kClassText}};
  for (size_t at = 0; type != NULL && at < sizeof kParts / sizeof *kParts; at++) {
    if (strstr(type, kParts[at].part) != NULL) return kParts[at].of_class;
  }
  return kClassOther;
}

// Its bytes are matched as normalised text too.
static inline int IsOfText(int of_class) { return of_class == kClassHtml || of_class == kClassText || of_class == kClassMail; }

static inline uint32_t MixWindow(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ x >> 16;
}

// As src/engine/clamav/gates/prior.ts has it.
static inline WindowHash HashWindow(int of_class, uint64_t window) {
  const uint32_t high = (uint32_t)(window >> 24) & 0xffffff;
  const uint32_t low = (uint32_t)window & 0xffffff;
  WindowHash hash;
  hash.first = MixWindow(low ^ (uint32_t)of_class << 24 ^ high * 0x9e3779b1u);
  hash.second = MixWindow(high ^ hash.first * 0x27d4eb2fu);
  return hash;
}

// Two different bytes at most: they are everywhere, and not counted.
static inline int HasFewBytes(uint64_t window) {
  const uint64_t first = window & 0xff;
  uint64_t other = first;
  for (int at = 1; at < WINDOW; at++) {
    const uint64_t byte = window >> 8 * at & 0xff;
    if (byte == first || byte == other) continue;
    if (other != first) return 0;
    other = byte;
  }
  return 1;
}

// Goes over bytes, as they are or with small letters in place of capital ones.
typedef struct {
  uint64_t window;
  size_t length;
  unsigned printable;
  unsigned since_capital;
} WindowWalk;

// The next byte; whether a window ends with it that counts. In small letters only those count that are printable, with the zeros between
// wide characters, and have a capital letter: all others are the same as they are.
static inline int StepWindow(WindowWalk* walk, unsigned char byte, int in_small) {
  if (in_small) {
    walk->printable = byte == 0 || (byte >= '\t' && byte <= '~') ? walk->printable + 1 : 0;
    walk->since_capital = byte >= 'A' && byte <= 'Z' ? 0 : walk->since_capital + 1;
    byte = (unsigned char)tolower(byte);
  }
  walk->window = (walk->window << 8 | byte) & WINDOW_MASK;
  walk->length++;
  if (in_small && (walk->printable < WINDOW || walk->since_capital >= WINDOW)) return 0;
  return walk->length >= WINDOW && !HasFewBytes(walk->window);
}

// As libclamav's normalised text: small letters, one blank for all space, no other control characters. Returns the length of what is put out.
static inline size_t NormalizeText(const unsigned char* bytes, size_t length, unsigned char* out) {
  size_t end = 0;
  for (size_t at = 0; at < length; at++) {
    const unsigned char byte = bytes[at];
    if (isspace(byte)) {
      if (end == 0 || out[end - 1] != ' ') out[end++] = ' ';
    } else if (byte >= ' ') {
      out[end++] = (unsigned char)tolower(byte);
    }
  }
  return end;
}
