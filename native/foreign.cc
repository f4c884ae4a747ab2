// SPDX-License-Identifier: GPL-2.0-only
// Each is known by what stands at one place of it; file systems and compress(1), whose marks are short, by a second look. Text may have the letters of a mark there.
#include "foreign.h"

#include <algorithm>
#include <string_view>

#include "streams.h"

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
    {0, std::string_view("WLPWM\0\0\0", 8), "WIM"},
    {0, std::string_view("\x89LZO\0\r\n\x1a\n", 9), "lzop"},
    {0, "LRZI", "lrzip"},
    {0, "7kSt", "zpaq"},
    {0, "zPQ\x01", "zpaq"},
    {0, "zPQ\x02", "zpaq"},
    {7, "**ACE**", "ACE"},
    {7, "-sqx-", "SQX"},
    {20, "\xdc\xa7\xc4\xfd", "ZOO"},
    {0, "StuffIt (c)", "StuffIt"},
    {0, "StuffIt!", "StuffIt"},
    {0, "StuffIt?", "StuffIt"},
    {10, "rLau", "StuffIt"},
    {0, "ArC\x01", "FreeArc"},
    {0, "KWAJ\x88\xf0\x27\xd1", "KWAJ"},
    {0, "SZ \x88\xf0\x27\x33\xd1", "SZ"},
    {0, std::string_view("\xff\x06\0\0sNaPpY", 10), "Snappy"},
    {0, "!<thin>\n", "thin ar", true},
    // What RPM 6 has in the place of a cpio: names and sizes stand elsewhere.
    {0, "07070X", "stripped cpio"},
    {0, "hsqs", "SquashFS"},
    {0, "sqsh", "SquashFS"},
    {0, "shsq", "SquashFS"},
    {0, "qshs", "SquashFS"},
    {0, "DWARFS", "DwarFS"},
    {8, std::string_view("AI\x02", 3), "AppImage"},
    {1024, "\xe2\xe1\xf5\xe0", "EROFS"},
    {16, "Compressed ROMFS", "cramfs"},
    {3, "NTFS    ", "NTFS"},
    {3, "EXFAT   ", "exFAT"},
    {0, std::string_view("QFI\xfb\0\0\0", 7), "QCOW"},
    {64, "\x7f\x10\xda\xbe", "VDI"},
    {0, "conectix", "VHD"},
    {0, "vhdxfile", "VHDX"},
    {0, "WithoutFreeSpace", "Parallels"},
    {0, "WithouFreSpacExt", "Parallels"},
    {0, std::string_view("QED\0", 4), "QED"},
    {0, std::string_view("KDMV\x01\0\0\0", 8), "VMDK"},
    {0, std::string_view("KDMV\x02\0\0\0", 8), "VMDK"},
    {0, std::string_view("KDMV\x03\0\0\0", 8), "VMDK"},
    {0, std::string_view("COWD\x01\0\0\0", 8), "VMDK"},
    {32, "NXSB", "APFS"},
    {512, "LABELONE", "LVM"},
    {0, std::string_view("XFSB\0\0", 6), "XFS"},
    {65'600, "_BHRfS_M", "Btrfs"},
    {1024, "\x10\x20\xf5\xf2", "F2FS"},
    {0, "-rom1fs-", "romfs"},
    {0, std::string_view("\x3a\xff\x26\xed\x01\0", 6), "Android sparse"},
    {65'588, "ReIsErFs", "ReiserFS"},
    {65'588, "ReIsEr2Fs", "ReiserFS"},
    {65'588, "ReIsEr3Fs", "ReiserFS"},
    {0, std::string_view("UBI#\x01\0\0\0", 8), "UBI"},
    {0, "\x31\x18\x10\x06", "UBIFS"},
    // The mark of an erased block, an entry of a folder, and a part of a file, in both orders of bytes.
    {0, "\x85\x19\x03\x20", "JFFS2"},
    {0, "\x85\x19\x01\xe0", "JFFS2"},
    {0, "\x85\x19\x02\xe0", "JFFS2"},
    {0, "\x19\x85\x20\x03", "JFFS2"},
    {0, "\x19\x85\xe0\x01", "JFFS2"},
    {0, "\x19\x85\xe0\x02", "JFFS2"},
    {0, "bvx1", "LZFSE"},
    {0, "bvx2", "LZFSE"},
    {0, "bvxn", "LZFSE"},
    {0, "bvx-", "LZFSE"},
    {0, "RZIP\x02", "rzip"},
    {0, "DMS!", "DMS"},
    {0, "ALZ\x01", "ALZ"},
    {0, "!BDN", "PST"},
    {0, "\xcf\xad\x12\xfe", "DBX"},
    {0, "EGGA", "EGG"},
    {0, std::string_view("DAA\0", 4), "DAA"},
    {0, "IsZ!", "ISZ"},
    {0, "\x37\xe4\x53\x96\xc9\xdb\xd6\x07", "zisofs"},
    {0, "ANDROID BACKUP\n", "Android backup", true},
    {0, std::string_view("PACK\0\0\0\x02", 8), "git pack"},
    {0, std::string_view("EVF\x09\r\n\xff\0", 8), "EWF"},
    {0, "\xca\xfe\xd0\x0d", "pack200"},
    {0, "# v2 git bundle\n", "git bundle", true},
    {0, "# v3 git bundle\n", "git bundle", true},
    {0, std::string_view("pbzx\0\0\0", 7), "pbzx"},
    {0, std::string_view("pbze\0\0\0", 7), "Apple Archive"},
    {0, std::string_view("pbz4\0\0\0", 7), "Apple Archive"},
    {0, std::string_view("pbzz\0\0\0", 7), "Apple Archive"},
    {0, std::string_view("pbz-\0\0\0", 7), "Apple Archive"},
    {0, "AA01", "Apple Archive"},
    {0, "YAA1", "Apple Archive"},
    {0, "AEA1", "Apple Archive"},
    {0, std::string_view("sprs\0\0\0", 7), "sparse image"},
    {0, "ISc(", "InstallShield"},
    {0, std::string_view("ITOLITLS\x01\0\0\0", 12), "Microsoft Help 2"},
    {0, "\x8f\xaf\xac\x84", "PPMd"},
    {0, std::string_view("GRZipII\0", 8), "GRZip"},
    {0, std::string_view("LZX\0", 4), "LZX"},
    {0, "BH\x05\x07", "BlakHole"},
    {0, "PP20", "PowerPacker"},
    {0, "HG10", "Mercurial bundle"},
    {0, "HG20", "Mercurial bundle"},
    {0, std::string_view("flatpak\0", 8), "Flatpak"},
    {0, std::string_view("mozLz40\0", 8), "mozLz4"},
    {8, "nix-archive-1", "Nix archive"},
    {0, "XBSTCK01", "xbstream"},
    {0, std::string_view("VMA\0", 4), "VMA"},
    {0, "FsArCh_", "FSArchiver"},
    {0, "partclone-image", "Partclone"},
    {0, "PaRtImAgE-VoLuMe", "Partimage"},
    {0, std::string_view("\0ntfsclone-image", 16), "ntfsclone"},
    {0, "EVF2\r\n\x81", "EWF"},
    {0, std::string_view("AFF10\r\n\0", 8), "AFF"},
    {0, "CISO", "CSO"},
    {0, "ZISO", "CSO"},
    {0, "MComprHD", "CHD"},
    {0, std::string_view("ECM\0", 4), "ECM"},
    {4096, "gDla", "Android super"},
    {40, "_FVH", "UEFI"},
    {4096, std::string_view("\xfc\x4e\x2b\xa9\x01\0\0\0", 8), "RAID"},
    {32'768, "JFS1", "JFS"},
    {9'564, std::string_view("\x54\x19\x01\0", 4), "UFS"},
    {66'908, "\x19\x01\x54\x19", "UFS"},
    {3, std::string_view("ReFS\0\0\0\0", 8), "ReFS"},
    {65'536, "ReIsEr4", "ReiserFS"},
    {8'192, "\x49\xe8\x95\xf9\xc5\xe9\x53\xfa", "HPFS"},
    {65'536, "\x01\x16\x19\x70", "GFS2"},
    {8'192, "OCFSV2", "OCFS2"},
    {4'120, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", "bcachefs"},
    {544, "1SFB", "BeFS"},
    {1024, std::string_view("\x02\0\0\0\0\0\x34\x34", 8), "NILFS2"},
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

// Two bytes, the width of its codes, and codes of nine bits at first, each of which stands for a byte or for what came before it. Tools pass over the bits between.
// Behind a code that clears their table the codes begin anew: these are not looked at.
bool IsCompress(Bytes bytes) {
  constexpr uint8_t kWidth = 0x1f;
  constexpr uint8_t kClears = 0x80;
  constexpr size_t kHead = 3;
  constexpr size_t kBits = 9;
  constexpr size_t kCodes = 16;
  constexpr uint32_t kClear = 256;
  if (bytes.size() <= kHead || bytes[0] != 0x1f || bytes[1] != 0x9d) return false;
  if ((bytes[2] & kWidth) < kBits || (bytes[2] & kWidth) > 16) return false;
  const bool clears = (bytes[2] & kClears) != 0;
  for (size_t index = 0; index < kCodes; index++) {
    const size_t at = kHead + index * kBits / 8;
    if (at + 1 >= bytes.size()) break;
    const uint32_t code = Half(bytes, at) >> (index * kBits % 8) & 0x1ff;
    if (clears && code == kClear) break;
    if (code >= kClear + index + (clears && index > 0 ? 1 : 0)) return false;
  }
  return true;
}

// pack(1), which gzip opens: two bytes, a size, the bits of the longest code, and how many codes of each length there are: no more than a tree has leaves.
bool IsPack(Bytes bytes) {
  constexpr uint8_t kLongest = 25;
  constexpr size_t kCounts = 7;
  if (bytes.size() <= kCounts || !Has(bytes, 0, "\x1f\x1e") || bytes[6] == 0 || bytes[6] > kLongest) return false;
  const Bytes counts = bytes.subspan(kCounts, std::min<size_t>(bytes[6], bytes.size() - kCounts));
  uint32_t leaves = 1;
  for (const uint8_t count : counts) {
    if (count > leaves) return false;
    leaves = 2 * (leaves - count) + 1;
  }
  return true;
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

// HFS of old has two bytes, the place of its bitmap, blocks of whole sectors, and a name. libclamav opens HFS+.
bool IsHfs(Bytes bytes) {
  constexpr size_t kVolume = 1024;
  constexpr uint32_t kSectorBits = 511;
  constexpr uint8_t kNameMost = 27;
  if (bytes.size() < 2 * kVolume || !Has(bytes, kVolume, "BD") || !Has(bytes, kVolume + 14, std::string_view("\0\x03", 2))) return false;
  const uint32_t block = __builtin_bswap32(Word(bytes, kVolume + 20));
  const uint8_t name = bytes[kVolume + 36];
  return block != 0 && (block & kSectorBits) == 0 && name != 0 && name <= kNameMost;
}

// A boot sector with a jump, and what every driver needs: sectors and clusters of sizes that there are, one or two tables, the kind of disk. The name is for people.
bool IsFat(Bytes bytes) {
  constexpr size_t kSector = 512;
  if (bytes.size() < kSector || !Has(bytes, 510, "\x55\xaa") || (bytes[0] != 0xeb && bytes[0] != 0xe9)) return false;
  const uint16_t sector = Half(bytes, 11);
  const uint8_t cluster = bytes[13];
  if (sector < kSector || sector > 4096 || (sector & (sector - 1)) != 0) return false;
  if (cluster == 0 || (cluster & (cluster - 1)) != 0) return false;
  const bool has_tables = Half(bytes, 14) > 0 && (bytes[16] == 1 || bytes[16] == 2);
  return has_tables && (bytes[21] == 0xf0 || bytes[21] >= 0xf8);
}

// A superblock whose mark has two bytes, behind numbers of blocks that must fit each other. Version 3 has wider fields before it.
bool IsMinix(Bytes bytes) {
  constexpr size_t kSuperblock = 1024;
  if (bytes.size() < 2 * kSuperblock) return false;
  const Bytes block = bytes.subspan(kSuperblock);
  constexpr uint16_t kMarks[] = {0x137f, 0x138f, 0x2468, 0x2478};
  const bool is_old = std::find(std::begin(kMarks), std::end(kMarks), Half(block, 16)) != std::end(kMarks);
  if (!is_old && Half(block, 24) != 0x4d5a) return false;
  const size_t maps = is_old ? 4 : 6;
  const uint32_t inodes = Half(block, maps);
  const uint32_t zones = Half(block, maps + 2);
  return Half(block, 0) > 0 && inodes > 0 && zones > 0 && Half(block, maps + 4) > inodes + zones && Half(block, maps + 6) == 0;
}

// ARC of SEA, and PAK: members, each with a method and a name that ends with a zero, up to one of the method 0. Two bytes are no magic, so all of them must be there.
bool IsArc(Bytes bytes) {
  constexpr uint8_t kMark = 0x1a;
  constexpr uint8_t kMethodMost = 11;
  constexpr size_t kName = 13;
  constexpr size_t kHead = 29;
  bool has_member = false;
  for (Bytes rest = bytes; rest.size() >= 2 && rest[0] == kMark && rest[1] <= kMethodMost;) {
    if (rest[1] == 0) return has_member;
    if (rest.size() < kHead) return false;
    const std::string_view name = TextOf(rest).substr(2, kName);
    const size_t end = name.find('\0');
    if (end == 0 || end == name.npos || !IsText(rest.subspan(2, end))) return false;
    // The oldest method has no second size.
    const size_t head = rest[1] == 1 ? kHead - 4 : kHead;
    const uint32_t size = Word(rest, 15);
    if (size > rest.size() - head) return false;
    has_member = true;
    rest = rest.subspan(head + size);
  }
  return false;
}

// A byte that says whether a filter for programs follows, and then what `.lzma` has.
bool IsLzma86(Bytes bytes) {
  if (bytes.empty() || bytes[0] > 1) return false;
  const Bytes rest = bytes.subspan(1);
  return streams::KindOf(rest) == streams::Kind::kLzma && !streams::MayBeOther(streams::Kind::kLzma, rest);
}

const char* NameByMark(Bytes bytes) {
  // Nearly always the first byte differs.
  const auto found = std::find_if(std::begin(kFormats), std::end(kFormats), [bytes](const Format& one) {
    return one.at < bytes.size() && bytes[one.at] == static_cast<uint8_t>(one.mark.front()) && Has(bytes, one.at, one.mark);
  });
  return found != std::end(kFormats) && (found->may_be_text || !IsText(bytes)) ? found->name : nullptr;
}

// An AppImage needs no mark: its program finds an image of files where the table of its own sections ends, and sections are last.
Bytes BehindProgram(Bytes bytes) {
  constexpr size_t kHead = 64;
  constexpr uint8_t kWide = 2;
  if (bytes.size() < kHead || !Has(bytes, 0, "\x7f" "ELF")) return {};
  const bool is_wide = bytes[4] == kWide;
  const uint64_t table = is_wide ? Long(bytes, 40) : Word(bytes, 32);
  const size_t entry = is_wide ? 58 : 46;
  const uint64_t size = uint64_t{Half(bytes, entry)} * Half(bytes, entry + 2);
  return table <= bytes.size() && size <= bytes.size() - table ? bytes.subspan(static_cast<size_t>(table + size)) : Bytes();
}

}  // namespace

const char* NameOf(Bytes bytes) {
  if (const char* name = NameByMark(bytes)) return name;
  if (const char* name = NameByMark(BehindProgram(bytes))) return name;
  if (IsWarc(bytes)) return "WARC";
  if (IsCompress(bytes)) return "compress";
  if (IsPack(bytes)) return "pack";
  if (IsLzma86(bytes)) return "LZMA86";
  if (IsExt(bytes)) return "ext";
  if (IsHfs(bytes)) return "HFS";
  if (IsMinix(bytes)) return "Minix";
  if (IsArc(bytes)) return "ARC";
  return IsFat(bytes) ? "FAT" : nullptr;
}

}  // namespace sluice::foreign
