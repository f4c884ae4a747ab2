// SPDX-License-Identifier: GPL-2.0-only
// Rich Text Format 1.9.1, "Objects"; [MS-OLEDS] 2.2.5. libclamav takes an object for one only where a blank is behind its word and nothing
// but eight zeros behind the name of its class.
#include "rtf.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "spellings.h"

namespace sluice::rtf {
namespace {

// In a group, or within one to the end of the bytes. Groups in it that begin with a word are something else.
class Digits {
 public:
  Digits(Bytes bytes, size_t at, size_t depth) : bytes_(bytes), at_(at), depth_(depth) {}

  std::optional<uint8_t> Next() {
    unsigned high = spelled::kNoDigit;
    while (depth_ > 0 && at_ < bytes_.size()) {
      if (bytes_[at_] == '\\') {
        PassWord();
        continue;
      }
      const uint8_t byte = bytes_[at_++];
      if (byte == '}') depth_--;
      if (byte == '{') {
        if (Has(bytes_, at_, "\\")) PassGroup();
        else depth_++;
      }
      const unsigned digit = spelled::ValueOf(byte);
      if (digit == spelled::kNoDigit) continue;
      if (high != spelled::kNoDigit) return static_cast<uint8_t>(high << 4 | digit);
      high = digit;
    }
    return std::nullopt;
  }

  uint32_t Number() {
    uint32_t number = 0;
    for (unsigned shift = 0; shift < 32; shift += 8) number |= static_cast<uint32_t>(Next().value_or(0)) << shift;
    return number;
  }

  // How many there were of them.
  uint64_t Pass(uint64_t count) {
    uint64_t passed = 0;
    while (passed < count && Next()) passed++;
    return passed;
  }

  // A backslash may be the last byte, without what it says.
  size_t at() const { return std::min(at_, bytes_.size()); }
  bool is_mixed() const { return is_mixed_; }

 private:
  void NoteMixed() { is_mixed_ = is_mixed_ || Has(bytes_, at_, "\\'") || Has(bytes_, at_, "\\bin"); }

  // A backslash with letters, a number and a blank, or with one sign.
  void PassWord() {
    NoteMixed();
    const size_t sign = ++at_;
    while (spelled::IsAlphaAt(bytes_, at_)) at_++;
    if (at_ == sign) {
      at_++;
      return;
    }
    if (Has(bytes_, at_, "-")) at_++;
    while (spelled::IsDecimalAt(bytes_, at_)) at_++;
    if (Has(bytes_, at_, " ")) at_++;
  }

  void PassGroup() {
    for (size_t depth = 1; depth > 0 && at_ < bytes_.size(); at_++) {
      if (bytes_[at_] == '{') depth++;
      if (bytes_[at_] == '}') depth--;
      if (bytes_[at_] != '\\') continue;
      NoteMixed();
      at_++;
    }
  }

  const Bytes bytes_;
  size_t at_;
  size_t depth_;
  bool is_mixed_ = false;
};

}  // namespace

Reading Read(Bytes bytes, size_t objects_max) {
  constexpr std::string_view kData = "\\objdata";
  // A version and a kind; then the names of a class, a topic and an item, each behind its length.
  constexpr uint64_t kHead = 8;
  constexpr int kNames = 3;
  Reading reading;
  if (!Has(bytes, 0, "{\\rt")) return reading;
  const std::string_view text = TextOf(bytes);
  for (size_t at = text.find(kData); at != text.npos && reading.objects.size() <= objects_max; at = text.find(kData, at)) {
    Digits digits(bytes, at, 1);
    digits.Pass(kHead);
    for (int name = 0; name < kNames; name++) digits.Pass(digits.Number());
    const uint32_t said = digits.Number();
    Object object{digits.at(), 0, 0};
    object.size = digits.Pass(said);
    object.end = digits.at();
    if (object.size > 0) reading.objects.push_back(object);
    digits.Pass(UINT64_MAX);
    reading.is_mixed = reading.is_mixed || digits.is_mixed();
    at = digits.at();
  }
  return reading;
}

streams::End Decode(Bytes digits, streams::Output& output) {
  std::array<uint8_t, 4096> bytes;
  Digits left(digits, 0, SIZE_MAX / 2);
  while (true) {
    size_t count = 0;
    for (; count < bytes.size(); count++) {
      const std::optional<uint8_t> byte = left.Next();
      if (!byte) break;
      bytes[count] = *byte;
    }
    if (!output.Put(Bytes(bytes).first(count))) return output.stopped();
    if (count < bytes.size()) return streams::End::kWhole;
  }
}

}  // namespace sluice::rtf
