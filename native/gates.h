// SPDX-License-Identifier: GPL-2.0-only
// What an engine with gates notes down in a scan, and what is known of the signatures behind them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "literals.h"
#include "report.h"
#include "window-counts.h"

namespace sluice::gates {

// Names of gates: this, which libclamav takes for something that it reports once at the end of a scan, the gate's number, a point, and in
// hexadecimal digits a bit for each share that must look, whatever else hits.
constexpr std::string_view kPrefix = "PUA.Sluice.Gate.";

// Nothing for a name that is none of a gate.
std::optional<literals::Gate> Parse(std::string_view name);

// Shares that look only where a gate of each of several sets has hit: all are in every content that a signature of the share matches.
class Conditions {
 public:
  // Of a gate: which condition it is of, and in which of its sets.
  struct Part {
    uint32_t condition;
    uint8_t set;
  };

  // A line of the file is a condition: the number of a share, then for each set numbers of gates with commas; the last line is "end". Throws
  // LoadError, also where the end is missing: signatures whose conditions are cut off would never be asked.
  explicit Conditions(const GateFiles& files);

  std::span<const Part> Of(uint32_t gate) const;
  size_t count() const { return shares_.size(); }
  // Bits.
  uint32_t SharesOf(uint32_t condition) const { return shares_[condition]; }
  // The gates of its first set.
  std::span<const uint32_t> FirstOf(uint32_t condition) const;
  // A bit for each.
  uint8_t SetsOf(uint32_t condition) const { return sets_[condition]; }

 private:
  static constexpr size_t kSetsMost = 8;

  std::vector<uint32_t> shares_;
  std::vector<uint8_t> sets_;
  // The first sets of all conditions, and by condition where its own ends.
  std::vector<uint32_t> firsts_;
  std::vector<uint32_t> first_ends_;
  // By gate, where its parts begin; one more at the end.
  std::vector<uint32_t> begins_;
  std::vector<Part> parts_;
};

// What sends to which shares, beside single gates.
struct Rules {
  explicit Rules(const GateFiles& files)
      : gate_count(files.gate_count), conditions(files), mail_shares(files.mail_shares), mail_beginnings(files.mail_beginnings) {}

  uint32_t gate_count;
  Conditions conditions;
  // Gates that we look for ourselves; nothing: libclamav looks for all of them.
  std::optional<literals::Literals> literals;
  // Layers inside of mails that begin with one of these; none: any of them.
  uint32_t mail_shares;
  std::vector<std::string> mail_beginnings;
};

// What one scan met.
class Hits {
 public:
  // The rules outlive it.
  explicit Hits(const Rules& rules) : rules_(rules) {}

  // False for a name that is none of a gate. May throw std::bad_alloc, as the next two.
  bool Note(std::string_view name);
  void Note(literals::Gate gate);
  // What libclamav's matcher is given, by the kind of file.
  void Look(uint32_t target, std::span<const uint8_t> bytes);
  // Every layer, in the order in which they are opened; `type` as libclamav sees it at first.
  void NoteLayer(uint32_t level, std::string_view type, std::string_view bytes);

  uint32_t shares() const { return shares_; }
  // Distinct numbers of gates for which shares look, the first of them.
  const uint32_t* begin() const { return gates_.data(); }
  const uint32_t* end() const { return gates_.data() + count_; }

 private:
  void Keep(uint32_t gate);

  static constexpr size_t kGatesKept = 32;
  // libclamav goes no deeper than 100.
  static constexpr size_t kLevels = 128;

