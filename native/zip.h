// SPDX-License-Identifier: GPL-2.0-only
// Reads the directories of a zip as the common tools do, and says what libclamav does not open of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bytes.h"
#include "marks.h"

namespace sluice::zip {

struct Member {
  uint16_t method;
  bool is_encrypted;
  // LZMA: its end is marked.
  bool has_end;
  // Of its data.
  size_t start;
  // No further than this. What is deflated may end before.
  size_t end;
  uint64_t unpacked;
  // The end of the data is said by a directory, or by its own header.
  bool is_bounded;
};

struct Reading {
  // Not even a part of one: nothing else is said.
  bool is_zip = false;
  // It has no directory: its end is missing.
  bool is_cut = false;
  // Members were found among other bytes, and may be none.
  bool is_doubtful = false;
  // More members than were asked for.
  bool is_too_many = false;
  // What libclamav doesn't open.
  std::vector<Member> members;
  // What it opens, unless the data is damaged: it passes over that in silence.
  std::vector<Member> opened;
  // What lies before, between and behind its members and directories, if that is more than a few bytes.
  std::vector<Bytes> between;
  // Why a tool may see something else in it; empty: none does.
  std::string contradiction;
};

// It may be one, by this mark in it.
bool IsSign(Bytes bytes, const marks::Mark& mark);
Reading Read(Bytes bytes, size_t members_max);

// Of all members that have a size. Directories may name one of them thousands of times, and to unpack it takes long also where nothing comes out.
uint64_t BoundedBytes(const Reading& reading);

}  // namespace sluice::zip
