// SPDX-License-Identifier: GPL-2.0-only
// Reads the names of gates, follows layers into mails, and counts.
#include "gates.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <numeric>
#include <utility>

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
  constexpr std::array<std::string_view, 9> kTypes{"CL_TYPE_HTML",     "CL_TYPE_MHTML", "CL_TYPE_SCRIPT", "CL_TYPE_BINARY_DATA", "CL_TYPE_PS",
                                                   "CL_TYPE_GRAPHICS", "CL_TYPE_GIF",   "CL_TYPE_PNG",    "CL_TYPE_JPEG"};
  return type.starts_with("CL_TYPE_TEXT") || std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

}  // namespace

Conditions::Conditions(const GateFiles& files) : begins_(files.gate_count + 1) {
  const auto refuse = [&files] { throw LoadError("Cannot read the conditions of gates in " + files.conditions); };
  std::ifstream file(files.conditions);
  std::vector<std::pair<uint32_t, Part>> found;
  bool has_ended = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "end") {
      has_ended = true;
      break;
    }
    const char* at = line.data();
    const char* end = at + line.size();
    const auto read = [&at, end, &refuse](uint32_t most) {
      uint32_t number = 0;
      const auto parsed = std::from_chars(at, end, number);
      if (parsed.ec != std::errc() || number >= most) refuse();
      at = parsed.ptr;
      return number;
    };
    const auto condition = static_cast<uint32_t>(shares_.size());
    shares_.push_back(1U << read(files.shares.size()));
    size_t sets = 0;
    while (at < end) {
      if (*at == ' ') {
        sets++;
      } else if (*at != ',' || sets == 0) {
        refuse();
      }
      if (sets > kSetsMost) refuse();
      at++;
      const uint32_t gate = read(files.gate_count);
      found.push_back({gate, {condition, static_cast<uint8_t>(sets - 1)}});
      if (sets == 1) firsts_.push_back(gate);
    }
    if (sets < 2) refuse();
    first_ends_.push_back(static_cast<uint32_t>(firsts_.size()));
    sets_.push_back(static_cast<uint8_t>((1U << sets) - 1));
  }
  if (!has_ended) refuse();
  std::stable_sort(found.begin(), found.end(), [](const auto& one, const auto& other) { return one.first < other.first; });
  for (const auto& [gate, part] : found) {
    begins_[gate + 1]++;
    parts_.push_back(part);
  }
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
}

std::span<const Conditions::Part> Conditions::Of(uint32_t gate) const {
  if (gate >= begins_.size() - 1) return {};
  return {parts_.data() + begins_[gate], begins_[gate + 1] - begins_[gate]};
}

std::optional<literals::Gate> Parse(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  literals::Gate gate{};
  const auto number = std::from_chars(name.data() + kPrefix.size(), end, gate.number);
  if (number.ec != std::errc() || number.ptr == end) return std::nullopt;
  if (std::from_chars(number.ptr + 1, end, gate.shares, 16).ec != std::errc()) return std::nullopt;
  return gate;
}

std::span<const uint32_t> Conditions::FirstOf(uint32_t condition) const {
  const uint32_t begin = condition == 0 ? 0 : first_ends_[condition - 1];
  return {firsts_.data() + begin, first_ends_[condition] - begin};
}

bool Hits::Note(std::string_view name) {
  const auto gate = Parse(name);
  if (gate) Note(*gate);
  return gate.has_value();
}

void Hits::Look(uint32_t target, std::span<const uint8_t> bytes) {
  if (rules_.literals) rules_.literals->Find(target, bytes, [this](literals::Gate gate) { Note(gate); });
}

void Hits::Note(literals::Gate met) {
  const auto [gate, shares] = met;
  if (gate >= rules_.gate_count) return;
  if (met_.empty()) met_.resize(rules_.gate_count);
  if (met_[gate]) return;
  met_[gate] = true;
  shares_ |= shares;
  if (shares != 0) Keep(gate);
  for (const auto& [condition, set] : rules_.conditions.Of(gate)) {
    const uint32_t wanted = rules_.conditions.SharesOf(condition);
    if ((shares_ & wanted) == wanted) continue;
    if (met_sets_.empty()) met_sets_.resize(rules_.conditions.count());
    uint8_t& sets = met_sets_[condition];
    sets |= static_cast<uint8_t>(1U << set);
    if (sets != rules_.conditions.SetsOf(condition)) continue;
    shares_ |= wanted;
    const auto first = rules_.conditions.FirstOf(condition);
    Keep(*std::find_if(first.begin(), first.end(), [this](uint32_t one) { return met_[one]; }));
  }
}

void Hits::Keep(uint32_t gate) {
  if (count_ == kGatesKept || std::find(gates_.begin(), gates_.begin() + count_, gate) != gates_.begin() + count_) return;
  gates_[count_++] = gate;
}

