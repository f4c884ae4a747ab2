// SPDX-License-Identifier: GPL-2.0-only
// APPNOTE.TXT 6.3.10. Every directory counts, wherever it says that its members are, and so does every member in none of them.
#include "zip.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace sluice::zip {
namespace {

constexpr size_t kLocalBytes = 30;
constexpr size_t kCentralBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kCommentMax = 65'535;
constexpr std::string_view kLocal = "PK\3\4";
constexpr std::string_view kCentral = "PK\1\2";
constexpr std::string_view kEnd = "PK\5\6";
constexpr std::string_view kEnd64 = "PK\6\6";
constexpr std::string_view kLocator = "PK\6\7";
constexpr std::string_view kSignature = "PK\5\5";
constexpr std::string_view kSpanned = "PK\7\10";
constexpr std::string_view kSingle = "PK00";
constexpr uint16_t kStored = 0;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint16_t kHasEndFlag = 2;
constexpr uint16_t kSizesBehindFlag = 8;
constexpr uint32_t kIn64 = UINT32_MAX;

// The next place from `at` on; nothing: none before `end`.
std::optional<size_t> Find(Bytes bytes, size_t at, size_t end, std::string_view magic) {
  if (at >= end) return std::nullopt;
  const void* found = memmem(bytes.data() + at, end - at, magic.data(), magic.size());
  if (found == nullptr) return std::nullopt;
  return static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data());
}

std::optional<size_t> FindLast(Bytes bytes, size_t end, std::string_view magic) {
  while (end > 0) {
    const void* found = memrchr(bytes.data(), magic[0], end);
    if (found == nullptr) return std::nullopt;
    end = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data());
    if (Has(bytes, end, magic)) return end;
  }
  return std::nullopt;
}

// What libclamav unpacks.
bool IsKnown(uint16_t method) { return method == 0 || method == 6 || method == 8 || method == 9 || method == 12; }
bool MayBeMethod(uint16_t method) { return method <= 20 || (method >= 92 && method <= 99); }

struct Local {
  uint16_t flags;
  uint16_t method;
  uint32_t packed;
  uint32_t unpacked;
  size_t data;
};

std::optional<Local> LocalAt(Bytes bytes, uint64_t at) {
  if (at >= bytes.size() || bytes.size() - at < kLocalBytes || !Has(bytes, at, kLocal)) return std::nullopt;
  const size_t data = at + kLocalBytes + Half(bytes, at + 26) + Half(bytes, at + 28);
  if (data > bytes.size()) return std::nullopt;
  return Local{Half(bytes, at + 6), Half(bytes, at + 8), Word(bytes, at + 18), Word(bytes, at + 22), data};
}

// Other bytes may look like one.
bool IsLikely(const Local& local, Bytes header) {
  constexpr size_t kNameMax = 4096;
  constexpr uint8_t kVersionMax = 63;
  constexpr uint16_t kUsedFlags = 0x0fff;
  const size_t name = Half(header, 26);
  const Bytes letters = header.subspan(kLocalBytes, name);
  constexpr uint8_t kSpace = 0x20;
  return name > 0 && name <= kNameMax && header[4] <= kVersionMax && (local.flags & ~kUsedFlags) == 0 && MayBeMethod(local.method) &&
         std::all_of(letters.begin(), letters.end(), [](uint8_t letter) { return letter >= kSpace; });
}

// One record of a directory.
struct Entry {
  uint16_t flags;
  uint16_t method;
  uint64_t packed;
  uint64_t unpacked;
  uint64_t offset;
  bool is_64;
};

// Sizes that do not fit lie in an extra field, one after the other (4.5.3).
void Read64(Bytes extra, Entry& entry) {
  for (size_t at = 0; extra.size() - at >= 4;) {
    const size_t size = Half(extra, at + 2);
    if (extra.size() - at - 4 < size) return;
    if (Half(extra, at) == 1) {
      size_t field = at + 4;
      for (uint64_t* value : {&entry.unpacked, &entry.packed, &entry.offset}) {
        if (*value != kIn64 || at + 4 + size - field < 8) continue;
        *value = Long(extra, field);
        field += 8;
      }
      return;
    }
    at += 4 + size;
  }
}

class Reader {
 public:
  Reader(Bytes bytes, size_t members_max) : bytes_(bytes), members_max_(members_max) {}

  Reading Read() {
    ReadEnds();
    const bool begins = Begins();
    reading_.is_cut = directories_ == 0 && begins;
    reading_.is_doubtful = directories_ == 0 && !begins;
    reading_.is_zip = true;
    if (directories_ > 1 || !(begins || Has(bytes_, 0, kEnd))) opens_all_ = false;
    ReadGaps();
    if (directories_ == 0 && all_.empty()) return {};
    reading_.members = opens_all_ ? std::move(unopened_) : std::move(all_);
    if (opens_all_) reading_.opened = std::move(opened_);
    return std::move(reading_);
  }

