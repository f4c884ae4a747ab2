// SPDX-License-Identifier: GPL-2.0-only
// 7zFormat.txt of the LZMA SDK. Only as much of the directory is read as says how the members are packed.
#include "seven-zip.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <utility>
#include <vector>

#include "held.h"
#include "streams.h"

namespace sluice::seven_zip {
namespace {

constexpr std::string_view kMagic = "7z\xbc\xaf\x27\x1c";
constexpr size_t kStart = 32;

enum Id : uint8_t {
  kEnd = 0,
  kHeader = 1,
  kArchiveProperties = 2,
  kAdditionalStreams = 3,
  kMainStreams = 4,
  kPackInfo = 6,
  kUnpackInfo = 7,
  kSubStreams = 8,
  kSize = 9,
  kSums = 10,
  kFolder = 11,
  kUnpackSizes = 12,
  kSubStreamCounts = 13,
  kEncodedHeader = 23,
};

constexpr uint64_t kCopy = 0;
constexpr uint64_t kLzma2 = 0x21;
constexpr uint64_t kLzma = 0x030101;
constexpr uint64_t kPpmd = 0x030401;
constexpr uint64_t kX86 = 0x03030103;
constexpr uint64_t kX86Split = 0x0303011b;
constexpr uint64_t kArm = 0x03030501;
constexpr uint64_t kAes = 0x06f10701;

// What the directory may say of itself: more than any tool makes is damaged.
constexpr uint64_t kCountMax = 1 << 20;
constexpr uint64_t kHeaderMax = 64 << 20;

struct Broken {};

struct Coder {
  uint64_t id;
  Bytes properties;
};

using Folder = std::vector<Coder>;

struct Streams {
  uint64_t packed_at = 0;
  uint64_t packed_size = 0;
  uint64_t unpacked_size = 0;
  uint64_t folders = 0;
  Folder first;
  // Of all folders, which may be a million.
  bool are_known = true;
  bool is_any_encrypted = false;
  // Of each member without a password.
  std::vector<uint64_t> sizes;
};

class Input {
 public:
  explicit Input(Bytes bytes) : rest_(bytes) {}

  Bytes Take(uint64_t count) {
    if (count > rest_.size()) throw Broken();
    const Bytes taken = rest_.first(static_cast<size_t>(count));
    rest_ = rest_.subspan(static_cast<size_t>(count));
    return taken;
  }
  uint8_t Byte() { return Take(1)[0]; }
  // The first byte says how many follow, and has the highest bits.
  uint64_t Number() {
    const uint8_t first = Byte();
    uint64_t value = 0;
    uint8_t mask = 0x80;
    for (unsigned at = 0; at < 8; at++, mask = static_cast<uint8_t>(mask >> 1)) {
      if ((first & mask) == 0) return value | static_cast<uint64_t>(first & (mask - 1)) << (8 * at);
      value |= static_cast<uint64_t>(Byte()) << (8 * at);
    }
    return value;
  }
  uint64_t Count() {
    const uint64_t count = Number();
    if (count > kCountMax) throw Broken();
    return count;
  }
  void Expect(uint8_t id) {
    if (Byte() != id) throw Broken();
  }

