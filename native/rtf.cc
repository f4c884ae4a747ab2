// SPDX-License-Identifier: GPL-2.0-only
// Rich Text Format 1.9.1, "Objects"; [MS-OLEDS] 2.2.5; [MS-OXRTFCP]. libclamav takes an object for one only where a blank is behind its word and nothing
// but eight zeros behind the name of its class.
#include "rtf.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

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

// Bits say which of eight tokens is a byte, and which a place among the last 4,096 bytes and how many there are from it on. These begin with what most bodies have.
std::optional<streams::End> UnpackBody(Bytes bytes, streams::Output& output) {
  constexpr size_t kMark = 8;
  constexpr size_t kHead = 16;
  constexpr int kTokens = 8;
  constexpr std::string_view kBegin =
      "{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArialTimes New Roman"
      "Courier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";
  if (Has(bytes, kMark, "MELA") && bytes.size() > kHead) return output.Put(bytes.subspan(kHead)) ? streams::End::kWhole : output.stopped();
  if (!Has(bytes, kMark, "LZFu")) return std::nullopt;
  std::array<uint8_t, 4096> last{};
  std::copy(kBegin.begin(), kBegin.end(), last.begin());
  size_t next = kBegin.size();
  size_t put = next;
  const auto add = [&](uint8_t byte) {
    last[next++] = byte;
    if (next < last.size()) return true;
    next = 0;
    return output.Put(Bytes(last).subspan(std::exchange(put, 0)));
  };
  const auto end_as = [&](streams::End end) { return output.Put(Bytes(last).subspan(put, next - put)) ? end : output.stopped(); };
  for (size_t at = kHead; at < bytes.size();) {
    unsigned are_places = bytes[at++];
    for (int token = 0; token < kTokens && at < bytes.size(); token++, are_places >>= 1) {
      const uint8_t byte = bytes[at++];
      if ((are_places & 1) == 0) {
        if (!add(byte)) return output.stopped();
        continue;
      }
      if (at == bytes.size()) break;
      const unsigned place = static_cast<unsigned>(byte << 8 | bytes[at++]);
      size_t from = place >> 4;
      // The place where the next byte would go is the end.
      if (from == next) return end_as(streams::End::kWhole);
      for (unsigned left = (place & 15) + 2; left > 0; left--, from = (from + 1) % last.size()) {
        if (!add(last[from])) return output.stopped();
      }
    }
  }
  return end_as(streams::End::kCut);
}

}  // namespace sluice::rtf
