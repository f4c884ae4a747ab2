// SPDX-License-Identifier: GPL-2.0-only
// Gates that are plain bytes, wherever they lie: looked for by ourselves, in what libclamav hands to its matcher.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::literals {

// A gate as gates.h names it.
struct Gate {
  uint32_t number;
  // Bits.
  uint32_t shares;
};

// Literals of all kinds of files. libclamav's matcher takes several times as long for them: it follows a tree at each byte.
class Literals {
 public:
  // Reads a file of so many body signatures that are nothing but bytes (.ndb); throws LoadError.
  Literals(const std::string& path, size_t count);
  ~Literals();

  // Those of files of this kind that lie in these bytes, one as often as it does.
  void Find(uint32_t target, std::span<const uint8_t> bytes, const std::function<void(Gate)>& found) const;

  // A content of each kind, with some of its literals, and the numbers of these.
  struct Sample {
    std::string content;
    std::vector<uint32_t> gates;
  };
  std::vector<Sample> Samples() const;

 private:
  struct Set;
  // By target; null: none.
  std::vector<std::unique_ptr<Set>> sets_;
};

}  // namespace sluice::literals
