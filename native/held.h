// SPDX-License-Identifier: GPL-2.0-only
// Bytes that were unpacked here and wait to be looked at. They lie in memory of their own and count as if they were files of the
// temporary folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace sluice {

class Held {
 public:
  Held() = default;
  ~Held();
  Held(Held&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), size_(std::exchange(other.size_, 0)), room_(std::exchange(other.room_, 0)) {}
  Held& operator=(Held&& other) noexcept;

  // Room behind what is there, at least `kStep` of it. Empty: the temporary folder would be over its bound, or memory is short.
  std::span<uint8_t> Room();
  // So many bytes of the room were filled.
  void Took(size_t count) { size_ += count; }
  // Nothing more comes: what is left of the room goes back.
  void Finish();

  std::span<const uint8_t> bytes() const { return {start_, size_}; }

 private:
  static constexpr size_t kStep = 64 * 1024;
  void Release();

  uint8_t* start_ = nullptr;
  size_t size_ = 0;
  size_t room_ = 0;
};

}  // namespace sluice
