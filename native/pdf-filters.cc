// SPDX-License-Identifier: GPL-2.0-only
// One filter after the other. What comes out of each is held until the next one has read it.
#include "pdf-filters.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "held.h"
#include "hex.h"
#include "pdf-lexer.h"

namespace sluice::pdf {
namespace {

// So many are decoded at once.
constexpr size_t kAtOnce = 64 << 10;

bool IsBlank(uint8_t byte) { return kBlanks.find(static_cast<char>(byte)) != kBlanks.npos; }

streams::End DecodeHex(Bytes data, streams::Output& output) {
  const size_t end = std::min(TextOf(data).find('>'), data.size());
  std::vector<uint8_t> decoded;
  const bool has_room = ForBytes(TextOf(data).substr(0, end), [&](uint8_t byte) {
    decoded.push_back(byte);
    if (decoded.size() < kAtOnce) return true;
    if (!output.Put(decoded)) return false;
    decoded.clear();
    return true;
  });
  return has_room && output.Put(decoded) ? streams::End::kWhole : output.stopped();
}

// Five letters are four bytes, and a `z` is four zeros. What is said before them by PostScript some readers pass over.
streams::End DecodeBase85(Bytes data, streams::Output& output) {
  constexpr uint8_t kFirst = '!';
  constexpr uint8_t kLast = 'u';
  constexpr size_t kGroup = 5;
  size_t at = 0;
  while (at < data.size() && IsBlank(data[at])) at++;
  if (Has(data, at, "<~")) at += 2;
  std::vector<uint8_t> decoded;
  uint64_t value = 0;
  size_t count = 0;
  const auto take = [&](size_t bytes) {
    for (size_t index = 0; index < bytes; index++) decoded.push_back(static_cast<uint8_t>(value >> (24 - 8 * index)));
    value = 0;
    count = 0;
  };
  for (; at < data.size(); at++) {
    if (decoded.size() >= kAtOnce) {
      if (!output.Put(decoded)) return output.stopped();
      decoded.clear();
    }
    const uint8_t byte = data[at];
    if (byte == '~') break;
    if (byte == 'z' && count == 0) {
      decoded.insert(decoded.end(), 4, 0);
    } else if (byte >= kFirst && byte <= kLast) {
      value = value * 85 + (byte - kFirst);
      if (++count == kGroup) take(kGroup - 1);
    }
  }
  if (count > 1) {
    const size_t bytes = count - 1;
    for (; count < kGroup; count++) value = value * 85 + (kLast - kFirst);
    take(bytes);
  }
  return output.Put(decoded) ? streams::End::kWhole : output.stopped();
}

// As many bytes as they are, or one of them again and again (7.4.5).
streams::End DecodeRuns(Bytes data, streams::Output& output) {
  constexpr uint8_t kEnd = 128;
  constexpr size_t kTwice = 257;
  std::vector<uint8_t> decoded;
  for (size_t at = 0; at < data.size() && data[at] != kEnd;) {
    const uint8_t length = data[at++];
    const Bytes rest = data.subspan(at);
    if (length < kEnd) {
      const Bytes run = rest.first(std::min<size_t>(length + 1, rest.size()));
      decoded.insert(decoded.end(), run.begin(), run.end());
      at += run.size();
    } else if (!rest.empty()) {
      decoded.insert(decoded.end(), kTwice - length, rest[0]);
      at++;
    }
    if (decoded.size() < kAtOnce) continue;
    if (!output.Put(decoded)) return output.stopped();
    decoded.clear();
  }
  return output.Put(decoded) ? streams::End::kWhole : output.stopped();
}

// Codes of 9 to 12 bits, the highest bit first (7.4.4).
class Lzw {
 public:
  Lzw(bool is_early, streams::Output& output) : early_(is_early ? 1 : 0), output_(output) {
    for (size_t code = 0; code < kClear; code++) entries_[code] = {0, 1, static_cast<uint8_t>(code), static_cast<uint8_t>(code)};
  }

  streams::End Decode(Bytes data) {
    uint32_t held = 0;
    size_t bits = 0;
    for (const uint8_t byte : data) {
      held = held << 8 | byte;
      bits += 8;
      if (bits < width_) continue;
      bits -= width_;
      const size_t code = held >> bits & ((1U << width_) - 1);
      if (code == kEnd || !Take(code)) break;
      if (decoded_.size() < kAtOnce) continue;
      if (!output_.Put(decoded_)) return output_.stopped();
      decoded_.clear();
    }
    return output_.Put(decoded_) ? streams::End::kWhole : output_.stopped();
  }

 private:
  static constexpr size_t kClear = 256;
  static constexpr size_t kEnd = 257;
  static constexpr size_t kFirst = 258;
  static constexpr size_t kCodes = 4096;
  static constexpr size_t kNone = kCodes;
  static constexpr size_t kNarrow = 9;
  static constexpr size_t kWide = 12;

  // The bytes of another code, and one more.
  struct Entry {
    uint16_t before;
    uint16_t length;
    uint8_t first;
    uint8_t last;
  };

