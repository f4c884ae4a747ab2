// SPDX-License-Identifier: GPL-2.0-only
// Reads the names of gates, follows layers into mails, and counts.
#include "gates.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace sluice::gates {
namespace {

// Types that are mails, or that libclamav may turn into one while it looks for what is inside.
bool MayBeMail(std::string_view type) {
  constexpr std::array<std::string_view, 6> kTypes{"CL_TYPE_MAIL",   "CL_TYPE_MHTML",       "CL_TYPE_HTML",
                                                   "CL_TYPE_SCRIPT", "CL_TYPE_BINARY_DATA", "CL_TYPE_ANY"};
  return type.starts_with("CL_TYPE_TEXT") || type.starts_with("CL_TYPE_HTML") ||
         std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

// Types of which nothing is matched but the bytes themselves and normalised text, in which there are no capital letters. Others are
// matched in decoded forms too, which begin with anything.
bool IsMatchedAsItIs(std::string_view type) {
  constexpr std::array<std::string_view, 8> kTypes{"CL_TYPE_HTML",     "CL_TYPE_MHTML", "CL_TYPE_SCRIPT", "CL_TYPE_BINARY_DATA",
                                                   "CL_TYPE_GRAPHICS", "CL_TYPE_GIF",   "CL_TYPE_PNG",    "CL_TYPE_JPEG"};
  return type.starts_with("CL_TYPE_TEXT") || std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

}  // namespace

bool Hits::Note(std::string_view name) {
  if (!name.starts_with(kPrefix)) return false;
  const char* end = name.data() + name.size();
  uint32_t gate = 0;
  uint32_t shares = 0;
  const auto number = std::from_chars(name.data() + kPrefix.size(), end, gate);
  if (number.ec != std::errc() || number.ptr == end) return false;
  if (std::from_chars(number.ptr + 1, end, shares, 16).ec != std::errc()) return false;
  shares_ |= shares;
  // The same one may hit a million times.
  if (count_ < kGatesKept && std::find(gates_.begin(), gates_.begin() + count_, gate) == gates_.begin() + count_) {
    gates_[count_++] = gate;
  }
  return true;
}

void Hits::NoteLayer(const MailRule& rule, uint32_t level, std::string_view type, std::string_view bytes) {
  if (level < kLevels) may_be_mail_[level] = MayBeMail(type);
  if ((shares_ & rule.shares) == rule.shares) return;
  const auto above = may_be_mail_.begin() + std::min<size_t>(level, kLevels);
  if (std::find(may_be_mail_.begin(), above, true) == above) return;
  const bool begins = std::any_of(rule.beginnings.begin(), rule.beginnings.end(),
                                  [bytes](const std::string& beginning) { return bytes.starts_with(beginning); });
  if (begins || rule.beginnings.empty() || !IsMatchedAsItIs(type)) shares_ |= rule.shares;
}

Names::Names(const GateFiles& files) {
  for (size_t share = 0; share < files.shares.size(); share++) {
    const std::string& path = files.shares[share];
    const bool of_programs = (files.program_shares >> share & 1) != 0;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with('#')) continue;
      const size_t end = line.find(';');
      if (!of_programs) {
        facts_.emplace(line.substr(0, end), Facts{});
      } else if (end != std::string::npos) {
        programs_.emplace(line.substr(0, end), Program{line.substr(end + 1)});
      }
    }
    if (!file.eof()) throw LoadError("Cannot read the signatures behind gates in " + path);
  }
}

bool Names::Contains(std::string_view name) const { return facts_.contains(std::string(name)); }

void Names::Meet(std::string_view name, bool official) { facts_.at(std::string(name)) = {true, official}; }

bool Names::Met(std::string_view name) const {
  const auto found = facts_.find(std::string(name));
  return found != facts_.end() && found->second.met;
}

bool Names::ContainsProgram(std::string_view file) const { return programs_.contains(std::string(file)); }

void Names::MeetProgram(std::string_view file) { programs_.at(std::string(file)).met = true; }

const std::string* Names::TriggerOfMet(std::string_view file) const {
  const auto found = programs_.find(std::string(file));
  return found != programs_.end() && found->second.met ? &found->second.trigger : nullptr;
}

std::vector<std::string> Names::Unofficial() const {
  std::vector<std::string> names;
  for (const auto& [name, facts] : facts_) {
    if (!facts.official) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void Counters::CountInVain(const Hits& hits) {
  in_vain_.fetch_add(1, std::memory_order_relaxed);
  for (const uint32_t gate : hits) {
    if (gate < gate_count_) in_vain_by_gate_[gate].fetch_add(1, std::memory_order_relaxed);
  }
}

GateStatistics Counters::Statistics() const {
  GateStatistics statistics{scans_.load(), second_looks_.load(), lookers_.load(), in_vain_.load(), {}};
  for (uint32_t gate = 0; gate < gate_count_; gate++) {
    const uint32_t times = in_vain_by_gate_[gate].load(std::memory_order_relaxed);
    if (times > 0) statistics.noisy.emplace_back(gate, times);
  }
  return statistics;
}

}  // namespace sluice::gates
