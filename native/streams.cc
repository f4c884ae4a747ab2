// SPDX-License-Identifier: GPL-2.0-only
// The libraries of the formats, each asked for one stream after the other.
#include "streams.h"

#include <bzlib.h>
#include <lz4.h>
#include <lz4frame.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "blocks.h"

namespace sluice::streams {
namespace {

// `xz -9` needs 65 MB, and a zstd window as `zstd -d` takes it by itself 128 MB.
constexpr uint64_t kMemoryLimit = 256ULL << 20;
constexpr size_t kLzmaHeader = 13;
constexpr uint32_t kSkippableMagic = 0x184D2A50;

constexpr uint8_t kUsualProperties = 0x5d;

// As liblzma and 7z have it: a size that encoders use.
bool IsUsualDictionary(uint32_t size) {
  const uint32_t lowest = size & (~size + 1);
  return size == UINT32_MAX || size == lowest || size == 3 * lowest;
}

// The format has no magic. Where the properties are those of all tools, other bytes are unlikely, and dpkg and 7z take any sizes.
bool IsLzma(Bytes bytes) {
  constexpr uint8_t kPropertiesEnd = 9 * 5 * 5;
  constexpr size_t kLeast = kLzmaHeader + 5;
  if (bytes.size() < kLeast || bytes[0] >= kPropertiesEnd || bytes[kLzmaHeader] != 0) return false;
  const uint32_t dictionary = Word(bytes, 1);
  const uint64_t size = Long(bytes, 5);
  if (bytes[0] == kUsualProperties) return size != 0;
  // Many a file begins with zeros.
  constexpr uint32_t kSmallest = 4096;
  const bool is_likely = dictionary >= kSmallest || Word(bytes, kLzmaHeader + 1) != 0;
  return IsUsualDictionary(dictionary) && is_likely && (size == UINT64_MAX || (size != 0 && size < 1ULL << 40));
}

End Failure(bool is_memory) {
  if (is_memory) throw std::bad_alloc();
  return End::kDamaged;
}

End Inflate(Bytes bytes, int window_bits, Output& output, size_t& consumed) {
  z_stream stream{};
  if (inflateInit2(&stream, window_bits) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> owner(&stream, inflateEnd);
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  for (;;) {
    const std::span<uint8_t> room = output.Room();
    if (room.empty()) return output.stopped();
    stream.next_out = room.data();
    stream.avail_out = static_cast<uInt>(room.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    output.Took(room.size() - stream.avail_out);
    consumed = bytes.size() - stream.avail_in;
    if (code == Z_STREAM_END) return End::kWhole;
    if (code != Z_OK && code != Z_BUF_ERROR) return Failure(code == Z_MEM_ERROR);
    if (stream.avail_in == 0 && stream.avail_out != 0) return End::kCut;
  }
}

// Of all streams of a content, one after the other: a stream may be of a few bytes, and a decoder takes long to make.
struct Decoders {
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> zstd{nullptr, ZSTD_freeDStream};
  std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> lz4{nullptr, LZ4F_freeDecompressionContext};
  std::unique_ptr<char[]> lz4_block;
  lzma_stream lzma = LZMA_STREAM_INIT;
  Blocks bzip2;

  Decoders() = default;
  Decoders(const Decoders&) = delete;
  ~Decoders() { lzma_end(&lzma); }
};

End Bunzip2(Decoders& decoders, Bytes bytes, Output& output, size_t& consumed) {
  bz_stream stream{};
  // To map its 3.6 MB takes longer than to read a small stream.
  stream.opaque = &decoders.bzip2;
  stream.bzalloc = [](void* blocks, int count, int each) { return static_cast<Blocks*>(blocks)->Take(static_cast<size_t>(count) * static_cast<size_t>(each)); };
  stream.bzfree = [](void* blocks, void* start) { static_cast<Blocks*>(blocks)->GiveBack(start); };
  if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK) throw std::bad_alloc();
  const std::unique_ptr<bz_stream, decltype(&BZ2_bzDecompressEnd)> owner(&stream, BZ2_bzDecompressEnd);
  stream.next_in = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  stream.avail_in = static_cast<unsigned>(bytes.size());
  for (;;) {
    const std::span<uint8_t> room = output.Room();
    if (room.empty()) return output.stopped();
    stream.next_out = reinterpret_cast<char*>(room.data());
    stream.avail_out = static_cast<unsigned>(room.size());
    const int code = BZ2_bzDecompress(&stream);
    output.Took(room.size() - stream.avail_out);
    consumed = bytes.size() - stream.avail_in;
    if (code == BZ_STREAM_END) return End::kWhole;
    if (code != BZ_OK) return Failure(code == BZ_MEM_ERROR);
    if (stream.avail_in == 0 && stream.avail_out != 0) return End::kCut;
  }
}

lzma_ret StartLzma(Kind kind, lzma_stream& stream) {
  if (kind == Kind::kXz) return lzma_stream_decoder(&stream, kMemoryLimit, 0);
#if LZMA_VERSION >= 50040002
  if (kind == Kind::kLzip) return lzma_lzip_decoder(&stream, kMemoryLimit, 0);
#endif
  return kind == Kind::kLzma ? lzma_alone_decoder(&stream, kMemoryLimit) : LZMA_OPTIONS_ERROR;
}

End Unlzma(Kind kind, lzma_stream& stream, Bytes header, Bytes bytes, Output& output, size_t& consumed) {
  const lzma_ret started = StartLzma(kind, stream);
  if (started == LZMA_MEM_ERROR) throw std::bad_alloc();
  if (started != LZMA_OK) return End::kForeign;
  stream.next_in = header.data();
  stream.avail_in = header.size();
  bool in_header = true;
  for (;;) {
    if (in_header && stream.avail_in == 0) {
      in_header = false;
      stream.next_in = bytes.data();
      stream.avail_in = bytes.size();
    }
    const std::span<uint8_t> room = output.Room();
    if (room.empty()) return output.stopped();
    stream.next_out = room.data();
    stream.avail_out = room.size();
    const lzma_ret code = lzma_code(&stream, LZMA_RUN);
    output.Took(room.size() - stream.avail_out);
    consumed = in_header ? 0 : bytes.size() - stream.avail_in;
    if (code == LZMA_STREAM_END) return End::kWhole;
    if (code == LZMA_MEMLIMIT_ERROR || code == LZMA_OPTIONS_ERROR) return End::kForeign;
    if (code != LZMA_OK && code != LZMA_BUF_ERROR) return Failure(code == LZMA_MEM_ERROR);
    if (!in_header && stream.avail_in == 0 && stream.avail_out != 0) return End::kCut;
  }
}

End Unzstd(Decoders& decoders, Bytes bytes, Output& output, size_t& consumed) {
  if (!decoders.zstd) decoders.zstd.reset(ZSTD_createDStream());
  if (!decoders.zstd) throw std::bad_alloc();
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  for (;;) {
    const std::span<uint8_t> room = output.Room();
    if (room.empty()) return output.stopped();
    ZSTD_outBuffer target{room.data(), room.size(), 0};
    const size_t code = ZSTD_decompressStream(decoders.zstd.get(), &target, &input);
    output.Took(target.pos);
    consumed = input.pos;
    if (code == 0) return End::kWhole;
    if (ZSTD_isError(code)) {
      switch (ZSTD_getErrorCode(code)) {
        case ZSTD_error_memory_allocation:
          throw std::bad_alloc();
        case ZSTD_error_dictionary_wrong:
        case ZSTD_error_frameParameter_windowTooLarge:
        case ZSTD_error_frameParameter_unsupported:
        case ZSTD_error_version_unsupported:
          return End::kForeign;
        default:
          return End::kDamaged;
      }
    }
    if (input.pos == input.size && target.pos != target.size) return End::kCut;
  }
}

// Within a block nothing is decompressed, though what can't be compressed stands in it as it is, where a tool may find an archive.
End Unlz4(Decoders& decoders, Bytes bytes, Output& output, size_t& consumed) {
  // What the library asks for next between two blocks: the size of a block.
  constexpr size_t kBetween = 4;
  if (!decoders.lz4) {
    LZ4F_dctx* made = nullptr;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION))) throw std::bad_alloc();
    decoders.lz4.reset(made);
  }
  LZ4F_resetDecompressionContext(decoders.lz4.get());
  for (;;) {
    const std::span<uint8_t> room = output.Room();
    if (room.empty()) return output.stopped();
    size_t produced = room.size();
    size_t taken = bytes.size() - consumed;
    const size_t code = LZ4F_decompress(decoders.lz4.get(), room.data(), &produced, bytes.data() + consumed, &taken, nullptr);
    if (LZ4F_isError(code)) return End::kDamaged;
    output.Took(produced);
    consumed += taken;
    if (code == 0) return End::kWhole;
    if (consumed == bytes.size() && produced != room.size()) return code == kBetween ? End::kCut : End::kDamaged;
  }
}

