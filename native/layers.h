// SPDX-License-Identifier: GPL-2.0-only
// What libclamav passes over in the layers of a content: found as it opens them, and unpacked here, to be looked at as contents of
// their own. Where that can't be done, it is said.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "archives.h"
#include "bundles.h"
#include "compound.h"
#include "held.h"
#include "report.h"
#include "streams.h"
#include "zip.h"

namespace sluice::encoded {
class Finder;
}

namespace sluice::pdf {
struct Reading;
struct Scripts;
}

namespace sluice::office {
struct Lock;
}

namespace sluice::layers {

// Names among the alerts; the rest of the second is the reason.
constexpr const char* kTruncated = "Sluice.Mark.Truncated";
constexpr const char* kIncomplete = "Sluice.Mark.Incomplete.";

constexpr const char* kLimit = "Heuristics.Limits.Exceeded.";
// libclamav looks at no layer that is smaller.
constexpr size_t kSmallest = 6;
// What may be something else is unpacked so far before it counts.
constexpr size_t kFew = 4096;
// To begin to unpack something takes as long as to unpack so many bytes.
constexpr uint64_t kTry = 4096;
constexpr uint64_t kTryOfOne = 1024;

enum class Origin : uint8_t {
  kPacked,
  // A text spells it, which may be packed in a way that nothing tells.
  kSpelled,
  // It is a part of the content before, as it is.
  kPart,
};

// What was unpacked here.
struct Inner {
  Held held;
  uint32_t depth;
  Origin origin;
};

// Of one content with all that is inside of it.
class Layers {
 public:
  Layers(const Limits& limits, streams::Clock::time_point deadline, uint64_t content_bytes)
      : limits_(limits), deadline_(deadline), now_{limits.max_scan_size_bytes, kSpareLeast + kSpareTimes * content_bytes}, before_(now_),
        spins_left_(kSpinsLeast + kSpinsTimes * content_bytes) {}

  // A look begins. Of an earlier one at the same content nothing stays.
  void Begin();
  // Every layer, in the order in which they are opened. Its bytes are there until this returns.
  void Note(uint32_t level, Bytes bytes);
  // libclamav passes over a layer by its type alone.
  void NoteIgnored() { MarkIncomplete("engine looks at nothing of this kind of file"); }
  // The look has ended; before its time, if something was found.
  void End(bool is_early);

  // The next content to look at; nothing: there is none left, or no time.
  std::optional<Inner> Next();

  // There is nothing to add to what libclamav has said.
  bool is_plain() const { return inners_.empty() && marks_.empty(); }
  streams::Clock::time_point deadline() const { return deadline_; }
  // Of the look that is under way: libclamav's own limit is for the content itself.
  std::optional<streams::Clock::time_point> deadline_of_inner() const {
    return depth_ == 0 ? std::nullopt : std::optional(deadline_);
  }

  // Storage was short.
  bool lacked_room() const { return now_.lacked_room; }
  const std::vector<std::string>& marks() const { return marks_; }

 private:
  // Of a layer that libclamav unpacks: how large the next one below it must be.
  struct Expected {
    uint32_t level;
    uint64_t size;
    bool has_come;
    streams::Kind kind;
    // To be looked at once more where something else has come; empty: they are not there any more by then.
    Bytes bytes;
  };
  // Members of one size: which of them a layer of that size is can't be told.
  struct Alike {
    std::vector<zip::Member> members;
    size_t seen = 0;
    // A layer of this size has come that was none of them.
    bool is_other = false;
  };
  // An archive: members that libclamav must open, by their sizes.
  struct Opened {
    uint32_t level;
    Bytes bytes;
    // Of a zip inside of the content, whose bytes go before it is known: they lie here.
    Held copy;
    std::unordered_map<uint64_t, Alike> by_size;
    // Deflated streams, by the first bytes of what is in them: how much that is nobody has said. Those that libclamav has opened are taken out.
    std::unordered_map<uint64_t, std::vector<zip::Member>> by_beginning;
    // What was unpacked here, by its size.
    std::unordered_map<uint64_t, std::vector<Held>> unpacked = {};
    // Of a compound file: its streams, by their sizes.
    std::unique_ptr<compound::File> compound = nullptr;
    std::unordered_map<uint64_t, std::vector<compound::Stream>> streams = {};
    // To tell what libclamav has opened.
    uint64_t compared_bytes = 0;
  };
  // Streams that begin among other bytes.
  struct EmbeddedStreams {
    size_t end = 0;
    bool have_failed = false;
  };
  static constexpr uint64_t kSpareLeast = 1 << 20;
  static constexpr uint64_t kSpareTimes = 4;
  // Of documents that may open without a password: 20 as Office writes them, and one more for each 50 KB.
  static constexpr uint64_t kSpinsLeast = 2'000'000;
  static constexpr uint64_t kSpinsTimes = 2;
  // What a look starts from.
  struct State {
    uint64_t bytes_left;
    // What may be unpacked in vain, or once more as a part of something else. Where nothing is left, it has been said, and no more is looked at.
    uint64_t spare_bytes;
    uint32_t count = 0;
    size_t inners = 0;
    size_t marks = 0;
    bool lacked_room = false;
  };

