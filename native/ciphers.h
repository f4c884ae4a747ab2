// SPDX-License-Identifier: GPL-2.0-only
// The ciphers of documents that open without a password: what they hide is no secret, so nothing here takes the same time for all keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytes.h"

namespace sluice::ciphers {

class Rc4 {
 public:
  explicit Rc4(Bytes key);

  // The next bytes, in place.
  void Apply(std::span<uint8_t> bytes);

 private:
  uint8_t state_[256];
  uint8_t first_ = 0;
  uint8_t second_ = 0;
};

// FIPS 197, in chains of blocks.
class Aes {
 public:
  static constexpr size_t kBlock = 16;

  // Of 16 or 32 bytes.
  explicit Aes(Bytes key);

  // Whole blocks, in place, behind this one.
  void EncryptChain(std::span<uint8_t> bytes, Bytes before) const;
  void DecryptChain(std::span<uint8_t> bytes, Bytes before) const;

 private:
  void Encrypt(uint8_t* block) const;
  void Decrypt(uint8_t* block) const;

  size_t rounds_;
  std::vector<uint8_t> keys_;
};

}  // namespace sluice::ciphers