// A magic, then blocks of at most 8 MB, each behind its size, up to the end or to what can be no size.
End Unlz4Legacy(Decoders& decoders, Bytes bytes, Output& output, size_t& consumed) {
  constexpr size_t kBlock = 8 << 20;
  std::unique_ptr<char[]>& block = decoders.lz4_block;
  consumed = 4;
  while (consumed < bytes.size()) {
    if (bytes.size() - consumed < 4) return End::kCut;
    const size_t size = Word(bytes, consumed);
    if (size > static_cast<size_t>(LZ4_compressBound(kBlock))) return End::kWhole;
    if (bytes.size() - consumed - 4 < size) return End::kDamaged;
    const auto* from = reinterpret_cast<const char*>(bytes.data() + consumed + 4);
    if (!block) block = std::make_unique_for_overwrite<char[]>(kBlock);
    const int produced = LZ4_decompress_safe(from, block.get(), static_cast<int>(size), static_cast<int>(kBlock));
    if (produced < 0) return End::kDamaged;
    if (!output.Put({reinterpret_cast<const uint8_t*>(block.get()), static_cast<size_t>(produced)})) return output.stopped();
    consumed += 4 + size;
  }
  return End::kWhole;
}

End Skip(Bytes bytes, size_t& consumed) {
  constexpr size_t kHeader = 8;
  if (bytes.size() < kHeader || bytes.size() - kHeader < Word(bytes, 4)) {
    consumed = bytes.size();
    return End::kCut;
  }
  consumed = kHeader + Word(bytes, 4);
  return End::kWhole;
}

