// SPDX-License-Identifier: GPL-2.0-only
// Each is known by what stands at one place of it; file systems and compress(1), whose marks are short, by a second look. Text may have the letters of a mark there.
#include "foreign.h"

#include <algorithm>
#include <string_view>

namespace sluice::foreign {
namespace {

struct Format {
  size_t at;
  std::string_view mark;
  const char* name;
  bool may_be_text = false;
};

constexpr Format kFormats[] = {
    {0, std::string_view("MSWIM\0\0\0", 8), "WIM"},
    {0, std::string_view("\x89LZO\0\r\n\x1a\n", 9), "lzop"},
    {0, "LRZI", "lrzip"},
    {0, "7kSt", "zpaq"},
    {7, "**ACE**", "ACE"},
    {20, "\xdc\xa7\xc4\xfd", "ZOO"},
    {0, "StuffIt (c)", "StuffIt"},
    {10, "rLau", "StuffIt"},
    {0, "ArC\x01", "FreeArc"},
    {0, "KWAJ\x88\xf0\x27\xd1", "KWAJ"},
    {0, std::string_view("\xff\x06\0\0sNaPpY", 10), "Snappy"},
    {0, "!<thin>\n", "thin ar", true},
    // What RPM 6 has in the place of a cpio: names and sizes stand elsewhere.
    {0, "07070X", "stripped cpio"},
    {0, "hsqs", "SquashFS"},
    {0, "sqsh", "SquashFS"},
    {8, std::string_view("AI\x02", 3), "AppImage"},
    {1024, "\xe2\xe1\xf5\xe0", "EROFS"},
    {16, "Compressed ROMFS", "cramfs"},
    {3, "NTFS    ", "NTFS"},
    {3, "EXFAT   ", "exFAT"},
    {0, std::string_view("QFI\xfb\0\0\0", 7), "QCOW"},
    {64, "\x7f\x10\xda\xbe", "VDI"},
    {0, "conectix", "VHD"},
    {0, "vhdxfile", "VHDX"},
    {0, std::string_view("KDMV\x01\0\0\0", 8), "VMDK"},
    {0, std::string_view("KDMV\x02\0\0\0", 8), "VMDK"},
    {0, std::string_view("KDMV\x03\0\0\0", 8), "VMDK"},
    {32, "NXSB", "APFS"},
    {512, "LABELONE", "LVM"},
    {0, std::string_view("XFSB\0\0", 6), "XFS"},
    {65'600, "_BHRfS_M", "Btrfs"},
    {1024, "\x10\x20\xf5\xf2", "F2FS"},
    {0, "-rom1fs-", "romfs"},
    {0, std::string_view("\x3a\xff\x26\xed\x01\0", 6), "Android sparse"},
};

// The head of an archive or of an image has bytes that text doesn't have.
bool IsText(Bytes bytes) {
  constexpr size_t kHead = 512;
  const Bytes head = bytes.first(std::min(bytes.size(), kHead));
  return std::all_of(head.begin(), head.end(), [](uint8_t byte) { return byte >= ' ' || (byte >= '\t' && byte <= '\r'); });
}

// Its first line is a version.
bool IsWarc(Bytes bytes) {
  const auto ends_at = [bytes](size_t at) { return Has(bytes, at, "\n") || Has(bytes, at, "\r\n"); };
  return Has(bytes, 0, "WARC/") && (ends_at(8) || ends_at(9));
}

// Two bytes, and the width of its codes.
bool IsCompress(Bytes bytes) {
  constexpr uint8_t kWidth = 0x1f;
  constexpr uint8_t kUnused = 0x60;
  return bytes.size() > 3 && bytes[0] == 0x1f && bytes[1] == 0x9d && (bytes[2] & kUnused) == 0 && (bytes[2] & kWidth) >= 9 &&
         (bytes[2] & kWidth) <= 16;
}

// ext2, 3 and 4: the superblock has a mark of two bytes, and fields that hold few values.
bool IsExt(Bytes bytes) {
  constexpr size_t kSuperblock = 1024;
  constexpr size_t kBlockSizeMost = 6;
  if (bytes.size() < 2 * kSuperblock || !Has(bytes, kSuperblock + 56, "\x53\xef")) return false;
  const bool has_blocks = Word(bytes, kSuperblock) > 0 && Word(bytes, kSuperblock + 4) > 0;
  const uint32_t block_size = Word(bytes, kSuperblock + 24);
  const uint32_t revision = Word(bytes, kSuperblock + 76);
  return has_blocks && block_size <= kBlockSizeMost && revision <= 1;
}

// A boot sector with a jump, sectors and clusters of sizes that there are, and its name where each kind has it.
bool IsFat(Bytes bytes) {
  constexpr size_t kSector = 512;
  if (bytes.size() < kSector || !Has(bytes, 510, "\x55\xaa") || (bytes[0] != 0xeb && bytes[0] != 0xe9)) return false;
  const uint16_t sector = Half(bytes, 11);
  const uint8_t cluster = bytes[13];
  if (sector < kSector || sector > 4096 || (sector & (sector - 1)) != 0) return false;
  if (cluster == 0 || (cluster & (cluster - 1)) != 0) return false;
  return Has(bytes, 54, "FAT") || Has(bytes, 82, "FAT32");
}

}  // namespace

const char* NameOf(Bytes bytes) {
  const auto found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [bytes](const Format& one) { return Has(bytes, one.at, one.mark); });
  if (found != std::end(kFormats) && (found->may_be_text || !IsText(bytes))) return found->name;
  if (IsWarc(bytes)) return "WARC";
  if (IsCompress(bytes)) return "compress";
  if (IsExt(bytes)) return "ext";
  return IsFat(bytes) ? "FAT" : nullptr;
}

}  // namespace sluice::foreign