 private:
  bool Begins() const { return Has(bytes_, 0, kLocal) || Has(bytes_, 0, kSpanned) || Has(bytes_, 0, kSingle); }

  // From the last one on. Those inside of what another one has are the business of that one's members.
  void ReadEnds() {
    size_t end = bytes_.size();
    while (!reading_.is_too_many) {
      const std::optional<size_t> at = FindLast(bytes_, end, kEnd);
      if (!at) return;
      end = *at;
      if (bytes_.size() - *at >= kEndBytes && !IsCovered(*at)) ReadEnd(*at);
    }
  }

  bool IsCovered(size_t at) const {
    const auto after = covers_.upper_bound(at);
    return after != covers_.begin() && std::prev(after)->second > at;
  }

  void Cover(size_t start, size_t end) {
    auto after = covers_.upper_bound(start);
    if (after != covers_.begin() && std::prev(after)->second >= start) start = (--after)->first;
    for (; after != covers_.end() && after->first <= end; after = covers_.erase(after)) end = std::max(end, after->second);
    covers_.emplace_hint(after, start, end);
  }

  void ReadEnd(size_t at) {
    uint64_t size = Word(bytes_, at + 12);
    uint64_t offset = Word(bytes_, at + 16);
    size_t end = at;
    if (at >= kLocatorBytes && Has(bytes_, at - kLocatorBytes, kLocator)) {
      const size_t locator = at - kLocatorBytes;
      const uint64_t said = Long(bytes_, locator + 8);
      const size_t before = locator >= kEnd64Bytes ? locator - kEnd64Bytes : 0;
      const size_t record = Has(bytes_, before, kEnd64) ? before : said < locator ? static_cast<size_t>(said) : locator;
      if (Has(bytes_, record, kEnd64) && bytes_.size() - record >= kEnd64Bytes) {
        size = Long(bytes_, record + 40);
        offset = Long(bytes_, record + 48);
        end = record;
        opens_all_ = false;
      }
    }
    const bool is_empty = size == 0 && Half(bytes_, at + 10) == 0;
    if (size > end) {
      // A program that reads zips holds the four bytes as well, and no tool finds a directory by them.
      if (offset < end && (Begins() || Has(bytes_, offset, kCentral))) ReadDirectory(offset, end, end - offset, 0, at);
      return;
    }
    const size_t start = end - static_cast<size_t>(size);
    const bool is_there = is_empty || Has(bytes_, start, kCentral);
    if (is_there) ReadDirectory(start, end, size, start - offset, at);
    // Tools differ in what they believe.
    if (offset != start && offset < end && Has(bytes_, offset, kCentral)) ReadDirectory(offset, end, end - offset, 0, at);
  }

  // `base` is what offsets are counted from.
  void ReadDirectory(size_t start, size_t end, uint64_t size, uint64_t base, size_t end_record) {
    if (++directories_ > members_max_) reading_.is_too_many = true;
    if (base != 0) opens_all_ = false;
    Cover(end_record, end_record + kEndBytes);
    size_t at = start;
    while (end - at >= kCentralBytes && Has(bytes_, at, kCentral)) {
      // Thousands of directories may have the same records.
      if (++records_ > members_max_) reading_.is_too_many = true;
      if (reading_.is_too_many) return;
      Entry entry{Half(bytes_, at + 8), Half(bytes_, at + 10), Word(bytes_, at + 20), Word(bytes_, at + 24), Word(bytes_, at + 42), false};
      const size_t name = Half(bytes_, at + 28);
      const size_t extra = Half(bytes_, at + 30);
      const size_t next = at + kCentralBytes + name + extra + Half(bytes_, at + 32);
      if (next > end) break;
      entry.is_64 = entry.packed == kIn64 || entry.unpacked == kIn64 || entry.offset == kIn64;
      if (entry.is_64) Read64(bytes_.subspan(at + kCentralBytes + name, extra), entry);
      TakeEntry(entry, base);
      at = next;
    }
    Cover(start, at);
    if (at - start < size && !Has(bytes_, at, kSignature) && !Has(bytes_, at, kEnd64)) Contradict("its directory breaks off");
  }

  void TakeEntry(const Entry& entry, uint64_t base) {
    const uint64_t place = base + entry.offset;
    const std::optional<Local> local = LocalAt(bytes_, place);
    if (!local || bytes_.size() - local->data < entry.packed) return Contradict("a member is not where the directory says");
    const size_t end = local->data + static_cast<size_t>(entry.packed);
    Cover(static_cast<size_t>(place), end);
    const bool encrypted = (entry.flags & kEncryptedFlag) != 0;
    const bool has_end = (entry.flags & kHasEndFlag) != 0;
    const Member member{entry.method, encrypted, has_end, local->data, end, entry.unpacked, true};
    const bool has_sizes = (local->flags & kSizesBehindFlag) == 0;
    const bool in_64 = entry.is_64 || local->packed == kIn64 || local->unpacked == kIn64;
    if (local->method != entry.method || ((local->flags ^ entry.flags) & kEncryptedFlag) != 0 ||
        (has_sizes && !in_64 && (local->packed != entry.packed || local->unpacked != entry.unpacked))) {
      Contradict("two headers of a member contradict each other");
    } else if (entry.method == kStored && !encrypted && entry.packed != entry.unpacked) {
      Contradict("a stored member has two sizes");
    }
    // What is deflated takes two bytes at least.
    const bool is_hollow = entry.unpacked == 0 && entry.packed > 2 && !encrypted;
    Put(member, IsKnown(entry.method) && !in_64 && !is_hollow);
  }