// No more of a dictionary is needed than there can be output.
End UnpackLzmaFile(lzma_stream& stream, Bytes bytes, Output& output, size_t& consumed) {
  constexpr uint32_t kDictionaryMost = 128 << 20;
  std::array<uint8_t, kLzmaHeader> header;
  std::copy_n(bytes.begin(), header.size(), header.begin());
  const uint32_t dictionary = std::min(Word(bytes, 1), kDictionaryMost);
  for (size_t at = 0; at < sizeof dictionary; at++) header[1 + at] = static_cast<uint8_t>(dictionary >> (8 * at));
  const End end = Unlzma(Kind::kLzma, stream, header, bytes.subspan(header.size()), output, consumed);
  consumed += header.size();
  return end;
}

End UnpackOne(Kind kind, Decoders& decoders, Bytes bytes, Output& output, size_t& consumed) {
  constexpr int kGzipWindow = 16 + MAX_WBITS;
  switch (kind) {
    case Kind::kLzma:
      return UnpackLzmaFile(decoders.lzma, bytes, output, consumed);
    case Kind::kGzip:
      return Inflate(bytes, kGzipWindow, output, consumed);
    case Kind::kBzip2:
      return Bunzip2(decoders, bytes, output, consumed);
    case Kind::kZstd:
      return Unzstd(decoders, bytes, output, consumed);
    case Kind::kLz4:
      return Unlz4(decoders, bytes, output, consumed);
    case Kind::kLz4Legacy:
      return Unlz4Legacy(decoders, bytes, output, consumed);
    case Kind::kSkippable:
      return Skip(bytes, consumed);
    default:
      return Unlzma(kind, decoders.lzma, {}, bytes, output, consumed);
  }
}

