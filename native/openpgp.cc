// SPDX-License-Identifier: GPL-2.0-only
// RFC 9580, 4.2 and 5. Keys and signatures alone are no messages.
#include "openpgp.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace sluice::openpgp {
namespace {

enum Tag : uint8_t {
  kKeyOfSession = 1,
  kSignature = 2,
  kPasswordOfSession = 3,
  kSignatureBegins = 4,
  kPacked = 8,
  kEncrypted = 9,
  kMarker = 10,
  kLiteral = 11,
  kEncryptedWithSum = 18,
  kEncryptedWithTag = 20,
};

struct Packet {
  uint8_t tag;
  Bytes whole;
  size_t end;
  // The body, if it comes in pieces.
  std::vector<uint8_t> joined = {};

  Bytes body() const { return joined.empty() ? whole : Bytes(joined); }
};

uint32_t HighNumber(Bytes bytes, size_t at, size_t count) {
  uint32_t number = 0;
  for (const uint8_t byte : bytes.subspan(at, count)) number = number << 8 | byte;
  return number;
}

// The old form of a header: two bits say how long the length is.
std::optional<Packet> OldPacketAt(Bytes bytes, size_t at) {
  const uint8_t tag = bytes[at] >> 2 & 0xf;
  const unsigned kind = bytes[at] & 3;
  const size_t digits = kind == 3 ? 0 : size_t{1} << kind;
  const size_t start = at + 1 + digits;
  if (start > bytes.size()) return std::nullopt;
  const Bytes rest = bytes.subspan(start);
  const size_t size = kind == 3 ? rest.size() : std::min<size_t>(HighNumber(bytes, at + 1, digits), rest.size());
  return Packet{tag, rest.first(size), start + size};
}

std::optional<Packet> PacketAt(Bytes bytes, size_t at) {
  if (at >= bytes.size() || (bytes[at] & 0x80) == 0) return std::nullopt;
  if ((bytes[at] & 0x40) == 0) return OldPacketAt(bytes, at);
  Packet packet{static_cast<uint8_t>(bytes[at] & 0x3f), {}, at + 1};
  for (bool is_last = false; !is_last;) {
    const Bytes rest = bytes.subspan(packet.end);
    if (rest.empty()) break;
    const uint8_t first = rest[0];
    const bool is_piece = first >= 224 && first < 255;
    const size_t digits = first < 192 || is_piece ? 1 : first < 224 ? 2 : 5;
    if (rest.size() < digits) return std::nullopt;
    uint64_t size = first;
    if (is_piece) size = uint64_t{1} << (first & 0x1f);
    else if (digits == 2) size = (first - 192U) * 256 + rest[1] + 192;
    else if (digits == 5) size = HighNumber(rest, 1, 4);
    size = std::min<uint64_t>(size, rest.size() - digits);
    const Bytes piece = rest.subspan(digits, static_cast<size_t>(size));
    packet.end += digits + piece.size();
    is_last = !is_piece;
    if (is_last && packet.joined.empty()) packet.whole = piece;
    else packet.joined.insert(packet.joined.end(), piece.begin(), piece.end());
  }
  return packet;
}

// What its first bytes say fits, which those of something else seldom do.
bool IsSound(const Packet& packet) {
  const Bytes body = packet.body();
  if (body.size() < 2) return false;
  constexpr uint8_t kAlgorithmMost = 27;
  constexpr std::string_view kFormats = "btul1m";
  switch (packet.tag) {
    case kKeyOfSession:
      return body.size() > 10 && ((body[0] == 3 && body[9] >= 1 && body[9] <= kAlgorithmMost) || body[0] == 6);
    case kPasswordOfSession:
      return body[0] >= 4 && body[0] <= 6 && body.size() <= 128;
    case kSignature:
      return body[0] >= 2 && body[0] <= 6;
    case kSignatureBegins:
      return (body[0] == 3 && body.size() == 13) || body[0] == 6;
    case kMarker:
      return TextOf(body) == "PGP";
    case kLiteral:
      return kFormats.find(static_cast<char>(body[0])) != kFormats.npos && body.size() >= body[1] + 6U;
    case kPacked:
      return body[0] <= 3;
    case kEncryptedWithSum:
      return body[0] == 1 || body[0] == 2;
    case kEncrypted:
    case kEncryptedWithTag:
      return true;
    default:
      return false;
  }
}

streams::End Unpack(const Packet& packet, streams::Output& output) {
  const Bytes packed = packet.body().subspan(1);
  switch (packet.body()[0]) {
    case 1:
      return streams::UnpackDeflate(packed, output);
    case 2:
      return streams::UnpackZlib(packed, output);
    case 3:
      return streams::Unpack(streams::Kind::kBzip2, packed, output).end;
    default:
      return output.Put(packed) ? streams::End::kWhole : output.stopped();
  }
}

}  // namespace

Reading Read(Bytes bytes, streams::Output& output) {
  Reading reading;
  bool has_key = false;
  size_t at = 0;
  // Recipients and those who have signed may be any number; each packet is two bytes at least.
  for (size_t count = 0;; count++) {
    const std::optional<Packet> packet = PacketAt(bytes, at);
    if (!packet || !IsSound(*packet)) return reading;
    at = packet->end;
    switch (packet->tag) {
      case kKeyOfSession:
      case kPasswordOfSession:
        has_key = true;
        break;
      case kEncrypted:
      case kEncryptedWithTag:
      case kEncryptedWithSum:
        // Without a key before it, it may be something else, if it doesn't end with the bytes.
        reading.is_encrypted = has_key || (count == 0 && packet->tag == kEncryptedWithSum && at == bytes.size());
        return reading;
      case kPacked:
        reading.end = Unpack(*packet, output);
        reading.has_content = reading.end == streams::End::kWhole || reading.end > streams::End::kForeign;
        return reading;
      case kLiteral:
        // A format, a name and a time stand before the bytes.
        reading.end = output.Put(packet->body().subspan(packet->body()[1] + 6U)) ? streams::End::kWhole : output.stopped();
        reading.has_content = true;
        return reading;
      default:
        break;
    }
  }
}

bool BeginsMessage(Bytes bytes) {
  const std::optional<Packet> packet = PacketAt(bytes, 0);
  return packet && packet->tag != kEncrypted && packet->tag != kEncryptedWithTag && IsSound(*packet);
}

}  // namespace sluice::openpgp