  void Put(const Member& member, bool is_opened) {
    if (all_.size() >= members_max_) {
      reading_.is_too_many = true;
      return;
    }
    all_.push_back(member);
    (is_opened ? opened_ : unopened_).push_back(member);
  }

  // Members that no directory has: of a zip before this one, or of one whose end is missing.
  void ReadGaps() {
    size_t at = 0;
    for (const auto& [start, end] : covers_) {
      ReadGap(at, start);
      at = end;
    }
    ReadGap(at, bytes_.size());
  }

  void ReadGap(const size_t start, const size_t end) {
    // By where their data begins, which of `all_` have their sizes behind them. Only what is stored doesn't say by itself where it ends.
    std::unordered_map<size_t, size_t> unsized;
    size_t free = start;
    for (size_t at = start; !reading_.is_too_many;) {
      const std::optional<size_t> found = Find(bytes_, at, end, kLocal);
      if (!found) break;
      at = *found + 4;
      const std::optional<Local> local = LocalAt(bytes_, *found);
      if (!local || local->data > end || !IsLikely(*local, bytes_.subspan(*found, local->data - *found))) continue;
      const bool has_size = (local->flags & kSizesBehindFlag) == 0 && local->packed != kIn64;
      const bool fits = has_size && end - local->data >= local->packed;
      const size_t data_end = fits ? local->data + local->packed : end;
      PutBetween(free, *found);
      free = std::max(free, data_end);
      // Without any directory libclamav goes from one header to the next.
      opens_all_ = false;
      const bool has_end = (local->flags & kHasEndFlag) != 0 || !has_size;
      if (!has_size && local->method == kStored) unsized.emplace(local->data, all_.size());
      Put({local->method, (local->flags & kEncryptedFlag) != 0, has_end, local->data, data_end, local->unpacked, fits}, false);
      at = fits ? data_end : local->data;
    }
    PutBetween(free, end);
    EndUnsized(start, end, unsized);
  }

  // Sizes behind the data of a member are shorter. Where members are too many, those that were not read would lie there.
  void PutBetween(size_t start, size_t end) {
    constexpr size_t kLeast = 66;
    if (reading_.is_too_many || end < start + kLeast || reading_.between.size() > members_max_) return;
    reading_.between.push_back(bytes_.subspan(start, end - start));
  }

  void EndUnsized(size_t at, size_t end, std::unordered_map<size_t, size_t>& unsized) {
    constexpr size_t kPacked = 8;
    constexpr size_t kDescriptorBytes = 16;
    for (; !unsized.empty(); at++) {
      const std::optional<size_t> found = Find(bytes_, at, end, kSpanned);
      if (!found || bytes_.size() - *found < kDescriptorBytes) return;
      at = *found;
      const auto member = unsized.find(at - Word(bytes_, at + kPacked));
      if (member == unsized.end()) continue;
      if (member->second < all_.size()) all_[member->second].end = at;
      unsized.erase(member);
    }
  }

  void Contradict(const char* what) {
    if (reading_.contradiction.empty()) reading_.contradiction = what;
    opens_all_ = false;
  }

  const Bytes bytes_;
  const size_t members_max_;
  Reading reading_;
  size_t directories_ = 0;
  // Of all directories, as often as they were read.
  size_t records_ = 0;
  // libclamav opens all members of the methods that it knows.
  bool opens_all_ = true;
  std::vector<Member> all_;
  std::vector<Member> opened_;
  std::vector<Member> unopened_;
  // What directories, their ends and their members take, by where it begins. No piece touches another one.
  std::map<size_t, size_t> covers_;
};

}  // namespace

bool IsSign(Bytes bytes, const marks::Mark& mark) {
  const bool ends = mark.kind == marks::Kind::kZipEnd && bytes.size() - mark.at <= kCommentMax + kEndBytes;
  return mark.kind == marks::Kind::kZipMember || ends;
}

Reading Read(Bytes bytes, size_t members_max) { return Reader(bytes, members_max).Read(); }

uint64_t BoundedBytes(const Reading& reading) {
  uint64_t bytes = 0;
  for (const auto* members : {&reading.members, &reading.opened}) {
    for (const Member& member : *members) bytes += member.is_bounded ? member.end - member.start : 0;
  }
  return bytes;
}

}  // namespace sluice::zip
