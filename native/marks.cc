// SPDX-License-Identifier: GPL-2.0-only
// By pairs of bytes, of which a content has few; what they stand in is compared then.
#include "marks.h"

#include <algorithm>

#include "byte-classes.h"

namespace sluice::marks {
namespace {

struct Sign {
  std::string_view text;
  // Where its pair stands.
  size_t pair;
  Kind kind;
  // Where begins what it says, before the text or in it.
  ptrdiff_t begins = 0;
  // Letters of either case.
  bool folds = false;
};

// Where a class has several pairs, the first byte of one is seldom before the second one of another. Base64 office documents, forms and
// visiting cards have as well.
constexpr Sign kSigns[][7] = {
    {{"base64", 4, Kind::kBase64, 0, true}, {"\x1f\x8b\x08", 0, Kind::kStream}, {"Rar!\x1a\x07", 3, Kind::kRar}, {"__HALT_COMPILER();", 1, Kind::kPhar}},
    {{{"7z\xbc\xaf\x27\x1c\0", 7}, 1, Kind::kSevenZip}, {{"\xfd" "7zXZ\0", 6}, 0, Kind::kStream}, {{"\xe7\x16\xe3\xbd\x65\x26\x11\x45\xa4\xc4\x8d\x4d\x0b\x7a\x9e\xac", 16}, 2, Kind::kNote},
     {{"\x89LZO\0\r\n\x1a\n", 9}, 0, Kind::kLzop}},
    {{"ENCODING=", 7, Kind::kBase64}, {"\x28\xb5\x2f\xfd", 1, Kind::kStream}, {"(This file must be converted with BinHex", 34, Kind::kBinHex}},
    {{"binary", 0, Kind::kBase64}, {"binData", 0, Kind::kBase64}, {"atob(", 3, Kind::kBase64}},
    {{"\nbegin ", 0, Kind::kUuencoded, 1}, {"\x04\x22\x4d\x18", 0, Kind::kStream}, {"LZIP\x01", 3, Kind::kStream}},
    {{{"MSCF\0\0\0\0", 8}, 2, Kind::kCabinet}, {"1AY&SY", 2, Kind::kStream, -4}, {"-----BEGIN ", 8, Kind::kBase64}, {"\x7f" "ELF", 0, Kind::kLinuxProgram}},
    {{"PK\3\4", 1, Kind::kZipMember}, {"PK\5\6", 1, Kind::kZipEnd}, {{"\0ustar", 6}, 1, Kind::kTar, -256}, {"MEI\014\013\012\013\016", 6, Kind::kPyInstaller},
     {{"PE\0\0\x4c\x01", 6}, 0, Kind::kWindowsProgram}, {{"PE\0\0\x64\x86", 6}, 0, Kind::kWindowsProgram}},
    {{"<chunk>", 0, Kind::kBase64}, {"quoted-printable", 6, Kind::kQuoted, 0, true}, {" -e", 1, Kind::kCommand, 1, true}, {"#@~^", 2, Kind::kEncodedScript},
     {"-lh", 0, Kind::kLha, -2}, {"-lz", 0, Kind::kLha, -2}, {"-pm", 0, Kind::kLha, -2}},
};

// The bit in which a letter differs from its capital.
constexpr uint8_t kLower = 0x20;

constexpr PairClasses kPairs = [] {
  PairClasses pairs;
  for (size_t one = 0; one < std::size(kSigns); one++) {
    for (const Sign& sign : kSigns[one]) {
      if (sign.text.empty()) continue;
      pairs.first.Add(static_cast<uint8_t>(sign.text[sign.pair]), static_cast<uint8_t>(1 << one));
      pairs.second.Add(static_cast<uint8_t>(sign.text[sign.pair + 1]), static_cast<uint8_t>(1 << one));
      if (sign.folds) pairs.second.Add(static_cast<uint8_t>(sign.text[sign.pair + 1] & ~kLower), static_cast<uint8_t>(1 << one));
    }
  }
  return pairs;
}();

#if defined(__x86_64__)
// The next place where a pair may be, or one behind which too few bytes lie to look at once.
SLUICE_AVX2 size_t PassOver(Bytes bytes, size_t at) {
  for (; at + kBytesAtOnce < bytes.size(); at += kBytesAtOnce) {
    if (const uint32_t any = PairsIn(kPairs, bytes.data() + at); any != 0) return at + static_cast<size_t>(__builtin_ctz(any));
  }
  return at;
}
#endif

size_t NextPair(Bytes bytes, size_t at) {
#if defined(__x86_64__)
  if (HasAvx2()) at = PassOver(bytes, at);
#endif
  while (at + 1 < bytes.size() && kPairs.At(bytes.data() + at) == 0) at++;
  return at;
}

bool IsAt(Bytes bytes, size_t at, const Sign& sign) {
  if (sign.text.empty() || at < sign.pair) return false;
  if (!sign.folds) return Has(bytes, at - sign.pair, sign.text);
  const Bytes rest = bytes.subspan(at - sign.pair);
  const auto is_same = [](char letter, uint8_t byte) { return static_cast<uint8_t>(letter) == (letter >= 'a' ? byte | kLower : byte); };
  return rest.size() >= sign.text.size() && std::equal(sign.text.begin(), sign.text.end(), rest.begin(), is_same);
}

}  // namespace

std::optional<Mark> Finder::Next() {
  while ((next_ = NextPair(bytes_, next_)) + 1 < bytes_.size()) {
    const size_t at = next_++;
    const unsigned classes = kPairs.At(bytes_.data() + at);
    for (size_t one = 0; one < std::size(kSigns); one++) {
      if ((classes >> one & 1) == 0) continue;
      for (const Sign& sign : kSigns[one]) {
        const ptrdiff_t begins = static_cast<ptrdiff_t>(at - sign.pair) + sign.begins;
        if (IsAt(bytes_, at, sign) && begins >= 0) return Mark{sign.kind, static_cast<size_t>(begins)};
      }
    }
  }
  return std::nullopt;
}

}  // namespace sluice::marks
