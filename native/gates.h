// SPDX-License-Identifier: GPL-2.0-only
// What an engine with gates notes down in a scan, and what is known of the signatures behind them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "report.h"

namespace sluice::gates {

// Names of gates: this, which libclamav takes for something that it reports once at the end of a scan, the gate's number, a point, and in
// hexadecimal digits a bit for each share that must look.
constexpr std::string_view kPrefix = "PUA.Sluice.Gate.";

// Where layers inside of mails send to which shares.
struct MailRule {
  uint32_t shares = 0;
  std::vector<std::string> beginnings;  // none: any layer counts
};

// What one scan met.
class Hits {
 public:
  // False for a name that is none of a gate.
  bool Note(std::string_view name);
  // Every layer, in the order in which they are opened; `type` as libclamav sees it at first.
  void NoteLayer(const MailRule& rule, uint32_t level, std::string_view type, std::string_view bytes);

  uint32_t shares() const { return shares_; }
  // Distinct numbers of gates, the first of them.
  const uint32_t* begin() const { return gates_.data(); }
  const uint32_t* end() const { return gates_.data() + count_; }

 private:
  static constexpr size_t kGatesKept = 32;
  // libclamav goes no deeper than 100.
  static constexpr size_t kLevels = 128;

  uint32_t shares_ = 0;
  size_t count_ = 0;
  std::array<uint32_t, kGatesKept> gates_{};
  // By level: it is a mail, or libclamav may find out later that it is one.
  std::array<bool, kLevels> may_be_mail_{};
};

// The logical signatures and the programs behind gates, by their names, while the engines load.
class Names {
 public:
  // Reads the names in the shares; throws LoadError.
  explicit Names(const GateFiles& files);

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
  std::vector<std::string> Unofficial() const;

 private:
  struct Facts {
    bool met = false;
    bool official = true;
  };
  std::unordered_map<std::string, Facts> facts_;
  struct Program {
    std::string trigger;
    bool met = false;
  };
  std::unordered_map<std::string, Program> programs_;
};

class Counters {
 public:
  explicit Counters(uint32_t gate_count) : gate_count_(gate_count), in_vain_by_gate_(new std::atomic<uint32_t>[gate_count]()) {}

  void CountScan() { scans_.fetch_add(1, std::memory_order_relaxed); }
  void CountSecondLook(size_t lookers) {
    second_looks_.fetch_add(1, std::memory_order_relaxed);
    lookers_.fetch_add(lookers, std::memory_order_relaxed);
  }
  // No signature behind the gates that hit has matched.
  void CountInVain(const Hits& hits);
  GateStatistics Statistics() const;

 private:
  const uint32_t gate_count_;
  std::atomic<uint64_t> scans_ = 0;
  std::atomic<uint64_t> second_looks_ = 0;
  std::atomic<uint64_t> lookers_ = 0;
  std::atomic<uint64_t> in_vain_ = 0;
  std::unique_ptr<std::atomic<uint32_t>[]> in_vain_by_gate_;
};

}  // namespace sluice::gates
