// SPDX-License-Identifier: GPL-2.0-only
// Between libclamav and its matcher: hears which signatures it gets, sees each piece of bytes that it is given, and has it look only where something can match.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "overlap.h"
#include "stretches.h"

namespace sluice::matcher {

// Before the first engine is loaded. False: it can't be known what the matcher is given.
bool Watch();

// Of an engine, by the matcher, of which it has one for each kind of file.
using Finders = std::map<const void*, stretches::Finder>;

// The body signatures of an engine, as libclamav gives them to its matchers.
class Signatures {
 public:
  explicit Signatures(bool wants_finders) : wants_finders_(wants_finders) {}

  void Add(const void* root, const stretches::Signature& signature) noexcept;

  const overlap::Patterns& patterns() const { return patterns_; }
  // After the last one; none where none are wanted. Throws std::bad_alloc, also where that was met before.
  Finders Finish();

 private:
  const bool wants_finders_;
  overlap::Patterns patterns_;
  Finders finders_;
  bool out_of_memory_ = false;
};

// While it lives, those that libclamav loads on this thread are noted down.
class Hearing {
 public:
  explicit Hearing(Signatures& signatures);
  ~Hearing();
  Hearing(const Hearing&) = delete;
  Hearing& operator=(const Hearing&) = delete;
};

// Is called with each piece of bytes that the matcher gets. `target` is the kind of file whose signatures it looks for there.
using Reader = std::function<void(uint32_t target, std::span<const uint8_t> bytes)>;

// What is done with the pieces that the matcher gets on this thread while it lives. Some bytes come twice.
class Matching {
 public:
  // The reader may be null. `all_matches`: libclamav goes on after a match.
  Matching(const Finders& finders, const Reader* reader, bool all_matches);
  ~Matching();
  Matching(const Matching&) = delete;
  Matching& operator=(const Matching&) = delete;

  const Finders& finders;
  const Reader* const reader;
  const bool all_matches;

  // Up to which byte of a content there can be more of what began in the pieces before (stretches.h). `state`: what libclamav keeps of the content
  // for a matcher. Throws std::bad_alloc.
  uint64_t& ReachOf(const void* root, const void* state, uint32_t offset);

 private:
  std::map<std::pair<const void*, const void*>, uint64_t> reaches_;
};

}  // namespace sluice::matcher
