// SPDX-License-Identifier: GPL-2.0-only
// What scripts of a PDF say whose letters are written as numbers (ISO 32000-2, 7.3.4): libclamav takes those behind a backslash as they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "pdf-encryption.h"

namespace sluice::pdf {

struct Scripts {
  std::vector<std::vector<uint8_t>> texts;
  // Texts lie in each other, so often that not all of them were read.
  bool is_too_much = false;
};

// Texts behind the name of a script, and those that are an object by themselves, which it may name. No more than so many, and one.
Scripts ReadScripts(std::string_view text, size_t texts_max);

// Texts of a document that is encrypted and opens without a password (7.6.2): all of them as one, in lines, and then scripts each for itself.
Scripts ReadEncryptedTexts(std::string_view text, const Encryption& encryption, size_t texts_max);

}  // namespace sluice::pdf
