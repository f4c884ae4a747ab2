// SPDX-License-Identifier: GPL-2.0-only
// A libFuzzer target for each of our own parsers, which whole scans reach only behind libclamav's: PARSER in the environment names it. The first two bytes of
// an input are as those of fuzz.cc; here the first one says how often the others are repeated, the second is the parser's own.
// What must hold of each is checked: places lie within the content, and no input takes longer than its length and what comes out of it explain.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "../../native/archives.h"
#include "../../native/base64.h"
#include "../../native/bundles.h"
#include "../../native/ciphers.h"
#include "../../native/cms.h"
#include "../../native/compound.h"
#include "../../native/dmg.h"
#include "../../native/encoded.h"
#include "../../native/entities.h"
#include "../../native/listed.h"
#include "../../native/macros.h"
#include "../../native/marks.h"
#include "../../native/members.h"
#include "../../native/office-encryption.h"
#include "../../native/openpgp.h"
#include "../../native/pdf-lexer.h"
#include "../../native/pdf-scripts.h"
#include "../../native/pdf.h"
#include "../../native/rtf.h"
#include "../../native/seven-zip.h"
#include "../../native/spelled.h"
#include "../../native/streams.h"
#include "../../native/tnef.h"
#include "../../native/volumes.h"
#include "../../native/zip.h"
#include "image.h"

namespace {

using sluice::Bytes;
using sluice::Held;
using sluice::streams::Clock;
using sluice::streams::End;
using sluice::streams::Output;

// Of what one input unpacks to, and of a list.
constexpr uint64_t kOutputMost = 1 << 20;
constexpr size_t kFilesMost = 100;

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

void CheckWithin(Bytes bytes, size_t start, size_t end) { Check(start <= end && end <= bytes.size(), "a place outside of the content"); }

// Where bytes go that are unpacked: no more altogether than an input may have.
class Budget {
 public:
  template <typename Unpack>
  void Spend(Unpack unpack) {
    if (spent_ > kOutputMost) return;
    Held held;
    Output output(&held, kOutputMost, Clock::time_point::max());
    unpack(output);
    Check(output.size() <= kOutputMost + 1, "more came out than there may");
    spent_ += output.size();
  }
  void Add(uint64_t bytes) { spent_ += bytes; }
  uint64_t spent() const { return spent_; }