  void NoteStreams(streams::Kind kind, uint32_t level, Bytes bytes);
  void UnpackStreams(streams::Kind kind, Bytes bytes);
  void UnpackAgain(streams::Kind kind, uint32_t level, Bytes bytes);
  void NoteDifference(const Expected& expected);
  void NoteSigned(Bytes bytes);
  void NoteImage(uint32_t level, Bytes bytes);
  void NotePartitions(uint32_t level, Bytes bytes);
  void NoteVolume(uint32_t level, Bytes bytes);
  void NoteOpticalDisk(Bytes bytes, bool is_container);
  void NoteArchive(uint32_t level, const archives::Archive& archive);
  void NoteCompound(uint32_t level, Bytes bytes);
  void NoteLocked(Bytes bytes, const compound::File& file);
  void NoteWorkbooks(Bytes bytes, const compound::File& file);
  const std::vector<uint8_t>* KeyOf(Bytes info, const office::Lock& lock);
  bool NoteOffice(Bytes bytes, std::vector<zip::Member>& members, uint64_t& taken);
  void NoteMacros(Bytes bytes);
  // The next three: whether it is one.
  bool NoteSevenZip(uint32_t level, Bytes bytes);
  bool NoteListed(uint32_t level, Bytes bytes);
  void NoteBesideArchive(uint32_t level, Bytes bytes);
  bool NoteZip(uint32_t level, Bytes bytes);
  void NoteMembers(uint32_t level, Bytes bytes, const zip::Reading& reading);
  bool NoteSaidEncrypted(Bytes bytes, const zip::Reading& reading);
  void NoteMarked(uint32_t level, Bytes bytes, bool is_container);
  void NoteSpelled(Bytes bytes, const encoded::Finder& encoded);
  void NoteMessage(Bytes bytes);
  void NoteModules(Bytes bytes);
  void NoteInstaller(Bytes bytes);
  bool NoteFiles(Bytes bytes, const std::vector<bundles::File>& files, std::vector<zip::Member>& members, uint64_t& taken);
  bool NotePyInstaller(Bytes bytes, size_t mark, std::vector<zip::Member>& members, uint64_t& taken);
  bool NotePhar(Bytes bytes, size_t mark, uint64_t& taken);
  void NoteDeflated(uint32_t level, Bytes bytes);
  void NoteEmbeddedStream(Bytes bytes, size_t at, EmbeddedStreams& before);
  void NoteWide(Bytes bytes);
  void NoteEntities(Bytes bytes);
  void NoteRtf(Bytes bytes, std::vector<zip::Member>& members);
  void NoteScripts(Bytes bytes);
  void NoteTexts(const pdf::Scripts& scripts);
  void NotePdf(Bytes bytes, std::vector<zip::Member>& members, std::vector<Held>& unpacked);
  void NoteFiltered(Bytes bytes, const pdf::Reading& reading, std::vector<Held>& unpacked);
  void NoteOpened(uint32_t level, Bytes bytes, const std::vector<zip::Member>& members, std::vector<Held> unpacked = {});
  void Await(uint32_t level, const std::vector<uint64_t>& sizes);
  void SettleOpened(uint32_t level, Bytes bytes);
  bool SettleIn(Opened& above, Bytes bytes);
  bool SettleStream(Opened& above, Bytes bytes);
  bool SettleUnpacked(Opened& above, Bytes bytes);
  bool SettleCompound(Opened& above, Bytes bytes);
  void UnpackCompound(const Opened& compound);
  bool IsSame(Opened& above, const zip::Member& member, Bytes bytes);
  void EndOpened();
  void UnpackOpened(Bytes bytes, const zip::Member& member);
  void Settle(uint32_t level, uint64_t size);
  void Add(Held held, Origin origin = Origin::kPacked);
  bool AddPart(uint32_t level, Bytes part, const char* what);
  bool Spend(uint64_t bytes);
  bool Take(Bytes bytes, uint64_t count, uint64_t& taken);
  void NoteForeign(const char* name);
  void NoteEnd(streams::End end, const char* what);
  void Mark(std::string name);
  void MarkIncomplete(const std::string& reason) { Mark(kIncomplete + reason); }

  const Limits& limits_;
  const streams::Clock::time_point deadline_;
  uint32_t depth_ = 0;
  Origin origin_ = Origin::kPacked;
  State now_;
  State before_;
  std::vector<Inner> inners_;
  std::vector<std::string> marks_;
  std::vector<Expected> expected_;
  // The one that is under way and those above it.
  std::vector<Opened> opened_;
  // Of documents of Office, by what they say of their encryption. Empty: a password is asked for.
  std::unordered_map<std::string, std::vector<uint8_t>> keys_;
  uint64_t spins_left_;
  // One of the layers so far was a compound file, or a PDF.
  bool has_compound_ = false;
  bool has_pdf_ = false;
  static constexpr uint32_t kNowhere = UINT32_MAX;
  // Layers below this level are looked at once more, as parts of what was unpacked here.
  uint32_t again_below_ = kNowhere;
};

}  // namespace sluice::layers
