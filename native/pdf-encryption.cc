// SPDX-License-Identifier: GPL-2.0-only
#include "pdf-encryption.h"

#include <clamav.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

#include "ciphers.h"
#include "hex.h"
#include "pdf-lexer.h"

namespace sluice::pdf {
namespace {

using Vector = std::vector<uint8_t>;

void Append(Vector& vector, Bytes bytes) { vector.insert(vector.end(), bytes.begin(), bytes.end()); }

Vector DigestOf(const char* name, const Vector& bytes) {
  std::array<uint8_t, 64> digest;
  unsigned size = 0;
  if (cl_hash_data(name, bytes.data(), bytes.size(), digest.data(), &size) == nullptr) return {};
  return {digest.begin(), digest.begin() + size};
}

Vector BytesOfDigits(std::string_view digits) {
  Vector bytes;
  ForBytes(digits, [&](uint8_t byte) {
    bytes.push_back(byte);
    return true;
  });
  return bytes;
}

// Letters behind a backslash are others, or digits of one; the end of a line is one byte, whichever it is.
Vector BytesOfText(std::string_view text) {
  constexpr std::string_view kLetters = "nrtbf";
  constexpr std::string_view kMeant = "\n\r\t\b\f";
  constexpr size_t kDigitsMost = 3;
  Vector bytes;
  const auto is_octal = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
  for (size_t at = 0; at < text.size(); at++) {
    char letter = text[at];
    if (letter == '\\' && at + 1 < text.size()) {
      letter = text[++at];
      if (is_octal(at)) {
        unsigned number = 0;
        size_t count = 0;
        for (; count < kDigitsMost && is_octal(at); count++) number = number * 8 + static_cast<unsigned>(text[at++] - '0');
        at--;
        letter = static_cast<char>(number);
      } else if (letter == '\r' || letter == '\n') {
        if (letter == '\r' && text.substr(at + 1).starts_with('\n')) at++;
        continue;
      } else if (const size_t known = kLetters.find(letter); known != kLetters.npos) {
        letter = kMeant[known];
      }
    } else if (letter == '\r') {
      if (text.substr(at + 1).starts_with('\n')) at++;
      letter = '\n';
    }
    bytes.push_back(static_cast<uint8_t>(letter));
  }
  return bytes;
}

// What a dictionary has under a name, at any depth; null: nothing.
const Token* ValueOf(std::span<const Token> tokens, std::string_view name) {
  for (size_t at = 0; at + 1 < tokens.size(); at++) {
    if (tokens[at].kind == Kind::kName && IsName(tokens[at].text, name)) return &tokens[at + 1];
  }
  return nullptr;
}

int64_t NumberOf(const Token* token, int64_t usual) {
  if (token == nullptr || token->kind != Kind::kWord) return usual;
  return std::strtoll(std::string(token->text).c_str(), nullptr, 10);
}

// Values that are all the same, or else nothing is to be said.
class Only {
 public:
  void Take(Tokens tokens) {
    is_doubtful_ = is_doubtful_ || (!tokens_.empty() && tokens_ != tokens);
    tokens_ = std::move(tokens);
  }
  const Tokens& tokens() const { return tokens_; }
  bool is_doubtful() const { return is_doubtful_; }

 private:
  Tokens tokens_;
  bool is_doubtful_ = false;
};

// Values in a document.
class Search {
 public:
  explicit Search(std::string_view text) : text_(text), allowance_(text) {}

  // What a name stands before, wherever that is.
  template <typename Take>
  void ForValues(std::string_view key, Take take) {
    for (size_t at = text_.find(key); at != text_.npos && !allowance_.is_spent(); at = text_.find(key, at + 1)) {
      Lexer lexer = allowance_.At(at);
      if (lexer.Next().text == key.substr(1)) take(Value(lexer));
      allowance_.Spend(lexer.read());
    }
  }