  const Rules& rules_;
  uint32_t shares_ = 0;
  size_t count_ = 0;
  std::array<uint32_t, kGatesKept> gates_{};
  // By gate: the same one may hit a million times. Empty until one does.
  std::vector<bool> met_;
  // By condition: a bit for each set of which a gate has hit. Empty until one does.
  std::vector<uint8_t> met_sets_;
  // By level: it is a mail, or libclamav may find out later that it is one.
  std::array<bool, kLevels> may_be_mail_{};
};

// Names, in one piece of memory: many small ones would lie between what a load takes for good, and keep pages of it when they are free.
class NameSet {
 public:
  explicit NameSet(std::vector<std::string_view> names);
  // Of each name another number, from 0 on; nothing: it is not among them.
  std::optional<size_t> Find(std::string_view name) const;
  std::string_view NameOf(size_t number) const { return std::string_view(text_).substr(begins_[number], begins_[number + 1] - begins_[number]); }
  size_t size() const { return begins_.size() - 1; }

 private:
  // Sorted, one behind the other; and where each begins, with the end of the last one.
  std::string text_;
  std::vector<uint32_t> begins_;
};

// The extended signatures of a share lie beside its logical ones.
std::string ExtendedOf(std::string_view logical);

// The signatures and the programs behind gates, by their names, while the engines load.
class Names {
 public:
  // Reads the names in the shares; throws LoadError.
  explicit Names(const GateFiles& files);

  // Of each share.
  const std::vector<uint64_t>& counts() const { return counts_; }
  bool Contains(std::string_view name) const;
  // The databases have it, and no list of ignored signatures names it.
  void Meet(std::string_view name, bool official);
  bool Met(std::string_view name) const;
  // The same for programs, by the names of their files.
  bool ContainsProgram(std::string_view file) const;
  void MeetProgram(std::string_view file);
  // The name of the signature that makes it run; null: it was not met, or is behind no gate.
  const std::string* TriggerOfMet(std::string_view file) const;
  // What libclamav would call it: those that are not official have a suffix.
  NameSet Unofficial() const;

 private:
  struct Facts {
    bool met = false;
    bool official = true;
  };
  NameSet names_;
  // By the number of the name.
  std::vector<Facts> facts_;
  struct Program {
    std::string trigger;
    bool met = false;
  };
  std::unordered_map<std::string, Program> programs_;
  std::vector<uint64_t> counts_;
};

class Counters {
 public:
  explicit Counters(uint32_t gate_count) : gate_count_(gate_count), in_vain_by_gate_(new std::atomic<uint32_t>[gate_count]()) {}
  ~Counters() { delete windows_.load(); }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // From now on, of contents that are looked at twice; nothing happens where some are counted already.
  void CountWindows(const std::vector<uint64_t>& windows);
  // Null: none are counted.
  const WindowCounts* windows() const { return windows_.load(std::memory_order_acquire); }

  void CountScan() { scans_.fetch_add(1, std::memory_order_relaxed); }
  void CountSecondLook(size_t lookers) {
    second_looks_.fetch_add(1, std::memory_order_relaxed);
    lookers_.fetch_add(lookers, std::memory_order_relaxed);
  }
  // False where it is one of the last few thousand contents that were asked about: who sends the same one again teaches nothing by it.
  bool Meet(std::string_view content);
  // For how many contents a content stands whose windows are counted; 0: they aren't. Of those that one gate is hit by the first few are looked at, and
  // some after that.
  uint32_t WeightOf(const Hits& hits) const;
  // No signature behind the gates that hit has matched; whose gates those are is counted where the content teaches something.
  void CountInVain(const Hits& hits, bool teaches);
  GateStatistics Statistics() const;

 private:
  const uint32_t gate_count_;
  std::atomic<uint64_t> scans_ = 0;
  std::atomic<uint64_t> second_looks_ = 0;
  std::atomic<uint64_t> lookers_ = 0;
  std::atomic<uint64_t> in_vain_ = 0;
  std::unique_ptr<std::atomic<uint32_t>[]> in_vain_by_gate_;
  // Ours.
  std::atomic<const WindowCounts*> windows_ = nullptr;
  static constexpr size_t kContentsKept = 4096;
  // Hashes, each at the place that it says itself.
  std::array<std::atomic<uint64_t>, kContentsKept> contents_{};
};

}  // namespace sluice::gates
