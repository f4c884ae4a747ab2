// SPDX-License-Identifier: GPL-2.0-only
#include "office-encryption.h"

#include <clamav.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include "base64.h"
#include "ciphers.h"

namespace sluice::office {
namespace {

using Vector = std::vector<uint8_t>;
using Block = std::array<uint8_t, ciphers::Aes::kBlock>;

constexpr std::string_view kPassword = "VelvetSweatshop";
constexpr size_t kDigestMost = 64;
// Of a key or a block what a digest is too short for.
constexpr uint8_t kFill = 0x36;

// Puts the digest behind what is there.
bool AddDigest(std::string_view name, Bytes bytes, Vector& to) {
  std::array<uint8_t, kDigestMost> digest;
  unsigned size = 0;
  if (cl_hash_data(name.data(), bytes.data(), bytes.size(), digest.data(), &size) == nullptr) return false;
  to.insert(to.end(), digest.begin(), digest.begin() + size);
  return true;
}

void AddNumber(Vector& to, uint32_t number) {
  for (unsigned shift = 0; shift < 32; shift += 8) to.push_back(static_cast<uint8_t>(number >> shift));
}

// Empty where libclamav has no digest of this name.
Vector DigestOf(std::string_view name, Vector bytes, Bytes more = {}) {
  bytes.insert(bytes.end(), more.begin(), more.end());
  Vector digest;
  AddDigest(name, bytes, digest);
  return digest;
}

Block BlockOf(Bytes bytes) {
  Block block;
  block.fill(kFill);
  std::copy_n(bytes.begin(), std::min(bytes.size(), block.size()), block.begin());
  return block;
}

// In wide letters, behind the salt.
Vector Salted(Vector salt) {
  for (const char letter : kPassword) {
    salt.push_back(static_cast<uint8_t>(letter));
    salt.push_back(0);
  }
  return salt;
}

// Of the digest of the salt and the password, so often with a number before it.
Vector Spin(const Lock& lock) {
  constexpr size_t kNumber = 4;
  Vector digest = DigestOf(lock.digest, Salted(lock.salt));
  std::array<uint8_t, kNumber + kDigestMost> numbered;
  if (digest.empty()) return digest;
  std::copy(digest.begin(), digest.end(), numbered.begin() + kNumber);
  for (uint32_t spin = 0; spin < lock.spins; spin++) {
    for (unsigned at = 0; at < kNumber; at++) numbered[at] = static_cast<uint8_t>(spin >> 8 * at);
    unsigned size = 0;
    cl_hash_data(lock.digest.data(), numbered.data(), kNumber + digest.size(), numbered.data() + kNumber, &size);
  }
  std::copy_n(numbered.begin() + kNumber, digest.size(), digest.begin());
  return digest;
}

// The element that has this word. Nothing: there is none, or a second one.
std::optional<std::string_view> ElementOf(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == text.npos || text.find(word, at + 1) != text.npos) return std::nullopt;
  const size_t start = text.rfind('<', at);
  return start == text.npos ? std::nullopt : std::optional(text.substr(start, text.find('>', at) - start));
}

std::string_view AttributeOf(std::string_view element, std::string_view name) {
  constexpr std::string_view kBlanks = " \t\r\n";
  for (size_t at = element.find(name); at != element.npos; at = element.find(name, at + 1)) {
    if (at == 0 || kBlanks.find(element[at - 1]) == kBlanks.npos) continue;
    size_t next = element.find_first_not_of(kBlanks, at + name.size());
    if (next == element.npos || element[next] != '=') continue;
    next = element.find_first_not_of(kBlanks, next + 1);
    if (next == element.npos || (element[next] != '"' && element[next] != '\'')) continue;
    const size_t end = element.find(element[next], next + 1);
    return end == element.npos ? std::string_view() : element.substr(next + 1, end - next - 1);
  }
  return {};
}

uint64_t NumberOf(std::string_view element, std::string_view name) {
  const std::string_view text = AttributeOf(element, name);
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Of a few bytes.
Vector BytesOf(std::string_view element, std::string_view name) {
  Vector bytes;
  uint32_t bits = 0;
  unsigned count = 0;
  for (const char letter : AttributeOf(element, name)) {
    const uint8_t value = base64::kValues[static_cast<uint8_t>(letter)];
    if (value == base64::kNone) continue;
    bits = bits << 6 | value;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> count));
  }
  return bytes;
}

// By the name that libclamav has for it, which ends with a zero. Empty: none that Office writes.
std::string_view DigestNameOf(std::string_view element) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"SHA1", "sha1"}, {"SHA-1", "sha1"}, {"SHA256", "sha256"}, {"SHA384", "sha384"}, {"SHA512", "sha512"},
  };
  const std::string_view said = AttributeOf(element, "hashAlgorithm");
  const auto found = std::ranges::find_if(kNames, [said](const auto& one) { return one.first == said; });
  return found == std::end(kNames) ? std::string_view() : found->second;
}

