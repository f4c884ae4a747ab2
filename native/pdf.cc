// SPDX-License-Identifier: GPL-2.0-only
// ISO 32000-2, 7.3.8 and 7.4.4.
#include "pdf.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "held.h"
#include "pdf-lexer.h"

namespace sluice::pdf {
namespace {

std::string_view Behind(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == text.npos) return {};
  const std::string_view rest = text.substr(at + name.size());
  return rest.substr(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
}

bool IsDigit(std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

// No number that makes sense has more digits.
size_t NumberOf(std::string_view dictionary, std::string_view name, size_t usual) {
  constexpr size_t kDigitsMost = 6;
  size_t number = 0;
  std::string_view text = Behind(dictionary, name).substr(0, kDigitsMost);
  if (!IsDigit(text)) return usual;
  for (; IsDigit(text); text.remove_prefix(1)) number = number * 10 + static_cast<size_t>(text[0] - '0');
  return number;
}

// RFC 1950.
bool IsZlib(Bytes data) {
  return data.size() > 2 && (data[0] & 0xf) == 8 && data[0] <= 0x78 && (data[0] << 8 | data[1]) % 31 == 0 && (data[1] & 0x20) == 0;
}

Stream StreamOf(std::string_view dictionary, size_t start, size_t end) {
  const size_t colors = NumberOf(dictionary, "/Colors", 1);
  const size_t bits = NumberOf(dictionary, "/BitsPerComponent", 8);
  return {start, end, RowOf(NumberOf(dictionary, "/Predictor", 1), colors, bits, NumberOf(dictionary, "/Columns", 1))};
}

// A name may have any letter as two digits behind a `#`. This one is looked at where the first such letter stands.
bool IsEncryption(std::string_view text, size_t first) {
  constexpr std::string_view kEncryption = "Encrypt";
  constexpr std::string_view kEndOfName = "/<>[]() \t\r\n";
  const size_t from = first - std::min(first, kEncryption.size());
  const size_t slash = text.substr(from, first - from).rfind('/');
  if (slash == text.npos) return false;
  size_t at = from + slash + 1;
  for (const char letter : kEncryption) {
    char read = at < text.size() ? text[at] : '\0';
    if (read == '#') {
      const char* digits = text.data() + std::min(at + 1, text.size());
      uint8_t byte = 0;
      std::from_chars(digits, digits + std::min<size_t>(2, text.data() + text.size() - digits), byte, 16);
      read = static_cast<char>(byte);
      at += 2;
    }
    if (read != letter) return false;
    at++;
  }
  return at >= text.size() || kEndOfName.find(text[at]) != kEndOfName.npos;
}

bool HidesEncryption(std::string_view text) {
  for (size_t at = text.find('#'); at != text.npos; at = text.find('#', at + 1)) {
    if (IsEncryption(text, at)) return true;
  }
  return false;
}

// Most readers open what has an end without a head, too.
bool HasEnd(std::string_view text) {
  constexpr size_t kTail = 1024;
  const std::string_view tail = text.substr(text.size() - std::min(text.size(), kTail));
  return tail.find("startxref") != tail.npos && tail.find("%%EOF") != tail.npos && text.find("endstream") != text.npos;
}

// Pictures have a predictor, and lists of objects.
bool IsNoPicture(std::string_view dictionary) {
  return dictionary.find("/Width") == dictionary.npos && dictionary.find("/ObjStm") == dictionary.npos;
}

// libclamav undoes the encryption of streams that have one of its own filters.
bool IsEncryptedBeyond(const Object& object) {
  const auto is_opened = [](const Step& step) {
    return step.filter == Filter::kDeflated || step.filter == Filter::kHex || step.filter == Filter::kBase85 || step.filter == Filter::kPicture;
  };
  if (object.is_elsewhere) return true;
  if (object.steps.empty()) return object.is_odd;
  if (std::ranges::none_of(object.steps, is_opened)) return true;
  return std::ranges::any_of(object.steps, [](const Step& step) { return step.row.has_value(); }) && IsNoPicture(object.dictionary);
}

class Reader {
 public:
  Reader(Bytes bytes, size_t most) : bytes_(bytes), text_(TextOf(bytes)), most_(most) {}

  Reading Read() {
    constexpr size_t kHead = 1024 + 5;
    if (text_.substr(0, kHead).find("%PDF-") == text_.npos) {
      reading_.is_foreign = HasEnd(text_);
      return std::move(reading_);
    }
    reading_.is_foreign = HidesEncryption(text_);
    is_encrypted_ = text_.find("/Encrypt") != text_.npos;
    if (is_encrypted_) reading_.encryption = ReadEncryption(text_);
    if (reading_.encryption.is_doubtful) reading_.is_foreign = true;
    Objects objects = ReadObjects(text_, most_);
    if (objects.is_too_much) reading_.is_foreign = true;
    // As they stand: objects may hold each other, and the words that end their streams are looked for once.
    std::ranges::sort(objects.with_streams, {}, &Object::start);
    for (const Object& object : objects.with_streams) Take(object);
    TakeOthers();
    return std::move(reading_);
  }

 private:
  void Take(const Object& object) {
    const size_t end = EndOf(object);
    const bool is_zlib = IsZlib(bytes_.subspan(object.start));
    if (object.is_foreign || (IsLocked() && !is_zlib && IsEncryptedBeyond(object))) reading_.is_foreign = true;
    if (IsToDecrypt(object)) Add({object.start, end, object.steps, true, object.number, object.generation});
    const bool is_deflated = object.steps.size() == 1 && object.steps[0].filter == Filter::kDeflated;
    if (is_deflated && is_zlib) {
      if (reading_.streams.size() <= most_) reading_.streams.push_back({object.start, end, object.steps[0].row});
    } else if (IsKnown(object.steps) || (object.steps.empty() && object.is_odd)) {
      // Of what is encrypted only this may lie there as it is.
      const bool may_be_plain = reading_.encryption.cipher == Encryption::Cipher::kNone || object.has_own_cipher || reading_.encryption.has_plain_metadata;
      if (may_be_plain) Add({object.start, end, object.steps});
    } else {
      return;
    }
    taken_.push_back(object.start);
  }

  void Add(FilteredStream stream) {
    if (reading_.filtered.size() <= most_) reading_.filtered.push_back(std::move(stream));
  }

  // It asks for a password, or nobody here knows how it is encrypted.
  bool IsLocked() const { return is_encrypted_ && reading_.encryption.key.empty(); }

  bool IsToDecrypt(const Object& object) const {
    if (reading_.encryption.cipher == Encryption::Cipher::kNone) return false;
    return object.steps.empty() || IsKnown(object.steps);
  }

  // Readers go by what the dictionary says, if that leads to the end of something, and else look for the word.
  size_t EndOf(const Object& object) {
    const size_t found = FindEnd(object.start);
    if (object.length > bytes_.size() - object.start) return found;
    if (object.start + object.length <= found) {
      // What lies before the word is the end of a line.
      const std::string_view rest = text_.substr(object.start + object.length, found - object.start - object.length);
      const bool is_exact = object.length > 0 && (rest.empty() || rest == "\n" || rest == "\r" || rest == "\r\n");
      return is_exact ? object.start + object.length : found;
    }
    reading_.excess += object.start + object.length - found;
    return object.start + object.length;
  }

  size_t FindEnd(size_t start) {
    if (end_ < start || start < searched_from_) {
      end_ = std::min(text_.find("endstream", start), text_.size());
      searched_from_ = start;
    }
    return end_;
  }

  // Those that no object leads to.
  void TakeOthers() {
    constexpr size_t kDictionaryMost = 64 << 10;
    std::ranges::sort(taken_);
    size_t before = 0;
    for (size_t at = text_.find(kStream); at != text_.npos && reading_.streams.size() <= most_; at = text_.find(kStream, at + 1)) {
      size_t start = at + kStream.size();
      if (at >= 3 && text_.substr(at - 3, 3) == "end") continue;
      if (Has(bytes_, start, "\r\n")) start += 2;
      else if (Has(bytes_, start, "\n") || Has(bytes_, start, "\r")) start += 1;
      else continue;
      const size_t dictionary_at = std::max(before, at > kDictionaryMost ? at - kDictionaryMost : 0);
      before = at;
      if (!IsZlib(bytes_.subspan(start)) || std::ranges::binary_search(taken_, start)) continue;
      const std::string_view whole = text_.substr(dictionary_at, at - dictionary_at);
      const size_t object = whole.rfind(" obj");
      reading_.streams.push_back(StreamOf(whole.substr(object == whole.npos ? 0 : object), start, FindEnd(start)));
    }
  }

  const Bytes bytes_;
  const std::string_view text_;
  const size_t most_;
  Reading reading_;
  bool is_encrypted_ = false;
  std::vector<size_t> taken_;
  // The word that ends a stream, and from where on it is the first.
  size_t end_ = 0;
  size_t searched_from_ = 0;
};

}  // namespace

Reading Read(Bytes bytes, size_t streams_max) { return Reader(bytes, streams_max).Read(); }

streams::End Unpack(Bytes data, const Stream& stream, streams::Output& output) {
  if (!stream.row) return streams::UnpackZlib(data, output);
  Held held;
  streams::Output deflated = output.Beside(held);
  const streams::End end = streams::UnpackZlib(data, deflated);
  return PutRows(held.bytes(), *stream.row, output) ? end : output.stopped();
}

streams::End Unpack(Bytes data, const FilteredStream& stream, const Encryption& encryption, streams::Output& output, uint64_t& between) {
  if (!stream.is_encrypted) return Undo(data, stream.steps, output, between);
  Held held;
  streams::Output decrypted = output.Beside(held);
  const streams::End end = Decrypt(data, encryption, stream.number, stream.generation, decrypted);
  return end > streams::End::kForeign ? end : Undo(held.bytes(), stream.steps, output, between);
}

}  // namespace sluice::pdf