void Hits::NoteLayer(uint32_t level, std::string_view type, std::string_view bytes) {
  if (level < kLevels) may_be_mail_[level] = MayBeMail(type);
  if ((shares_ & rules_.mail_shares) == rules_.mail_shares) return;
  const auto above = may_be_mail_.begin() + std::min<size_t>(level, kLevels);
  if (std::find(may_be_mail_.begin(), above, true) == above) return;
  const bool begins = std::any_of(rules_.mail_beginnings.begin(), rules_.mail_beginnings.end(),
                                  [bytes](const std::string& beginning) { return bytes.starts_with(beginning); });
  if (begins || rules_.mail_beginnings.empty() || !IsMatchedAsItIs(type)) shares_ |= rules_.mail_shares;
}

NameSet::NameSet(std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  begins_.reserve(names.size() + 1);
  for (const std::string_view name : names) {
    begins_.push_back(static_cast<uint32_t>(text_.size()));
    text_ += name;
  }
  begins_.push_back(static_cast<uint32_t>(text_.size()));
  text_.shrink_to_fit();
}

std::optional<size_t> NameSet::Find(std::string_view name) const {
  size_t low = 0;
  for (size_t high = size(); low < high;) {
    const size_t middle = (low + high) / 2;
    if (NameOf(middle) < name) low = middle + 1;
    else high = middle;
  }
  if (low == size() || NameOf(low) != name) return std::nullopt;
  return low;
}

std::string ExtendedOf(std::string_view logical) {
  constexpr std::string_view kEnd = ".ldb";
  return std::string(logical.substr(0, logical.size() - std::min(logical.size(), kEnd.size()))) + ".ndb";
}

Names::Names(const GateFiles& files) : names_({}) {
  std::vector<std::string> names;
  // Calls with what stands before the delimiter, and what stands behind it. Returns how many lines there are.
  const auto read = [](const std::string& path, char delimiter, const auto& each) {
    uint64_t count = 0;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with('#')) continue;
      count++;
      const size_t end = std::min(line.find(delimiter), line.size());
      each(line.substr(0, end), line.substr(std::min(end + 1, line.size())));
    }
    if (!file.eof()) throw LoadError("Cannot read the signatures behind gates in " + path);
    return count;
  };
  for (size_t share = 0; share < files.shares.size(); share++) {
    const std::string& path = files.shares[share];
    if ((files.program_shares >> share & 1) != 0) {
      counts_.push_back(read(path, ';', [&](std::string name, std::string trigger) { programs_.emplace(std::move(name), Program{std::move(trigger)}); }));
      continue;
    }
    const auto note = [&](std::string name, const std::string&) { names.push_back(std::move(name)); };
    const uint64_t logical = read(path, ';', note);
    counts_.push_back(logical + read(ExtendedOf(path), ':', note));
  }
  names_ = NameSet({names.begin(), names.end()});
  facts_.resize(names_.size());
}

bool Names::Contains(std::string_view name) const { return names_.Find(name).has_value(); }

void Names::Meet(std::string_view name, bool official) { facts_.at(names_.Find(name).value()) = {true, official}; }

bool Names::Met(std::string_view name) const {
  const auto found = names_.Find(name);
  return found && facts_[*found].met;
}

bool Names::ContainsProgram(std::string_view file) const { return programs_.contains(std::string(file)); }

void Names::MeetProgram(std::string_view file) { programs_.at(std::string(file)).met = true; }

const std::string* Names::TriggerOfMet(std::string_view file) const {
  const auto found = programs_.find(std::string(file));
  return found != programs_.end() && found->second.met ? &found->second.trigger : nullptr;
}

NameSet Names::Unofficial() const {
  std::vector<std::string_view> names;
  for (size_t number = 0; number < facts_.size(); number++) {
    if (!facts_[number].official) names.push_back(names_.NameOf(number));
  }
  return NameSet(std::move(names));
}

void Counters::CountWindows(const std::vector<uint64_t>& windows) {
  // 256 KiB take up to ten milliseconds, and a window in the table of counts some 50 bytes.
  constexpr WindowCounts::Bounds kBounds{1 << 18, 1 << 20, 4096, 1 << 16};
  auto made = std::make_unique<const WindowCounts>(windows, kBounds);
  const WindowCounts* none = nullptr;
  if (windows_.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) made.release();
}

bool Counters::Meet(std::string_view content) {
  const uint64_t hash = std::hash<std::string_view>()(content);
  return contents_[hash % kContentsKept].exchange(hash, std::memory_order_relaxed) != hash;
}

uint32_t Counters::WeightOf(const Hits& hits) const {
  constexpr uint32_t kFirst = 16;
  // A layer inside of a mail was met, and no gate.
  if (hits.begin() == hits.end()) return 0;
  uint32_t seen = kFirst;
  for (const uint32_t gate : hits) {
    if (gate < gate_count_) seen = std::min(seen, in_vain_by_gate_[gate].load(std::memory_order_relaxed));
  }
  if (seen < kFirst) return 1;
  return in_vain_.load(std::memory_order_relaxed) % kFirst == 0 ? kFirst : 0;
}

void Counters::CountInVain(const Hits& hits, bool teaches) {
  in_vain_.fetch_add(1, std::memory_order_relaxed);
  if (!teaches) return;
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