bool IsKeySize(size_t size) { return size == 16 || size == 24 || size == 32; }
bool IsByAes(std::string_view element) {
  return AttributeOf(element, "cipherAlgorithm") == "AES" && AttributeOf(element, "cipherChaining") == "ChainingModeCBC";
}

std::optional<Lock> ReadAgile(Bytes info) {
  const std::string_view text = TextOf(info);
  // Notes and the like may hold elements that nobody reads.
  if (text.find("<!") != text.npos) return std::nullopt;
  const std::optional<std::string_view> document = ElementOf(text, "keyData");
  // Certificates may open it as well.
  const std::optional<std::string_view> password = ElementOf(text, "spinCount");
  if (!document || !password || !IsByAes(*document) || !IsByAes(*password)) return std::nullopt;
  Lock lock{.spins = NumberOf(*password, "spinCount"), .is_agile = true, .digest = DigestNameOf(*password)};
  lock.key_size = NumberOf(*password, "keyBits") / 8;
  lock.salt = BytesOf(*password, "saltValue");
  lock.proof = BytesOf(*password, "encryptedVerifierHashInput");
  lock.proof_digest = BytesOf(*password, "encryptedVerifierHashValue");
  lock.sealed_key = BytesOf(*password, "encryptedKeyValue");
  lock.document_digest = DigestNameOf(*document);
  lock.document_key_size = NumberOf(*document, "keyBits") / 8;
  lock.document_salt = BytesOf(*document, "saltValue");
  const bool is_known = !lock.digest.empty() && !lock.document_digest.empty() && IsKeySize(lock.key_size) && IsKeySize(lock.document_key_size);
  const bool has_all = !lock.salt.empty() && !lock.proof.empty() && !lock.proof_digest.empty() && lock.sealed_key.size() >= lock.document_key_size;
  return is_known && has_all ? std::optional(std::move(lock)) : std::nullopt;
}