// zstd and lz4 have frames of which others pass over, and liblzma takes its formats for one.
bool MayFollow(Kind before, Kind after) {
  const auto has_frames = [](Kind kind) {
    return kind == Kind::kZstd || kind == Kind::kLz4 || kind == Kind::kLz4Legacy || kind == Kind::kSkippable;
  };
  const auto is_of_lzma = [](Kind kind) { return kind == Kind::kXz || kind == Kind::kLzma || kind == Kind::kLzip; };
  return before == after || (has_frames(before) && has_frames(after)) || (is_of_lzma(before) && is_of_lzma(after));
}

// By LZMA2 and no filter.
bool IsPlainBlock(Bytes bytes, lzma_check check) {
  lzma_filter filters[LZMA_FILTERS_MAX + 1];
  lzma_block block{};
  block.check = check;
  block.filters = filters;
  block.header_size = lzma_block_header_size_decode(bytes[0]);
  if (bytes[0] == 0 || bytes.size() < block.header_size) return false;
  if (lzma_block_header_decode(&block, nullptr, bytes.data()) != LZMA_OK) return false;
  const bool is_plain = filters[0].id == LZMA_FILTER_LZMA2 && filters[1].id == LZMA_VLI_UNKNOWN;
  for (const lzma_filter& filter : filters) {
    if (filter.id == LZMA_VLI_UNKNOWN) break;
    free(filter.options);
  }
  return is_plain;
}

// The end of the format is there, though its decoder hasn't found it.
bool HasEnd(Kind kind, Bytes bytes) {
  if (kind == Kind::kXz) return bytes.size() >= 2 && bytes[bytes.size() - 2] == 'Y' && bytes[bytes.size() - 1] == 'Z';
  if (kind != Kind::kBzip2) return false;
  // 48 bits, then a sum of 32, then less than 8 to fill the last byte.
  constexpr uint64_t kMark = 0x177245385090;
  constexpr uint64_t kMarkBits = (1ULL << 48) - 1;
  constexpr size_t kLast = 11;
  if (bytes.size() < kLast) return false;
  uint64_t bits = 0;
  for (const uint8_t byte : bytes.last(kLast).first(8)) bits = bits << 8 | byte;
  for (unsigned shift = 0; shift < 16; shift++) {
    if ((bits >> shift & kMarkBits) == kMark) return true;
  }
  return false;
}

}  // namespace

Kind KindOf(Bytes bytes) {
  if (bytes.size() < 4) return Kind::kNone;
  switch (bytes[0]) {
    case 0x1f:
      return bytes[1] == 0x8b && bytes[2] == 8 ? Kind::kGzip : Kind::kNone;
    case 'B':
      return Has(bytes, 1, "Zh") && bytes[3] >= '1' && bytes[3] <= '9' ? Kind::kBzip2 : Kind::kNone;
    case 0xfd:
      return Has(bytes, 1, std::string_view("7zXZ\0", 5)) ? Kind::kXz : Kind::kNone;
    case 'L':
      return Has(bytes, 0, "LZIP") ? Kind::kLzip : Kind::kNone;
    default:
      break;
  }
  const uint32_t word = Word(bytes, 0);
  if (word == ZSTD_MAGICNUMBER) return Kind::kZstd;
  if (word == 0x184D2204) return Kind::kLz4;
  if (word == 0x184C2102) return Kind::kLz4Legacy;
  if ((word & ~0xfU) == kSkippableMagic) return Kind::kSkippable;
  return IsLzma(bytes) ? Kind::kLzma : Kind::kNone;
}

bool MayBeOther(Kind kind, Bytes bytes) {
  const bool is_usual = bytes[0] == kUsualProperties && IsUsualDictionary(Word(bytes, 1));
  return kind == Kind::kSkippable || (kind == Kind::kLzma && !is_usual);
}

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kGzip:
      return "gzip";
    case Kind::kBzip2:
      return "bzip2";
    case Kind::kXz:
      return "xz";
    case Kind::kLz4:
    case Kind::kLz4Legacy:
      return "lz4";
    case Kind::kLzma:
      return "LZMA";
    case Kind::kLzip:
      return "lzip";
    default:
      return "zstd";
  }
}

