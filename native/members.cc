// SPDX-License-Identifier: GPL-2.0-only
#include "members.h"

#include "base64.h"
#include "encoded.h"
#include "rtf.h"

namespace sluice::members {
namespace {

// Of a member of a zip: its data begins with a version, and the properties of the coder (APPNOTE.TXT 5.8.8). A file has its size there.
streams::End UnpackZipLzma(Bytes data, const zip::Member& member, streams::Output& output) {
  constexpr size_t kVersion = 4;
  constexpr size_t kProperties = 5;
  if (data.size() < kVersion + kProperties || data[2] != kProperties) return streams::End::kDamaged;
  const uint64_t size = member.has_end ? UINT64_MAX : member.unpacked;
  return streams::UnpackLzma(data.subspan(kVersion, kProperties), size, data.subspan(kVersion + kProperties), output);
}

}  // namespace

std::optional<streams::End> Unpack(Bytes data, const zip::Member& member, streams::Output& output) {
  switch (member.method) {
    case 0:
    case encoded::kAsItIs:
      return output.Put(data) ? streams::End::kWhole : output.stopped();
    case 8:
      return streams::UnpackDeflate(data, output);
    case 12:
      return streams::Unpack(streams::Kind::kBzip2, data, output).end;
    case 14:
      return UnpackZipLzma(data, member, output);
    case 20:
    case 93:
      return streams::Unpack(streams::Kind::kZstd, data, output).end;
    case 95:
      return streams::Unpack(streams::Kind::kXz, data, output).end;
    case encoded::kBase64:
      return base64::Decode(data, output);
    case encoded::kReversedBase64:
      return base64::DecodeReversed(data, output);
    case encoded::kZlib:
      return streams::UnpackZlib(data, output);
    case encoded::kUuencoded:
      return encoded::DecodeUuencoded(data, output);
    case encoded::kQuoted:
      return encoded::DecodeQuoted(data, output);
    case encoded::kObjectDigits:
      return rtf::Decode(data, output);
    default:
      return std::nullopt;
  }
}

}  // namespace sluice::members
