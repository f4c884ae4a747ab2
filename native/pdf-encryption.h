// SPDX-License-Identifier: GPL-2.0-only
// Documents that are encrypted and open without a password: readers ask nobody (ISO 32000-2, 7.6).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bytes.h"
#include "output.h"
#include "pdf-lexer.h"

namespace sluice::pdf {

struct Encryption {
  // None: streams lie there as they are.
  enum class Cipher : uint8_t { kNone, kRc4, kAes128, kAes256 };
  Cipher cipher = Cipher::kNone;
  // Of texts, which stand in objects.
  Cipher text_cipher = Cipher::kNone;
  // With the number of an object each stream has its own, but by the last one. Empty: it asks for a password, or isn't known here.
  std::vector<uint8_t> key = {};
  // What describes the document may lie there as it is.
  bool has_plain_metadata = false;
  // It is said in several ways.
  bool is_doubtful = false;
};

// Of a text, or of digits; empty: it is something else, or null.
std::vector<uint8_t> BytesOf(const Token* token);

Encryption ReadEncryption(std::string_view text);

// What is too short is nothing. `cipher` is one of the two.
std::vector<uint8_t> Decrypted(Bytes data, const Encryption& encryption, Encryption::Cipher cipher, uint32_t number, uint32_t generation);
streams::End Decrypt(Bytes data, const Encryption& encryption, uint32_t number, uint32_t generation, streams::Output& output);

}  // namespace sluice::pdf