// A header with the names of algorithms, behind its size, and what proves a password.
std::optional<Lock> ReadStandard(Bytes info) {
  constexpr size_t kHeader = 12;
  constexpr size_t kHeaderLeast = 32;
  constexpr size_t kSalt = 16;
  constexpr size_t kProofs = 4 + kSalt + 16 + 4 + 32;
  constexpr uint32_t kAes[] = {0x660e, 0x660f, 0x6610};
  if (info.size() < kHeader + kHeaderLeast) return std::nullopt;
  const uint32_t size = Word(info, 8);
  const uint32_t algorithm = Word(info, kHeader + 8);
  if (size < kHeaderLeast || size > info.size() - kHeader || info.size() - kHeader - size < kProofs) return std::nullopt;
  if (std::ranges::find(kAes, algorithm) == std::end(kAes)) return std::nullopt;
  Lock lock{.spins = 50'000, .digest = "sha1", .key_size = Word(info, kHeader + 16) / 8};
  const Bytes proofs = info.subspan(kHeader + size, kProofs);
  const auto take = [proofs](size_t at, size_t count) { return Vector(proofs.begin() + static_cast<ptrdiff_t>(at), proofs.begin() + static_cast<ptrdiff_t>(at + count)); };
  lock.salt = take(4, kSalt);
  lock.proof = take(20, 16);
  lock.proof_digest = take(40, 32);
  return IsKeySize(lock.key_size) && Word(proofs, 0) == kSalt ? std::optional(std::move(lock)) : std::nullopt;
}

// Of each block alone.
void DecryptBlocks(const ciphers::Aes& aes, std::span<uint8_t> bytes) {
  constexpr Block kNothing = {};
  for (size_t at = 0; at + ciphers::Aes::kBlock <= bytes.size(); at += ciphers::Aes::kBlock) aes.DecryptChain(bytes.subspan(at, ciphers::Aes::kBlock), kNothing);
}

bool IsProof(std::string_view digest, Bytes proof, const Vector& proof_digest) {
  const Vector proven = DigestOf(digest, Vector(proof.begin(), proof.end()));
  return !proven.empty() && proven.size() <= proof_digest.size() && std::equal(proven.begin(), proven.end(), proof_digest.begin());
}

Vector OpenAgile(const Lock& lock, const Vector& spun) {
  constexpr std::array<uint8_t, 8> kProof = {0xfe, 0xa7, 0xd2, 0x76, 0x3b, 0x4b, 0x9e, 0x79};
  constexpr std::array<uint8_t, 8> kProofDigest = {0xd7, 0xaa, 0x0f, 0x6d, 0x30, 0x61, 0x34, 0x4e};
  constexpr std::array<uint8_t, 8> kKey = {0x14, 0x6e, 0x0b, 0xe7, 0xab, 0xac, 0xd0, 0xd6};
  const Block before = BlockOf(lock.salt);
  const auto open = [&](Vector bytes, Bytes purpose) {
    Vector key = DigestOf(lock.digest, spun, purpose);
    key.resize(lock.key_size, kFill);
    ciphers::Aes(key).DecryptChain(bytes, before);
    return bytes;
  };
  const Vector proof = open(lock.proof, kProof);
  if (!IsProof(lock.digest, Bytes(proof).first(std::min(proof.size(), lock.salt.size())), open(lock.proof_digest, kProofDigest))) return {};
  Vector key = open(lock.sealed_key, kKey);
  key.resize(lock.document_key_size);
  return key;
}

Vector OpenStandard(const Lock& lock, const Vector& spun) {
  constexpr size_t kPad = 64;
  constexpr uint8_t kOther = 0x5c;
  constexpr std::array<uint8_t, 4> kFirst = {};
  const Vector last = DigestOf(lock.digest, spun, kFirst);
  Vector key;
  for (const uint8_t fill : {kFill, kOther}) {
    Vector pad(kPad, fill);
    for (size_t at = 0; at < last.size(); at++) pad[at] ^= last[at];
    AddDigest(lock.digest, pad, key);
  }
  key.resize(lock.key_size);
  const ciphers::Aes aes(key);
  Vector proof = lock.proof;
  Vector proof_digest = lock.proof_digest;
  DecryptBlocks(aes, proof);
  DecryptBlocks(aes, proof_digest);
  return IsProof(lock.digest, proof, proof_digest) ? key : Vector();
}

// What a stream of records says of its encryption. Each kilobyte has a key of its own.
struct BlockLock {
  std::string_view digest;
  size_t key_size;
  Vector secret;

  ciphers::Rc4 CipherOf(uint32_t block) const {
    Vector numbered = secret;
    AddNumber(numbered, block);
    Vector key = DigestOf(digest, std::move(numbered));
    key.resize(key_size);
    // 40 bits are filled up.
    if (key_size == 5) key.resize(16);
    return ciphers::Rc4(key);
  }

  bool IsProvenBy(Bytes proof, Bytes proof_digest) const {
    Vector both(proof.begin(), proof.end());
    both.insert(both.end(), proof_digest.begin(), proof_digest.end());
    CipherOf(0).Apply(both);
    return IsProof(digest, Bytes(both).first(proof.size()), Vector(both.begin() + static_cast<ptrdiff_t>(proof.size()), both.end()));
  }
};

// [MS-OFFCRYPTO] 2.3.6: of the password's digest five bytes, with the salt, sixteen times.
std::optional<BlockLock> ReadBlockLock(Bytes said) {
  constexpr size_t kSalt = 16;
  constexpr size_t kSecret = 5;
  constexpr int kTimes = 16;
  constexpr size_t kHead = 4;
  if (said.size() < kHead + 3 * kSalt) return std::nullopt;
  Vector first = DigestOf("md5", Salted({}));
  Vector repeated;
  first.resize(kSecret);
  for (int time = 0; time < kTimes; time++) {
    repeated.insert(repeated.end(), first.begin(), first.end());
    repeated.insert(repeated.end(), said.begin() + kHead, said.begin() + kHead + kSalt);
  }
  BlockLock lock{"md5", 16, DigestOf("md5", std::move(repeated))};
  lock.secret.resize(kSecret);
  return lock.IsProvenBy(said.subspan(kHead + kSalt, kSalt), said.subspan(kHead + 2 * kSalt, kSalt)) ? std::optional(std::move(lock)) : std::nullopt;
}

// 2.3.5.1, with a header and proofs as of standard encryption.
std::optional<BlockLock> ReadLongBlockLock(Bytes said) {
  constexpr size_t kHeader = 12;
  constexpr size_t kSalt = 16;
  constexpr size_t kDigest = 20;
  constexpr size_t kProofs = 4 + kSalt + 16 + 4 + kDigest;
  constexpr size_t kUsual = 5;
  if (said.size() < kHeader + 20) return std::nullopt;
  const uint32_t size = Word(said, 8);
  if (size > said.size() - kHeader || said.size() - kHeader - size < kProofs) return std::nullopt;
  const size_t key_size = Word(said, kHeader + 16) == 0 ? kUsual : Word(said, kHeader + 16) / 8;
  const Bytes proofs = said.subspan(kHeader + size, kProofs);
  if (key_size < kUsual || key_size > 16) return std::nullopt;
  BlockLock lock{"sha1", key_size, DigestOf("sha1", Salted({proofs.begin() + 4, proofs.begin() + 4 + kSalt}))};
  return lock.IsProvenBy(proofs.subspan(20, 16), proofs.subspan(40, kDigest)) ? std::optional(std::move(lock)) : std::nullopt;
}

// Records that are read before anything is decrypted ([MS-XLS] 2.2.10), and of one its first number.
size_t PlainBytesOf(uint16_t kind, size_t size) {
  constexpr uint16_t kPlain[] = {0x2f, 0xe1, 0x138, 0x194, 0x195, 0x196, 0x809};
  constexpr uint16_t kSheet = 0x85;
  if (std::ranges::find(kPlain, kind) != std::end(kPlain)) return size;
  return kind == kSheet ? std::min<size_t>(size, 4) : 0;
}

void DecryptRecords(std::span<uint8_t> stream, const BlockLock& lock) {
  constexpr size_t kBlock = 1024;
  constexpr size_t kHead = 4;
  Vector opened(stream.begin(), stream.end());
  for (size_t at = 0; at < opened.size(); at += kBlock) {
    lock.CipherOf(static_cast<uint32_t>(at / kBlock)).Apply(std::span(opened).subspan(at, std::min(kBlock, opened.size() - at)));
  }
  for (size_t at = 0; stream.size() - at >= kHead;) {
    const size_t size = std::min<size_t>(Half(stream, at + 2), stream.size() - at - kHead);
    const size_t plain = PlainBytesOf(Half(stream, at), size);
    at += kHead;
    std::copy_n(opened.begin() + static_cast<ptrdiff_t>(at + plain), size - plain, stream.begin() + static_cast<ptrdiff_t>(at + plain));
    at += size;
  }
}

}  // namespace