 private:
  Bytes rest_;
};

void SkipSums(Input& input, uint64_t count) {
  uint64_t sums = count;
  if (input.Byte() == 0) {
    sums = 0;
    const Bytes bits = input.Take((count + 7) / 8);
    for (uint64_t at = 0; at < count; at++) sums += bits[at / 8] >> (7 - at % 8) & 1;
  }
  input.Take(4 * sums);
}

// What comes out of a folder.
struct Unpacked {
  uint64_t outputs = 0;
  // The output that no other coder takes, and its bytes.
  uint64_t last = 0;
  uint64_t size = 0;
  bool is_encrypted = false;
};

Folder ReadFolder(Input& input, Unpacked& unpacked) {
  constexpr uint64_t kCodersMax = 32;
  // Of all coders together, as in 7-Zip. A list that is packed into a few KB could name millions.
  constexpr uint64_t kStreamsMax = 64;
  Folder folder;
  uint64_t inputs = 0;
  const uint64_t coders = input.Number();
  if (coders == 0 || coders > kCodersMax) throw Broken();
  for (uint64_t at = 0; at < coders; at++) {
    const uint8_t flags = input.Byte();
    Coder coder{0, {}};
    for (const uint8_t byte : input.Take(flags & 0xf)) coder.id = coder.id << 8 | byte;
    const bool is_complex = (flags & 0x10) != 0;
    inputs += is_complex ? input.Count() : 1;
    unpacked.outputs += is_complex ? input.Count() : 1;
    if ((flags & 0x20) != 0) coder.properties = input.Take(input.Count());
    folder.push_back(coder);
  }
  const uint64_t pairs = unpacked.outputs - 1;
  if (unpacked.outputs == 0 || unpacked.outputs > kStreamsMax || inputs > kStreamsMax || pairs > inputs) throw Broken();
  std::vector<uint64_t> taken;
  for (uint64_t at = 0; at < pairs; at++) {
    input.Number();
    taken.push_back(input.Number());
  }
  std::sort(taken.begin(), taken.end());
  for (const uint64_t output : taken) unpacked.last += output == unpacked.last ? 1 : 0;
  if (inputs - pairs > 1) {
    for (uint64_t at = 0; at < inputs - pairs; at++) input.Number();
  }
  return folder;
}

bool IsEncrypted(const Folder& folder) {
  return std::any_of(folder.begin(), folder.end(), [](const Coder& coder) { return coder.id == kAes; });
}

// As the SDK that is in libclamav does: one method, or one behind a filter, or the parts of a program.
bool IsKnown(const Folder& folder) {
  const auto is = [&folder](size_t at, std::initializer_list<uint64_t> ids) {
    return std::find(ids.begin(), ids.end(), folder[at].id) != ids.end();
  };
  // What is encrypted is libclamav's to say.
  if (IsEncrypted(folder)) return true;
  const bool has_method = is(0, {kCopy, kLzma, kLzma2, kPpmd});
  switch (folder.size()) {
    case 1:
      return has_method;
    case 2:
      return has_method && is(1, {kX86, kArm});
    case 4:
      return std::any_of(folder.begin(), folder.end(), [](const Coder& coder) { return coder.id == kX86Split; });
    default:
      return false;
  }
}

// A folder of which nothing is said has one member. The last member has what the others leave.
std::vector<uint64_t> ReadSizes(Input& input, const std::vector<Unpacked>& folders) {
  std::vector<uint64_t> counts(folders.size(), 1);
  uint8_t id = input.Byte();
  const bool are_told = id == kSubStreams;
  if (are_told) id = input.Byte();
  if (are_told && id == kSubStreamCounts) {
    for (uint64_t& count : counts) count = input.Count();
    id = input.Byte();
  }
  std::vector<uint64_t> sizes;
  for (size_t at = 0; at < folders.size(); at++) {
    uint64_t left = folders[at].size;
    for (uint64_t member = 0; member < counts[at]; member++) {
      const bool is_last = member + 1 == counts[at];
      if ((!is_last && id != kSize) || sizes.size() >= kCountMax) throw Broken();
      const uint64_t size = is_last ? left : input.Number();
      left -= size;
      if (!folders[at].is_encrypted) sizes.push_back(size);
    }
  }
  return sizes;
}

Streams ReadStreams(Input& input) {
  Streams streams;
  uint8_t id = input.Byte();
  if (id == kPackInfo) {
    streams.packed_at = input.Number();
    const uint64_t count = input.Count();
    for (id = input.Byte(); id != kEnd; id = input.Byte()) {
      if (id == kSums) SkipSums(input, count);
      else if (id != kSize) throw Broken();
      else
        for (uint64_t at = 0; at < count; at++) streams.packed_size += input.Number();
    }
    id = input.Byte();
  }
  if (id != kUnpackInfo) return streams;
  input.Expect(kFolder);
  streams.folders = input.Count();
  input.Expect(0);
  std::vector<Unpacked> folders(streams.folders);
  for (uint64_t at = 0; at < streams.folders; at++) {
    Folder folder = ReadFolder(input, folders[at]);
    folders[at].is_encrypted = IsEncrypted(folder);
    streams.are_known = streams.are_known && IsKnown(folder);
    streams.is_any_encrypted = streams.is_any_encrypted || folders[at].is_encrypted;
    if (at == 0) streams.first = std::move(folder);
  }
  input.Expect(kUnpackSizes);
  for (Unpacked& folder : folders) {
    for (uint64_t at = 0; at < folder.outputs; at++) {
      streams.unpacked_size = input.Number();
      if (at == folder.last) folder.size = streams.unpacked_size;
    }
  }
  uint8_t next = input.Byte();
  if (next == kSums) {
    SkipSums(input, streams.folders);
    next = input.Byte();
  }
  if (next != kEnd) throw Broken();
  streams.sizes = ReadSizes(input, folders);
  return streams;
}

// The directory is packed as members are, by one method; into `held`, where it isn't merely copied.
Bytes Unpack(const Streams& streams, Bytes bytes, Held& held, uint64_t& unpacked) {
  constexpr size_t kProperties = 5;
  constexpr std::chrono::seconds kPatience{1};
  const uint64_t room = bytes.size() - kStart;
  if (streams.folders != 1 || streams.first.size() != 1 || streams.unpacked_size > kHeaderMax ||
      streams.packed_at > room || streams.packed_size > room - streams.packed_at) {
    throw Broken();
  }
  const Coder& coder = streams.first[0];
  const Bytes packed = bytes.subspan(kStart + static_cast<size_t>(streams.packed_at), static_cast<size_t>(streams.packed_size));
  if (coder.id == kCopy) return packed;
  if (coder.id != kLzma || coder.properties.size() != kProperties) throw Broken();
  streams::Output output(&held, kHeaderMax, streams::Clock::now() + kPatience);
  const streams::End end = streams::UnpackLzma(coder.properties, streams.unpacked_size, packed, output);
  unpacked += output.size();
  if (end != streams::End::kWhole) throw Broken();
  return held.bytes();
}

Reading ReadHeader(Bytes bytes, Bytes header, std::vector<uint64_t>& sizes, uint64_t& list_bytes) {
  constexpr int kPackedMax = 4;
  Held unpacked;
  for (int times = 0; times < kPackedMax; times++) {
    Input input(header);
    const uint8_t id = input.Byte();
    if (id == kEncodedHeader) {
      const Streams streams = ReadStreams(input);
      if (streams.is_any_encrypted) return Reading::kNone;
      Held next;
      header = Unpack(streams, bytes, next, list_bytes);
      unpacked = std::move(next);
      continue;
    }
    if (id != kHeader) return Reading::kDamaged;
    uint8_t part = input.Byte();
    // Nobody writes these two.
    if (part == kArchiveProperties || part == kAdditionalStreams) return Reading::kForeign;
    if (part != kMainStreams) return Reading::kNone;
    Streams streams = ReadStreams(input);
    sizes = std::move(streams.sizes);
    return streams.are_known ? Reading::kOpened : Reading::kForeign;
  }
  return Reading::kDamaged;
}

}  // namespace

Reading Read(Bytes bytes, std::vector<uint64_t>& sizes, uint64_t& list_bytes) {
  if (!Has(bytes, 0, kMagic)) return Reading::kNone;
  if (bytes.size() < kStart) return Reading::kDamaged;
  const uint64_t offset = Long(bytes, 12);
  const uint64_t size = Long(bytes, 20);
  if (size == 0) return offset == 0 ? Reading::kNone : Reading::kDamaged;
  if (offset > bytes.size() - kStart || size > bytes.size() - kStart - offset) return Reading::kDamaged;
  try {
    return ReadHeader(bytes, bytes.subspan(kStart + static_cast<size_t>(offset), static_cast<size_t>(size)), sizes, list_bytes);
  } catch (const Broken&) {
    return Reading::kDamaged;
  }
}

}  // namespace sluice::seven_zip