 private:
  uint64_t spent_ = 0;
};

void RunCompound(Bytes bytes, uint8_t, Budget& budget) {
  const auto file = sluice::compound::File::Read(bytes, kFilesMost);
  if (!file) return;
  Check(file->streams().size() <= kFilesMost + 1, "too many streams");
  for (const auto& stream : file->streams()) {
    budget.Spend([&](Output& output) {
      file->Unpack(bytes, stream, output);
      Check(output.stopped() != End::kWhole || output.size() == stream.size, "a stream of another size than said");
    });
  }
  for (const auto& workbook : file->workbooks()) {
    uint64_t size = 0;
    for (const auto& piece : file->PiecesOf(bytes, workbook)) size += piece.size;
    Check(size == workbook.size, "pieces of another size than said");
  }
}

void RunOffice(Bytes bytes, uint8_t choice, Budget& budget) {
  // The ciphers know no difference between much and little, nor the digests between many turns and few.
  constexpr size_t kMost = 8192;
  constexpr uint64_t kSpinsMost = 100;
  constexpr size_t kKey = 32;
  bytes = bytes.first(std::min(bytes.size(), kMost));
  std::vector<uint8_t> stream(bytes.begin(), bytes.end());
  sluice::office::Open(stream);
  auto lock = sluice::office::ReadLock(bytes);
  if (!lock || bytes.size() < kKey) return;
  lock->spins = std::min(lock->spins, kSpinsMost);
  const std::vector<uint8_t> key = sluice::office::OpenLock(*lock);
  const Bytes other = bytes.first(choice % 2 == 0 ? kKey / 2 : kKey);
  budget.Spend([&](Output& output) { sluice::office::Decrypt(bytes, *lock, key.empty() ? other : Bytes(key), output); });
}

void RunMacros(Bytes bytes, uint8_t, Budget& budget) {
  for (std::optional<size_t> next = 0; next && budget.spent() <= kOutputMost;) {
    const size_t from = *next;
    budget.Spend([&](Output& output) { next = sluice::macros::UnpackNext(bytes, from, output); });
    Check(!next || (*next > from && *next <= bytes.size()), "a search that goes nowhere");
  }
  for (const auto& file : sluice::macros::ReadObjects(bytes, kFilesMost)) CheckWithin(bytes, file.start, file.start + file.size);
}

void RunPdf(Bytes bytes, uint8_t, Budget& budget) {
  const sluice::pdf::Reading reading = sluice::pdf::Read(bytes, kFilesMost);
  uint64_t length = 0;
  const auto is_within = [&](size_t start, size_t end) {
    CheckWithin(bytes, start, end);
    length += end - start;
    return length <= 2 * bytes.size() + reading.excess;
  };
  for (const auto& stream : reading.streams) {
    if (!is_within(stream.start, stream.end)) break;
    budget.Spend([&](Output& output) { sluice::pdf::Unpack(bytes.subspan(stream.start, stream.end - stream.start), stream, output); });
  }
  budget.Add(std::min<uint64_t>(reading.excess, 4 * bytes.size()));
  const sluice::pdf::Scripts scripts = sluice::pdf::ReadScripts(sluice::TextOf(bytes), kFilesMost);
  Check(scripts.texts.size() <= kFilesMost + 1, "too many scripts");
  length = 0;
  for (const auto& stream : reading.filtered) {
    if (!is_within(stream.start, stream.end) || reading.excess > 4 * bytes.size()) break;
    budget.Spend([&](Output& output) {
      uint64_t between = 0;
      sluice::pdf::Unpack(bytes.subspan(stream.start, stream.end - stream.start), stream, reading.encryption, output, between);
      budget.Add(between);
    });
  }
}

// The first bytes say which filters there are.
void RunPdfFilters(Bytes bytes, uint8_t choice, Budget& budget) {
  using sluice::pdf::Filter;
  if (bytes.size() < 8) return;
  std::vector<sluice::pdf::Step> steps;
  for (size_t at = 0; at <= choice % 3U; at++) {
    sluice::pdf::Step step{static_cast<Filter>(bytes[at] % 6), {}, (bytes[at] & 8) == 0};
    if ((bytes[at] & 16) != 0) step.row = sluice::pdf::RowOf(bytes[3] % 16, bytes[4], bytes[5], sluice::Half(bytes, 6));
    steps.push_back(step);
  }
  if (!sluice::pdf::IsKnown(steps)) return;
  uint64_t between = 0;
  budget.Spend([&](Output& output) { sluice::pdf::Undo(bytes.subspan(8), steps, output, between); });
  budget.Add(between);
  if (const auto row = sluice::pdf::RowOf(bytes[3] % 16, bytes[4], bytes[5], sluice::Half(bytes, 6))) {
    budget.Spend([&](Output& output) { sluice::pdf::PutRows(bytes.subspan(8), *row, output); });
  }
}

void RunPdfEncryption(Bytes bytes, uint8_t choice, Budget& budget) {
  sluice::pdf::Encryption encryption = sluice::pdf::ReadEncryption(sluice::TextOf(bytes));
  // The ciphers know no difference between much and little.
  constexpr size_t kMost = 4096;
  bytes = bytes.first(std::min(bytes.size(), kMost));
  budget.Spend([&](Output& output) { sluice::pdf::Decrypt(bytes, encryption, choice, 0, output); });
  constexpr size_t kKey = 32;
  if (bytes.size() < kKey + 16) return;
  encryption.cipher = static_cast<sluice::pdf::Encryption::Cipher>(choice % 4);
  encryption.key.assign(bytes.begin(), bytes.begin() + 5 + choice % 28);
  budget.Spend([&](Output& output) { sluice::pdf::Decrypt(bytes, encryption, choice, 0, output); });
  std::vector<uint8_t> there(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(bytes.size() / 16 * 16));
  const sluice::ciphers::Aes aes(bytes.first(choice % 2 == 0 ? 16 : kKey));
  aes.EncryptChain(there, bytes.first(16));
  aes.DecryptChain(there, bytes.first(16));
  Check(std::equal(there.begin(), there.end(), bytes.begin()), "AES does not undo itself");
}

void RunEntities(Bytes bytes, uint8_t, Budget& budget) {
  sluice::entities::HasNeedless(bytes);
  budget.Spend([&](Output& output) { sluice::entities::Decode(bytes, output); });
}

void RunSpelled(Bytes bytes, uint8_t, Budget& budget) {
  sluice::spelled::Finder finder(bytes);
  while (const auto run = finder.Next()) {
    CheckWithin(bytes, run->start, run->end);
    const Bytes spelling = bytes.subspan(run->start, run->end - run->start);
    budget.Spend([&](Output& output) { sluice::spelled::Decode(spelling, run->form, output); });
    if (run->form != sluice::spelled::Form::kBase64) continue;
    std::vector<sluice::base64::Run> runs;
    Check(sluice::base64::Read(bytes, run->start, runs) > run->start, "base64 that goes nowhere");
    for (const auto& one : runs) CheckWithin(bytes, one.start, one.end);
  }
}

void RunOpenPgp(Bytes bytes, uint8_t, Budget& budget) {
  budget.Spend([&](Output& output) { sluice::openpgp::Read(bytes, output); });
  sluice::openpgp::BeginsMessage(bytes);
}

void RunVolumes(Bytes bytes, uint8_t, Budget&) {
  const sluice::volumes::Reading reading = sluice::volumes::Read(bytes, kFilesMost);
  Check(reading.files.size() <= 2 * kFilesMost + 300, "too many files");
  for (const auto& pieces : reading.files) {
    for (const auto& piece : pieces) CheckWithin(bytes, piece.start, piece.start + piece.size);
  }
}

void RunListed(Bytes bytes, uint8_t, Budget&) { Check(sluice::listed::Read(bytes).sizes.size() <= bytes.size() + kOutputMost, "too many members"); }

void RunArchives(Bytes bytes, uint8_t, Budget&) {
  for (const auto& archive : sluice::archives::Read(bytes)) {
    for (const Bytes member : archive.members) Check(member.empty() || (member.data() >= bytes.data() && member.data() + member.size() <= bytes.data() + bytes.size()), "a member outside");
  }
  sluice::archives::SizeOfTar(bytes);
}

void RunDmg(Bytes bytes, uint8_t, Budget& budget) {
  const sluice::dmg::Reading reading = sluice::dmg::Read(bytes);
  for (const auto& pieces : reading.partitions) {
    budget.Spend([&](Output& output) { sluice::dmg::Unpack(pieces, output); });
  }
}

void RunBundles(Bytes bytes, uint8_t choice, Budget&) {
  auto files = sluice::bundles::Read(bytes, kFilesMost);
  uint64_t read = 0;
  const auto others = sluice::bundles::ReadPyInstaller(bytes, std::min<size_t>(choice, bytes.size()), kFilesMost, read);
  files.insert(files.end(), others.begin(), others.end());
  const auto of_php = sluice::bundles::ReadPhar(bytes, choice, kFilesMost, read);
  files.insert(files.end(), of_php.begin(), of_php.end());
  for (const auto& file : files) CheckWithin(bytes, file.start, file.start + file.size);
  if (const auto modules = sluice::bundles::ModulesOf(bytes)) CheckWithin(bytes, std::min(modules->start, modules->list), std::max(modules->start, modules->list));
  if (const auto installer = sluice::bundles::ReadNsis(bytes)) CheckWithin(bytes, installer->start, bytes.size());
}

void RunStreams(Bytes bytes, uint8_t choice, Budget& budget) {
  const auto kind = sluice::streams::KindOf(bytes);
  if (kind != sluice::streams::Kind::kNone) {
    sluice::streams::MayBeOther(kind, bytes);
    budget.Spend([&](Output& output) {
      const auto unpacked = sluice::streams::Unpack(kind, bytes, output);
      Check(unpacked.consumed <= bytes.size(), "more taken than there is");
    });
    sluice::streams::SizeInXz(bytes);
  }
  if (choice % 4 == 1) budget.Spend([&](Output& output) { sluice::streams::UnpackDeflate(bytes, output); });
  if (choice % 4 == 2) budget.Spend([&](Output& output) { sluice::streams::UnpackZlib(bytes, output); });
  if (choice % 4 == 3 && bytes.size() > 5) {
    budget.Spend([&](Output& output) { sluice::streams::UnpackLzma(bytes.first(5), UINT64_MAX, bytes.subspan(5), output); });
  }
}

void UnpackMembers(Bytes bytes, const std::vector<sluice::zip::Member>& members, Budget& budget) {
  uint64_t length = 0;
  for (const auto& member : members) {
    CheckWithin(bytes, member.start, member.end);
    length += member.end - member.start;
    if (length > 2 * bytes.size()) break;
    budget.Spend([&](Output& output) { sluice::members::Unpack(bytes.subspan(member.start, member.end - member.start), member, output); });
  }
}

void RunMarked(Bytes bytes, uint8_t, Budget& budget) {
  sluice::encoded::Finder encoded(bytes, kFilesMost);
  sluice::marks::Finder marks(bytes);
  while (const auto mark = marks.Next()) {
    CheckWithin(bytes, mark->at, bytes.size());
    encoded.Meet(*mark);
  }
  for (const auto& object : sluice::rtf::Read(bytes, kFilesMost).objects) {
    encoded.members().push_back({sluice::encoded::kObjectDigits, false, false, object.start, object.end, object.size, true});
  }
  for (const auto& attachment : sluice::tnef::Read(bytes, kFilesMost)) CheckWithin(bytes, attachment.start, attachment.start + attachment.size);
  budget.Spend([&](Output& output) { sluice::rtf::UnpackBody(bytes, output); });
  UnpackMembers(bytes, encoded.members(), budget);
}

void RunZip(Bytes bytes, uint8_t, Budget& budget) {
  const auto reading = sluice::zip::Read(bytes, kFilesMost);
  UnpackMembers(bytes, reading.members, budget);
  UnpackMembers(bytes, reading.opened, budget);
  std::vector<uint64_t> sizes;
  uint64_t list_bytes = 0;
  sluice::seven_zip::Read(bytes, sizes, list_bytes);
  budget.Spend([&](Output& output) { sluice::cms::Unpack(bytes, output); });
}

struct Parser {
  std::string_view name;
  void (*run)(Bytes bytes, uint8_t choice, Budget& budget);
};

constexpr Parser kParsers[] = {
    {"compound", RunCompound}, {"macros", RunMacros},   {"pdf", RunPdf},         {"pdf-filters", RunPdfFilters}, {"pdf-encryption", RunPdfEncryption},
    {"entities", RunEntities}, {"spelled", RunSpelled}, {"openpgp", RunOpenPgp}, {"volumes", RunVolumes},        {"listed", RunListed},
    {"archives", RunArchives}, {"dmg", RunDmg},         {"bundles", RunBundles}, {"streams", RunStreams},        {"marked", RunMarked},
    {"zip", RunZip},           {"office", RunOffice},
};

const Parser* chosen = nullptr;

// By this thread's processor, which others that use the machine have no part in.
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("PARSER");
  const auto found = std::ranges::find(kParsers, std::string_view(name == nullptr ? "" : name), &Parser::name);
  if (found == std::end(kParsers)) {
    for (const Parser& parser : kParsers) std::printf("%.*s\n", static_cast<int>(parser.name.size()), parser.name.data());
    std::exit(2);
  }
  // Without names the targets of PDFs would see nothing, and find nothing.
  Check(sluice::pdf::Lexer("/Name 1", 0).Next().text == "Name", "the words of a PDF are not read");
  chosen = found;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t length) {
  constexpr size_t kMost = 256 << 10;
  // With the sanitizers; without them it takes a tenth.
  constexpr double kSecondsLeast = 0.5;
  constexpr double kSecondsEach = 4e-6;
  if (length < 2) return 0;
  const std::vector<uint8_t> image = IsImage(input[0]) ? ImageOf(input + 2, length - 2) : std::vector<uint8_t>(input + 2, input + length);
  const size_t times = std::max<size_t>(std::min<size_t>(size_t{1} << (input[0] >> 4), kMost / std::max<size_t>(image.size(), 1)), 1);
  const size_t size = image.size() * times;
  // Exactly as long as it says, so that reading one byte too far is seen.
  std::unique_ptr<uint8_t[]> exact(new uint8_t[size]);
  for (size_t at = 0; at < size; at += image.size()) std::ranges::copy(image, exact.get() + at);
  Budget budget;
  const double start = Seconds();
  chosen->run(Bytes(exact.get(), size), input[1], budget);
  const double took = Seconds() - start;
  const double allowed = kSecondsLeast + kSecondsEach * static_cast<double>(size + budget.spent());
  if (took > allowed) std::fprintf(stderr, "fuzz: %zu bytes took %.2f s\n", size, took);
  Check(took <= allowed, "an input takes unusually long");
  return 0;
}
