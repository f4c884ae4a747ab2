// SPDX-License-Identifier: GPL-2.0-only
#include "ciphers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace sluice::ciphers {
namespace {

constexpr uint8_t Doubled(uint8_t value) { return static_cast<uint8_t>(value << 1 ^ (value >> 7) * 0x1b); }

constexpr uint8_t Product(uint8_t one, uint8_t other) {
  uint8_t product = 0;
  for (; other != 0; other >>= 1, one = Doubled(one)) product ^= (other & 1) != 0 ? one : 0;
  return product;
}

using Table = std::array<uint8_t, 256>;

// By the powers of three, each with the power of its inverse.
constexpr Table kSubstitutes = [] {
  Table table{};
  uint8_t power = 1;
  uint8_t inverse = 1;
  do {
    power = static_cast<uint8_t>(power ^ Doubled(power));
    inverse = Product(inverse, 0xf6);
    table[power] = static_cast<uint8_t>(inverse ^ std::rotl(inverse, 1) ^ std::rotl(inverse, 2) ^ std::rotl(inverse, 3) ^ std::rotl(inverse, 4) ^ 0x63);
  } while (power != 1);
  table[0] = 0x63;
  return table;
}();

constexpr Table kSubstituted = [] {
  Table table{};
  for (size_t at = 0; at < table.size(); at++) table[kSubstitutes[at]] = static_cast<uint8_t>(at);
  return table;
}();

template <uint8_t kFactor>
constexpr Table kProducts = [] {
  Table table{};
  for (size_t at = 0; at < table.size(); at++) table[at] = Product(static_cast<uint8_t>(at), kFactor);
  return table;
}();

// A column lies in four bytes. Those of a row move by its number.
template <typename Move>
void MoveRows(uint8_t* block, const Table& table, Move move) {
  uint8_t moved[Aes::kBlock];
  for (size_t at = 0; at < Aes::kBlock; at++) moved[at] = table[block[move(at)]];
  std::memcpy(block, moved, sizeof moved);
}

void Mix(uint8_t* column, const Table& first, const Table& second, const Table& third, const Table& fourth) {
  const uint8_t a = column[0];
  const uint8_t b = column[1];
  const uint8_t c = column[2];
  const uint8_t d = column[3];
  column[0] = static_cast<uint8_t>(first[a] ^ second[b] ^ third[c] ^ fourth[d]);
  column[1] = static_cast<uint8_t>(fourth[a] ^ first[b] ^ second[c] ^ third[d]);
  column[2] = static_cast<uint8_t>(third[a] ^ fourth[b] ^ first[c] ^ second[d]);
  column[3] = static_cast<uint8_t>(second[a] ^ third[b] ^ fourth[c] ^ first[d]);
}

void Add(uint8_t* block, const uint8_t* other) {
  for (size_t at = 0; at < Aes::kBlock; at++) block[at] ^= other[at];
}

}  // namespace

Rc4::Rc4(Bytes key) {
  for (size_t at = 0; at < sizeof state_; at++) state_[at] = static_cast<uint8_t>(at);
  uint8_t other = 0;
  for (size_t at = 0; at < sizeof state_; at++) {
    other = static_cast<uint8_t>(other + state_[at] + key[at % key.size()]);
    std::swap(state_[at], state_[other]);
  }
}

void Rc4::Apply(std::span<uint8_t> bytes) {
  for (uint8_t& byte : bytes) {
    second_ = static_cast<uint8_t>(second_ + state_[++first_]);
    std::swap(state_[first_], state_[second_]);
    byte ^= state_[static_cast<uint8_t>(state_[first_] + state_[second_])];
  }
}

Aes::Aes(Bytes key) : rounds_(key.size() / 4 + 6), keys_(key.begin(), key.end()) {
  const size_t words = key.size() / 4;
  uint8_t constant = 1;
  for (size_t word = words; word < 4 * (rounds_ + 1); word++) {
    uint8_t last[4];
    std::memcpy(last, keys_.data() + 4 * (word - 1), sizeof last);
    if (word % words == 0) {
      std::rotate(last, last + 1, last + 4);
      for (uint8_t& byte : last) byte = kSubstitutes[byte];
      last[0] ^= std::exchange(constant, Doubled(constant));
    } else if (words > 6 && word % words == 4) {
      for (uint8_t& byte : last) byte = kSubstitutes[byte];
    }
    for (size_t at = 0; at < sizeof last; at++) keys_.push_back(static_cast<uint8_t>(keys_[4 * (word - words) + at] ^ last[at]));
  }
}

void Aes::Encrypt(uint8_t* block) const {
  Add(block, keys_.data());
  for (size_t round = 1; round <= rounds_; round++) {
    MoveRows(block, kSubstitutes, [](size_t at) { return (at + 4 * (at % 4)) % kBlock; });
    for (size_t at = 0; at < kBlock && round < rounds_; at += 4) Mix(block + at, kProducts<2>, kProducts<3>, kProducts<1>, kProducts<1>);
    Add(block, keys_.data() + kBlock * round);
  }
}

void Aes::Decrypt(uint8_t* block) const {
  for (size_t round = rounds_; round > 0; round--) {
    Add(block, keys_.data() + kBlock * round);
    for (size_t at = 0; at < kBlock && round < rounds_; at += 4) Mix(block + at, kProducts<14>, kProducts<11>, kProducts<13>, kProducts<9>);
    MoveRows(block, kSubstituted, [](size_t at) { return (at + 12 * (at % 4)) % kBlock; });
  }
  Add(block, keys_.data());
}

void Aes::EncryptChain(std::span<uint8_t> bytes, Bytes before) const {
  const uint8_t* last = before.data();
  for (size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) {
    Add(bytes.data() + at, last);
    Encrypt(bytes.data() + at);
    last = bytes.data() + at;
  }
}

void Aes::DecryptChain(std::span<uint8_t> bytes, Bytes before) const {
  uint8_t last[kBlock];
  std::memcpy(last, before.data(), kBlock);
  for (size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) {
    uint8_t encrypted[kBlock];
    std::memcpy(encrypted, bytes.data() + at, kBlock);
    Decrypt(bytes.data() + at);
    Add(bytes.data() + at, last);
    std::memcpy(last, encrypted, kBlock);
  }
}

}  // namespace sluice::ciphers