// The record that says it follows the first one, or a few more.
Workbook Open(std::span<uint8_t> stream) {
  constexpr size_t kHead = 4;
  constexpr size_t kKind = 2;
  constexpr uint16_t kEncrypted = 0x2f;
  constexpr uint8_t kNothing = 0xff;
  constexpr int kBefore = 16;
  size_t at = 0;
  for (int record = 0; record < kBefore && stream.size() - at >= kHead; record++) {
    const size_t size = Half(stream, at + 2);
    if (size > stream.size() - at - kHead) break;
    if (Half(stream, at) != kEncrypted) {
      at += kHead + size;
      continue;
    }
    const Bytes said = Bytes(stream).subspan(at + kHead, size);
    if (said.size() < kKind + kHead || Half(said, 0) != 1) return Workbook::kLocked;
    const Bytes version = said.subspan(kKind);
    const std::optional<BlockLock> lock = Half(version, 2) == 2 ? ReadLongBlockLock(version) : ReadBlockLock(version);
    if (!lock) return Workbook::kLocked;
    DecryptRecords(stream, *lock);
    stream[at] = stream[at + 1] = kNothing;
    return Workbook::kOpened;
  }
  return Workbook::kPlain;
}

std::optional<Lock> ReadLock(Bytes info) {
  constexpr size_t kHead = 8;
  if (info.size() < kHead) return std::nullopt;
  std::optional<Lock> lock;
  if (Half(info, 0) == 4 && Half(info, 2) == 4) lock = ReadAgile(info.subspan(kHead));
  if (Half(info, 0) >= 2 && Half(info, 0) <= 4 && Half(info, 2) == 2) lock = ReadStandard(info);
  return lock && lock->spins <= kSpinsMost ? lock : std::nullopt;
}

std::vector<uint8_t> OpenLock(const Lock& lock) {
  const Vector spun = Spin(lock);
  if (spun.empty()) return {};
  return lock.is_agile ? OpenAgile(lock, spun) : OpenStandard(lock, spun);
}

// A size, and pieces that are encrypted each for itself.
streams::End Decrypt(Bytes package, const Lock& lock, Bytes key, streams::Output& output) {
  constexpr size_t kSize = 8;
  constexpr size_t kPiece = 4096;
  if (package.size() < kSize) return streams::End::kCut;
  const ciphers::Aes aes(key);
  const Bytes all = package.subspan(kSize);
  uint64_t left = std::min<uint64_t>(Long(package, 0), all.size());
  Vector piece;
  for (uint32_t number = 0; left > 0; number++) {
    const Bytes there = all.subspan(number * kPiece, std::min(all.size() - number * kPiece, kPiece));
    piece.assign(there.begin(), there.end());
    if (lock.is_agile) {
      Vector salted = lock.document_salt;
      AddNumber(salted, number);
      aes.DecryptChain(piece, BlockOf(DigestOf(lock.document_digest, std::move(salted))));
    } else {
      DecryptBlocks(aes, piece);
    }
    const size_t count = static_cast<size_t>(std::min<uint64_t>(left, piece.size()));
    if (!output.Put(Bytes(piece).first(count))) return output.stopped();
    left -= count;
  }
  return streams::End::kWhole;
}

}  // namespace sluice::office