  Only ObjectsOf(std::string_view number) {
    Only values;
    for (size_t at = text_.find(kObject); at != text_.npos && !allowance_.is_spent(); at = text_.find(kObject, at + 1)) {
      size_t end = at;
      DigitsBefore(text_, end);
      if (DigitsBefore(text_, end) != number) continue;
      Lexer lexer = allowance_.At(at + kObject.size());
      values.Take(Value(lexer));
      allowance_.Spend(lexer.read());
    }
    return values;
  }

  bool is_too_much() const { return allowance_.is_spent(); }

 private:
  static Tokens Value(Lexer& lexer) {
    Tokens tokens;
    TakeValue(lexer, &tokens);
    return tokens;
  }

  const std::string_view text_;
  Allowance allowance_;
};

// How streams or texts are encrypted, by the dictionary's list of filters.
Encryption::Cipher CipherOf(const Tokens& tokens, int64_t version, std::string_view name) {
  if (version < 4) return Encryption::Cipher::kRc4;
  const Token* const filter = ValueOf(tokens, name);
  if (filter == nullptr) return Encryption::Cipher::kNone;
  for (size_t at = 0; at + 1 < tokens.size(); at++) {
    if (tokens[at].kind != Kind::kName || tokens[at].text != filter->text || tokens[at + 1].kind != Kind::kOpen) continue;
    const Token* const method = ValueOf(std::span(tokens).subspan(at), "CFM");
    if (method != nullptr && IsName(method->text, "V2")) return Encryption::Cipher::kRc4;
    if (method != nullptr && IsName(method->text, "AESV2")) return Encryption::Cipher::kAes128;
    if (method != nullptr && IsName(method->text, "AESV3")) return Encryption::Cipher::kAes256;
  }
  return Encryption::Cipher::kNone;
}

constexpr size_t kEntry = 32;
constexpr std::array<uint8_t, kEntry> kPadding = {0x28, 0xbf, 0x4e, 0x5e, 0x4e, 0x75, 0x8a, 0x41, 0x64, 0x00, 0x4e, 0x56, 0xff, 0xfa, 0x01, 0x08,
                                                 0x2e, 0x2e, 0x00, 0xb6, 0xd0, 0x68, 0x3e, 0x80, 0x2f, 0x0c, 0xa9, 0xfe, 0x64, 0x53, 0x69, 0x7a};

// Algorithm 2, with nothing for a password.
Vector KeyOf(const Tokens& tokens, const Vector& owner, const Vector& document, int64_t revision, size_t length, bool has_plain_metadata) {
  Vector all(kPadding.begin(), kPadding.end());
  Append(all, owner);
  const auto rights = static_cast<uint32_t>(NumberOf(ValueOf(tokens, "P"), 0));
  for (const unsigned shift : {0, 8, 16, 24}) all.push_back(static_cast<uint8_t>(rights >> shift));
  Append(all, document);
  if (revision >= 4 && has_plain_metadata) all.insert(all.end(), 4, 0xff);
  Vector key = DigestOf("md5", all);
  if (key.size() < length) return {};
  key.resize(length);
  constexpr int kRounds = 50;
  for (int round = 0; revision >= 3 && round < kRounds; round++) {
    key = DigestOf("md5", key);
    key.resize(length);
  }
  return key;
}

// Algorithms 4 and 5.
bool IsOpen(const Vector& user, const Vector& document, int64_t revision, const Vector& key) {
  constexpr size_t kCompared = 16;
  constexpr uint8_t kRounds = 20;
  Vector proof(kPadding.begin(), kPadding.end());
  if (revision >= 3) {
    Append(proof, document);
    proof = DigestOf("md5", proof);
  }
  for (uint8_t round = 0; round < (revision >= 3 ? kRounds : 1); round++) {
    Vector other = key;
    for (uint8_t& byte : other) byte ^= round;
    ciphers::Rc4(other).Apply(proof);
  }
  return user.size() >= kCompared && proof.size() >= kCompared && std::equal(proof.begin(), proof.begin() + kCompared, user.begin());
}

// Algorithm 2.B.
Vector HardenedOf(const Vector& salt) {
  constexpr int kRounds = 64;
  constexpr int kTimes = 64;
  constexpr int kBeyond = 32;
  constexpr const char* kDigests[] = {"sha256", "sha384", "sha512"};
  Vector key = DigestOf("sha256", salt);
  for (int round = 0;; round++) {
    if (key.size() < kEntry) return {};
    Vector block;
    for (int time = 0; time < kTimes; time++) Append(block, key);
    ciphers::Aes(Bytes(key).first(16)).EncryptChain(block, Bytes(key).subspan(16, 16));
    unsigned sum = 0;
    for (size_t at = 0; at < ciphers::Aes::kBlock; at++) sum += block[at];
    const uint8_t last = block.back();
    key = DigestOf(kDigests[sum % 3], block);
    if (round + 1 >= kRounds && last <= round + 1 - kBeyond) break;
  }
  key.resize(std::min(key.size(), kEntry));
  return key;
}

// Algorithm 2.A: the key lies there, and what opens it is made of the salt behind the digest of the password.
Vector HiddenKeyOf(const Tokens& tokens, int64_t revision) {
  constexpr size_t kSaltSize = 8;
  const Vector user = BytesOf(ValueOf(tokens, "U"));
  Vector key = BytesOf(ValueOf(tokens, "UE"));
  if (user.size() < kEntry + 2 * kSaltSize || key.size() < kEntry) return {};
  key.resize(kEntry);
  const auto digest_of = [&](size_t at) {
    const auto salt = user.begin() + static_cast<ptrdiff_t>(at);
    return revision >= 6 ? HardenedOf({salt, salt + kSaltSize}) : DigestOf("sha256", {salt, salt + kSaltSize});
  };
  if (!std::ranges::equal(digest_of(kEntry), Bytes(user).first(kEntry))) return {};
  const Vector opens = digest_of(kEntry + kSaltSize);
  if (opens.size() < kEntry) return {};
  const std::array<uint8_t, ciphers::Aes::kBlock> zeros{};
  ciphers::Aes(opens).DecryptChain(key, zeros);
  return key;
}

Vector KeyOfOld(const Tokens& tokens, const std::vector<Vector>& documents, int64_t version, bool has_plain_metadata) {
  constexpr int64_t kLeast = 40;
  constexpr int64_t kMost = 128;
  const int64_t revision = NumberOf(ValueOf(tokens, "R"), 0);
  int64_t bits = revision < 3 ? kLeast : NumberOf(ValueOf(tokens, "Length"), kLeast);
  // Some writers count bytes here. By the list of filters it is always as many.
  if (bits >= 0 && bits < kLeast) bits *= 8;
  if (version == 4) bits = kMost;
  if (bits < kLeast || bits > kMost) return {};
  Vector owner = BytesOf(ValueOf(tokens, "O"));
  if (owner.size() < kEntry) return {};
  owner.resize(kEntry);
  const Vector user = BytesOf(ValueOf(tokens, "U"));
  for (const Vector& document : documents) {
    Vector key = KeyOf(tokens, owner, document, revision, static_cast<size_t>(bits / 8), has_plain_metadata);
    if (!key.empty() && IsOpen(user, document, revision, key)) return key;
  }
  return {};
}

// The first of two. Something else may be named so as well. Nothing: more than a document has are named so.
std::optional<std::vector<Vector>> DocumentsIn(Search& search) {
  constexpr size_t kMost = 64;
  constexpr std::string_view kSpellings[] = {"/ID", "/I#44", "/#49D", "/#49#44"};
  std::vector<Vector> documents;
  for (const std::string_view spelling : kSpellings) {
    search.ForValues(spelling, [&](const Tokens& tokens) {
      if (documents.size() > kMost || tokens.size() < 2 || tokens[0].kind != Kind::kList) return;
      Vector document = BytesOf(&tokens[1]);
      if (std::ranges::find(documents, document) == documents.end()) documents.push_back(std::move(document));
    });
  }
  if (documents.size() > kMost || search.is_too_much()) return std::nullopt;
  return documents;
}

}  // namespace

Vector BytesOf(const Token* token) {
  if (token == nullptr) return {};
  if (token->kind == Kind::kDigits) return BytesOfDigits(token->text);
  return token->kind == Kind::kText ? BytesOfText(token->text) : Vector();
}

Encryption ReadEncryption(std::string_view text) {
  Encryption encryption;
  const auto is_one = [](const Tokens& tokens) { return ValueOf(tokens, "V") != nullptr && ValueOf(tokens, "O") != nullptr; };
  Search search(text);
  Only found;
  search.ForValues("/Encrypt", [&](Tokens tokens) {
    if (!tokens.empty()) found.Take(std::move(tokens));
  });
  encryption.is_doubtful = found.is_doubtful();
  if (!found.tokens().empty() && found.tokens()[0].kind == Kind::kWord) found = search.ObjectsOf(found.tokens()[0].text);
  const Tokens& tokens = found.tokens();
  encryption.is_doubtful = encryption.is_doubtful || found.is_doubtful() || search.is_too_much();
  if (encryption.is_doubtful || !is_one(tokens)) return encryption;
  const int64_t version = NumberOf(ValueOf(tokens, "V"), 0);
  const Token* const metadata = ValueOf(tokens, "EncryptMetadata");
  encryption.has_plain_metadata = metadata != nullptr && metadata->text == "false";
  if (version == 5) {
    encryption.key = HiddenKeyOf(tokens, NumberOf(ValueOf(tokens, "R"), 0));
  } else if (version == 1 || version == 2 || version == 4) {
    const std::optional<std::vector<Vector>> documents = DocumentsIn(search);
    encryption.is_doubtful = !documents;
    if (documents) encryption.key = KeyOfOld(tokens, *documents, version, encryption.has_plain_metadata);
  }
  if (encryption.key.empty()) return encryption;
  encryption.cipher = CipherOf(tokens, version, "StmF");
  encryption.text_cipher = CipherOf(tokens, version, "StrF");
  return encryption;
}

Vector Decrypted(Bytes data, const Encryption& encryption, Encryption::Cipher cipher, uint32_t number, uint32_t generation) {
  using Cipher = Encryption::Cipher;
  constexpr size_t kBlock = ciphers::Aes::kBlock;
  constexpr size_t kMore = 5;
  Vector key = encryption.key;
  if (cipher == Cipher::kRc4 || cipher == Cipher::kAes128) {
    const size_t length = std::min(key.size() + kMore, kBlock);
    for (const unsigned shift : {0, 8, 16}) key.push_back(static_cast<uint8_t>(number >> shift));
    for (const unsigned shift : {0, 8}) key.push_back(static_cast<uint8_t>(generation >> shift));
    if (cipher == Cipher::kAes128) key.insert(key.end(), {'s', 'A', 'l', 'T'});
    key = DigestOf("md5", key);
    if (key.size() < length) return {};
    key.resize(length);
  }
  Vector bytes(data.begin(), data.end());
  if (cipher == Cipher::kRc4) ciphers::Rc4(key).Apply(bytes);
  if (cipher == Cipher::kAes128 || cipher == Cipher::kAes256) {
    if (bytes.size() < 2 * kBlock || (key.size() != kBlock && key.size() != 2 * kBlock)) return {};
    ciphers::Aes(key).DecryptChain(std::span(bytes).subspan(kBlock), data.first(kBlock));
    bytes.erase(bytes.begin(), bytes.begin() + kBlock);
    bytes.resize(bytes.size() / kBlock * kBlock);
    const uint8_t filled = bytes.back();
    if (filled > 0 && filled <= kBlock) bytes.resize(bytes.size() - filled);
  }
  return bytes;
}

streams::End Decrypt(Bytes data, const Encryption& encryption, uint32_t number, uint32_t generation, streams::Output& output) {
  return output.Put(Decrypted(data, encryption, encryption.cipher, number, generation)) ? streams::End::kWhole : output.stopped();
}

}  // namespace sluice::pdf
