// SPDX-License-Identifier: GPL-2.0-only
// ISO 32000-2, 7.3.8 and 7.4.4.
#include "pdf.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "held.h"

namespace sluice::pdf {
namespace {

constexpr std::string_view kStream = "stream";

std::string_view Behind(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == text.npos) return {};
  const std::string_view rest = text.substr(at + name.size());
  return rest.substr(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
}

bool IsDigit(std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

// No number that makes sense has more digits.
size_t NumberOf(std::string_view dictionary, std::string_view name, size_t usual) {
  constexpr size_t kDigitsMost = 6;
  size_t number = 0;
  std::string_view text = Behind(dictionary, name).substr(0, kDigitsMost);
  if (!IsDigit(text)) return usual;
  for (; IsDigit(text); text.remove_prefix(1)) number = number * 10 + static_cast<size_t>(text[0] - '0');
  return number;
}

// RFC 1950.
bool IsZlib(Bytes data) {
  return data.size() > 2 && (data[0] & 0xf) == 8 && data[0] <= 0x78 && (data[0] << 8 | data[1]) % 31 == 0 && (data[1] & 0x20) == 0;
}

Stream StreamOf(std::string_view dictionary, size_t start, size_t end) {
  constexpr size_t kTiff = 2;
  constexpr size_t kPng = 10;
  Stream stream{start, end, {}};
  const size_t predictor = NumberOf(dictionary, "/Predictor", 1);
  if (predictor < kTiff) return stream;
  const size_t bits = NumberOf(dictionary, "/Colors", 1) * NumberOf(dictionary, "/BitsPerComponent", 8);
  stream.row = std::max<size_t>((bits * NumberOf(dictionary, "/Columns", 1) + 7) / 8, 1);
  stream.pixel = std::max<size_t>(bits / 8, 1);
  stream.is_png = predictor >= kPng;
  return stream;
}

// A name may have any letter as two digits behind a `#`. This one is looked at where the first such letter stands.
bool IsEncryption(std::string_view text, size_t first) {
  constexpr std::string_view kEncryption = "Encrypt";
  constexpr std::string_view kEndOfName = "/<>[]() \t\r\n";
  const size_t from = first - std::min(first, kEncryption.size());
  const size_t slash = text.substr(from, first - from).rfind('/');
  if (slash == text.npos) return false;
  size_t at = from + slash + 1;
  for (const char letter : kEncryption) {
    char read = at < text.size() ? text[at] : '\0';
    if (read == '#') {
      const char* digits = text.data() + std::min(at + 1, text.size());
      uint8_t byte = 0;
      std::from_chars(digits, digits + std::min<size_t>(2, text.data() + text.size() - digits), byte, 16);
      read = static_cast<char>(byte);
      at += 2;
    }
    if (read != letter) return false;
    at++;
  }
  return at >= text.size() || kEndOfName.find(text[at]) != kEndOfName.npos;
}

bool HidesEncryption(std::string_view text) {
  for (size_t at = text.find('#'); at != text.npos; at = text.find('#', at + 1)) {
    if (IsEncryption(text, at)) return true;
  }
  return false;
}

// Most readers open what has an end without a head, too.
bool HasEnd(std::string_view text) {
  constexpr size_t kTail = 1024;
  const std::string_view tail = text.substr(text.size() - std::min(text.size(), kTail));
  return tail.find("startxref") != tail.npos && tail.find("%%EOF") != tail.npos && text.find("endstream") != text.npos;
}

// The filter, or the first one of a list.
bool IsFilterElsewhere(std::string_view dictionary) {
  const std::string_view filter = Behind(dictionary, "/Filter");
  return IsDigit(filter) || (filter.starts_with('[') && IsDigit(Behind(filter, "[")));
}

// A predictor of what is compressed and something else: encrypted, or spelled in letters. Pictures have one, and lists of objects.
bool IsPredictedBelow(std::string_view dictionary) {
  return NumberOf(dictionary, "/Predictor", 1) > 1 && dictionary.find("/Width") == dictionary.npos && dictionary.find("/ObjStm") == dictionary.npos;
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

Reading Read(Bytes bytes, size_t streams_max) {
  constexpr size_t kHead = 1024 + 5;
  constexpr size_t kDictionaryMost = 64 << 10;
  Reading reading;
  const std::string_view text = TextOf(bytes);
  if (text.substr(0, kHead).find("%PDF-") == text.npos) {
    reading.is_foreign = HasEnd(text);
    return reading;
  }
  reading.is_foreign = HidesEncryption(text);
  size_t before = 0;
  size_t end = 0;
  for (size_t at = text.find(kStream); at != text.npos && reading.streams.size() <= streams_max; at = text.find(kStream, at + 1)) {
    size_t start = at + kStream.size();
    if (at >= 3 && text.substr(at - 3, 3) == "end") continue;
    if (Has(bytes, start, "\r\n")) start += 2;
    else if (Has(bytes, start, "\n") || Has(bytes, start, "\r")) start += 1;
    else continue;
    const size_t dictionary_at = std::max(before, at > kDictionaryMost ? at - kDictionaryMost : 0);
    const std::string_view whole = text.substr(dictionary_at, at - dictionary_at);
    const size_t object = whole.rfind(" obj");
    const std::string_view dictionary = whole.substr(object == whole.npos ? 0 : object);
    before = at;
    if (end < start) end = std::min(text.find("endstream", start), text.size());
    if (IsZlib(bytes.subspan(start))) reading.streams.push_back(StreamOf(dictionary, start, end));
    else if (IsFilterElsewhere(dictionary) || IsPredictedBelow(dictionary)) reading.is_foreign = true;
    std::vector<Filter> filters = FiltersOf(dictionary);
    if (IsSpelled(filters) && reading.spelled.size() <= streams_max) reading.spelled.push_back({start, end, std::move(filters)});
  }
  return reading;
}

streams::End Unpack(Bytes data, const Stream& stream, streams::Output& output) {
  if (!stream.row) return streams::UnpackZlib(data, output);
  Held held;
  streams::Output deflated = output.Beside(held);
  const streams::End end = streams::UnpackZlib(data, deflated);
  std::vector<uint8_t> row;
  std::vector<uint8_t> above;
  for (Bytes rest = held.bytes(); !rest.empty(); rest = rest.subspan(row.size())) {
    const uint8_t type = stream.is_png ? rest[0] : 1;
    if (stream.is_png) rest = rest.subspan(1);
    row.assign(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(std::min(*stream.row, rest.size())));
    Restore(type, row, above, stream.pixel);
    if (!output.Put(row)) return output.stopped();
    if (stream.is_png) above = row;
  }
  return end;
}

}  // namespace sluice::pdf