  // False: there is no such code.
  bool Take(size_t code) {
    if (code == kClear) {
      next_ = kFirst;
      width_ = kNarrow;
      before_ = kNone;
      return true;
    }
    const bool is_new = code == next_ && before_ != kNone;
    if (code >= next_ && !is_new) return false;
    if (before_ != kNone && next_ < kCodes) {
      const Entry& before = entries_[before_];
      const uint8_t last = is_new ? before.first : entries_[code].first;
      entries_[next_++] = {static_cast<uint16_t>(before_), static_cast<uint16_t>(before.length + 1), before.first, last};
      if (next_ + early_ >= size_t{1} << width_ && width_ < kWide) width_++;
    }
    Put(code);
    before_ = code;
    return true;
  }

  void Put(size_t code) {
    const size_t start = decoded_.size();
    size_t at = start + entries_[code].length;
    decoded_.resize(at);
    for (; at > start; code = entries_[code].before) decoded_[--at] = entries_[code].last;
  }

  const size_t early_;
  streams::Output& output_;
  std::vector<uint8_t> decoded_;
  std::array<Entry, kCodes> entries_{};
  size_t next_ = kFirst;
  size_t width_ = kNarrow;
  size_t before_ = kNone;
};

// Some writers begin a line before it.
streams::End DecodeDeflated(Bytes data, streams::Output& output) {
  while (!data.empty() && (data[0] == '\r' || data[0] == '\n')) data = data.subspan(1);
  return streams::UnpackZlib(data, output);
}

streams::End DecodeOne(Bytes data, const Step& step, streams::Output& output) {
  switch (step.filter) {
    case Filter::kHex:
      return DecodeHex(data, output);
    case Filter::kBase85:
      return DecodeBase85(data, output);
    case Filter::kRuns:
      return DecodeRuns(data, output);
    case Filter::kLzw:
      return Lzw(step.is_early, output).Decode(data);
    default:
      return DecodeDeflated(data, output);
  }
}

uint8_t Paeth(int left, int above, int corner) {
  const int guess = left + above - corner;
  const int from_left = std::abs(guess - left);
  const int from_above = std::abs(guess - above);
  const int from_corner = std::abs(guess - corner);
  if (from_left <= from_above && from_left <= from_corner) return static_cast<uint8_t>(left);
  return static_cast<uint8_t>(from_above <= from_corner ? above : corner);
}

// In place. The row above is no shorter, or empty.
void Restore(uint8_t type, std::span<uint8_t> row, Bytes above, size_t pixel) {
  for (size_t at = 0; at < row.size(); at++) {
    const uint8_t left = at >= pixel ? row[at - pixel] : 0;
    const uint8_t up = above.empty() ? 0 : above[at];
    const uint8_t corner = at >= pixel && !above.empty() ? above[at - pixel] : 0;
    switch (type) {
      case 1:
        row[at] += left;
        break;
      case 2:
        row[at] += up;
        break;
      case 3:
        row[at] += static_cast<uint8_t>((left + up) / 2);
        break;
      case 4:
        row[at] += Paeth(left, up, corner);
        break;
      default:
        break;
    }
  }
}

}  // namespace

bool IsKnown(const std::vector<Step>& steps) {
  if (steps.empty() || steps[0].filter == Filter::kPicture) return false;
  return std::ranges::none_of(steps, [](const Step& step) { return step.filter == Filter::kOther; });
}

bool PutRows(Bytes data, const Row& row, streams::Output& output) {
  // Some rows are of one byte: they wait for others.
  std::vector<uint8_t> waiting;
  std::vector<uint8_t> above;
  for (Bytes rest = data; !rest.empty();) {
    const uint8_t type = row.is_png ? rest[0] : 1;
    if (row.is_png) rest = rest.subspan(1);
    const Bytes differences = rest.first(std::min(row.size, rest.size()));
    rest = rest.subspan(differences.size());
    waiting.insert(waiting.end(), differences.begin(), differences.end());
    const auto one = std::span(waiting).last(differences.size());
    Restore(type, one, above, row.pixel);
    if (row.is_png) above.assign(one.begin(), one.end());
    if (waiting.size() < kAtOnce) continue;
    if (!output.Put(waiting)) return false;
    waiting.clear();
  }
  return output.Put(waiting);
}

streams::End Undo(Bytes data, const std::vector<Step>& steps, streams::Output& output, uint64_t& between) {
  Held held;
  for (const Step& step : steps) {
    if (step.filter == Filter::kPicture) break;
    Held next;
    streams::Output decoded = output.Beside(next);
    const streams::End end = DecodeOne(data, step, decoded);
    between += decoded.size();
    if (end > streams::End::kForeign) return end;
    held = std::move(next);
    if (step.row) {
      Held restored;
      streams::Output rows = output.Beside(restored);
      if (!PutRows(held.bytes(), *step.row, rows)) return rows.stopped();
      held = std::move(restored);
    }
    data = held.bytes();
  }
  return output.Put(data) ? streams::End::kWhole : output.stopped();
}

}  // namespace sluice::pdf