End UnpackDeflate(Bytes bytes, Output& output) {
  size_t consumed = 0;
  const End end = Inflate(bytes, -MAX_WBITS, output, consumed);
  output.Needed(consumed);
  return end;
}

End UnpackZlib(Bytes bytes, Output& output) {
  size_t consumed = 0;
  const End end = Inflate(bytes, MAX_WBITS, output, consumed);
  output.Needed(consumed);
  return end;
}

size_t BeginZlib(Bytes bytes, std::span<uint8_t> first) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> owner(&stream, inflateEnd);
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = first.data();
  stream.avail_out = static_cast<uInt>(first.size());
  inflate(&stream, Z_NO_FLUSH);
  return first.size() - stream.avail_out;
}

End UnpackLzma(Bytes properties, uint64_t size, Bytes bytes, Output& output) {
  constexpr size_t kProperties = 5;
  std::array<uint8_t, kLzmaHeader> header;
  std::copy_n(properties.begin(), kProperties, header.begin());
  for (size_t at = 0; at < sizeof size; at++) header[kProperties + at] = static_cast<uint8_t>(size >> (8 * at));
  size_t consumed = 0;
  Decoders decoders;
  return Unlzma(Kind::kLzma, decoders.lzma, header, bytes, output, consumed);
}

std::optional<uint64_t> SizeInXz(Bytes bytes) {
  if (bytes.size() < 2 * LZMA_STREAM_HEADER_SIZE) return std::nullopt;
  lzma_stream_flags footer;
  if (lzma_stream_footer_decode(&footer, bytes.data() + bytes.size() - LZMA_STREAM_HEADER_SIZE) != LZMA_OK) return std::nullopt;
  const size_t end = bytes.size() - LZMA_STREAM_HEADER_SIZE;
  if (footer.backward_size > end) return std::nullopt;
  uint64_t memory = kMemoryLimit;
  size_t at = end - static_cast<size_t>(footer.backward_size);
  lzma_index* read = nullptr;
  if (lzma_index_buffer_decode(&read, &memory, nullptr, bytes.data(), &at, end) != LZMA_OK) return std::nullopt;
  const std::unique_ptr<lzma_index, void (*)(lzma_index*)> index(read, [](lzma_index* one) { lzma_index_end(one, nullptr); });
  // All bytes are in it, so there is no second stream.
  if (lzma_index_file_size(index.get()) != bytes.size()) return std::nullopt;
  lzma_index_iter iterator;
  lzma_index_iter_init(&iterator, index.get());
  while (!lzma_index_iter_next(&iterator, LZMA_INDEX_ITER_BLOCK)) {
    if (!IsPlainBlock(bytes.subspan(static_cast<size_t>(iterator.block.compressed_file_offset)), footer.check)) return std::nullopt;
  }
  return lzma_index_uncompressed_size(index.get());
}

Unpacked Unpack(Kind kind, Bytes bytes, Output& output) {
  Unpacked unpacked{End::kWhole};
  Decoders decoders;
  for (;;) {
    size_t consumed = 0;
    unpacked.end = UnpackOne(kind, decoders, bytes.subspan(unpacked.consumed), output, consumed);
    unpacked.consumed += consumed;
    if (unpacked.end == End::kCut && HasEnd(kind, bytes)) unpacked.end = End::kDamaged;
    // What has no magic was something else.
    if (unpacked.end == End::kDamaged && kind == Kind::kLzma && unpacked.streams > 0) unpacked.end = End::kWhole;
    else if (unpacked.end == End::kWhole) unpacked.streams++;
    if (unpacked.end != End::kWhole) return unpacked;
    const auto rest = bytes.begin() + static_cast<ptrdiff_t>(unpacked.consumed);
    const auto next = std::find_if(rest, bytes.end(), [](uint8_t byte) { return byte != 0; });
    const Kind following = KindOf({next, bytes.end()});
    if (!MayFollow(kind, following)) return unpacked;
    unpacked.padded = unpacked.padded || next != rest;
    unpacked.consumed = static_cast<size_t>(next - bytes.begin());
    kind = following;
  }
}

}  // namespace sluice::streams
