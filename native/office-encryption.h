// SPDX-License-Identifier: GPL-2.0-only
// Workbooks that are encrypted and open without a question, since Excel tries a password of its own first ([MS-OFFCRYPTO] 2.3.4 to 2.3.6).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bytes.h"
#include "output.h"

namespace sluice::office {

// More of them than so many nobody writes: Office asks for 100,000.
inline constexpr uint64_t kSpinsMost = 1'000'000;

// How a key is made of a password, and what proves that it is the one.
struct Lock {
  // The password's digest is digested again so often.
  uint64_t spins = 0;
  // Agile encryption; the other one is called standard.
  bool is_agile = false;
  std::string_view digest = {};
  size_t key_size = 0;
  std::vector<uint8_t> salt = {};
  std::vector<uint8_t> proof = {};
  std::vector<uint8_t> proof_digest = {};
  // Of agile encryption: the key of the document, encrypted; and what that is used with.
  std::vector<uint8_t> sealed_key = {};
  std::string_view document_digest = {};
  size_t document_key_size = 0;
  std::vector<uint8_t> document_salt = {};
};

// Of the stream `EncryptionInfo`. Nothing: it says something else, or in several ways.
std::optional<Lock> ReadLock(Bytes info);

// The key of the document. Empty: another password opens it.
std::vector<uint8_t> OpenLock(const Lock& lock);

// Of the stream `EncryptedPackage`.
streams::End Decrypt(Bytes package, const Lock& lock, Bytes key, streams::Output& output);

// Of the stream `Workbook` of an older workbook.
enum class Workbook : uint8_t {
  kPlain,
  // It was decrypted in place, and says no more that it is encrypted.
  kOpened,
  // Another password opens it, or it is encrypted in the oldest way.
  kLocked,
};
Workbook Open(std::span<uint8_t> stream);

}  // namespace sluice::office
