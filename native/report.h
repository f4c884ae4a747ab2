// SPDX-License-Identifier: GPL-2.0-only
// What crosses between the rooms of the native layer: plain data, with neither libclamav nor JavaScript in it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

struct Limits {
  uint64_t max_scan_size_bytes;
  uint64_t max_file_size_bytes;
  uint32_t max_files;
  uint32_t max_recursion;
  uint32_t max_scan_time_ms;
  // Of all scans together, in the temporary folder.
  uint64_t max_temporary_bytes = 4ULL << 30;
};

// Gates: body signatures of which one hits in every content that a logical or extended signature matches, and these signatures
// themselves, shared out among engines that look only then.
struct GateFiles {
  std::string gates;
  // Those of them that are plain bytes (literals.h), and how many they are.
  std::string literals;
  uint32_t literal_count;
  // Of both files.
  uint32_t gate_count;
  // Which shares look only where two gates have hit (gates.h).
  std::string conditions;
  // Files of logical signatures, beside which there is one of extended ones. Each share has an engine of its own.
  std::vector<std::string> shares;
  std::vector<std::string> supports;
  std::vector<std::string> programs;
  // Bits of the shares that are asked about layers inside of mails which begin with one of these, or with anything.
  uint32_t mail_shares;
  std::vector<std::string> mail_beginnings;
  // Bits of the shares that have programs: a list of the names of their files.
  uint32_t program_shares;
};

struct LoadRequest {
  std::vector<std::string> directories;
  std::string temporary_directory;
  // What libclamav passes over in silence: loaded beside the databases, not counted among them.
  std::string marks_directory;
  Limits limits;
  // The first engine matches all signatures in one pass: faster where few of them are body signatures, slower where many are.
  bool single_pass;
  // Images are hashed by what they look like, for signatures of such hashes. It takes most of the time of a picture.
  bool image_hashes;
  // About as many signatures as the databases have: of what progress is a part.
  uint64_t expected_signatures;
  // The self-test: content that a signature must match (empty: none is known), and content that none may match.
  std::string infected_sample;
  std::string clean_sample;
  // Nothing: one engine looks at everything.
  std::optional<GateFiles> gates;
  // Hashes of windows (windows.h) whose contents are counted; empty: nothing is.
  std::vector<uint64_t> windows;
};

struct EngineFacts {
  // Which engine of this process it is: grows with every one that is built, so with every one that serves.
  uint64_t epoch;
  std::string engine_version;
  uint32_t signature_count;
  double load_millis;
  // What libclamav complained of while it loaded, oldest first.
  std::vector<std::string> warnings;
};

// What a load tells of itself.
struct LoadObserver {
  // How far it is, 0 to 1. One call at a time.
  std::function<void(double)> progress;
  // Called once per signature and at every progress step, on any thread of the load: the place where it can be held.
  std::function<void()> step;
};

// When engines looked again at what gates had hit, from the first to the last of them, in milliseconds since the scan began; both 0: none did.
struct SecondLook {
  double began_millis = 0;
  double ended_millis = 0;
};

struct ScanReport {
  int code;               // cl_error_t
  const char* code_text;  // static storage
  std::optional<std::string> virus_name;
  std::vector<std::string> alerts;  // distinct names in the order they were found
  // There is no verdict because storage of our own was short, whatever the content is.
  bool storage_failed = false;
  // The number of what libclamav says the content is (content-types.h).
  uint32_t type = 0;
  SecondLook second_look{};
};

// Since the engine was built.
struct GateStatistics {
  uint64_t scans;
  uint64_t second_looks;
  // Engines that have taken them: more than one where gates of several shares hit.
  uint64_t lookers;
  uint64_t in_vain;
  // Numbers of gates and how often they hit in vain.
  std::vector<std::pair<uint32_t, uint32_t>> noisy;
};

class LoadError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace sluice
