// What YARA-X can't look into: content that carries other content packed, encoded or encrypted. A match makes a scan incomplete,
// never clean and never infected. ClamAV opens these; where it is not there, nobody has seen what is inside. Formats whose
// beginning libclamav looks for anywhere (self-extracting archives, polyglots) are looked for anywhere here, too.
import "pe"

rule Archive_ZIP {
  meta:
    what = "ZIP"
  strings:
    // Local header, its version below 64; the end of a central directory; the first part of a split archive.
    $local = { 50 4b 03 04 (0? | 1? | 2? | 3?) 0? }
    $end = { 50 4b 05 06 ?? 00 }
    $end64 = { 50 4b 06 06 }
    $split = { 50 4b 07 08 50 4b 03 04 }
  condition:
    any of them
}

rule Archive_RAR {
  meta:
    what = "RAR"
  strings:
    $rar = { 52 61 72 21 1a 07 }
    $old = { 52 45 7e 5e }
  condition:
    $rar or $old at 0
}

rule Archive_7Z {
  meta:
    what = "7z"
  strings:
    $magic = { 37 7a bc af 27 1c }
  condition:
    $magic
}

rule Archive_CAB {
  meta:
    what = "CAB"
  strings:
    $microsoft = { 4d 53 43 46 00 00 00 00 }
    $installshield = { 49 53 63 28 }
  condition:
    $microsoft or $installshield at 0
}

rule Archive_TAR {
  meta:
    what = "TAR"
  strings:
    $ustar = "ustar"
    // Without a name of the format: mode, owner, group in octal digits, and a checksum.
    $fields = /[0-7 \x00]{24}[\x00-\xff]{24}[ \x00]{0,6}[0-7]{2,8}[ \x00]/
  condition:
    $ustar at 257 or ($fields at 100 and uint8(0) != 0)
}

rule Archive_CPIO {
  meta:
    what = "CPIO"
  strings:
    $old = /07070[127]/
    $little = { c7 71 }
    $big = { 71 c7 }
  condition:
    $old at 0 or $little at 0 or $big at 0
}

rule Archive_other {
  meta:
    what = "an archive"
  strings:
    $arj = { 60 ea (0? | 1? | 2? | 3? | 4? | 5? | 6? | 7? | 8? | 9? | a?) 0? 1e }
    $arj_sfx = { 60 ea ?? ?? (1e | 22 | 26) (0? | 1?) 01 0? }
    $lha = /-l[hz][0-9ds]-/
    $alz = { 41 4c 5a 01 }
    $egg = { 45 47 47 41 00 }
    $ace = "**ACE**"
    $zoo = { dc a7 c4 fd }
    $sit = "StuffIt"
    $sit_old = /SIT![\x00-\xff]{6}rLau/
    $sis = { (7a 1a 20 10 | 19 04 00 10) }
    $ar = "!<arch>\n"
    $deb_ar = "<bigaf>\n"
    $rpm = { ed ab ee db }
    $xar = "xar!"
    $wim = "MSWIM\x00"
    $arc_nrg = "PAR2\x00PKT"
    // ARC of SEA: a method, and a name that ends with a zero.
    $arc = /\x1a[\x01-\x0b][!-~]{1,12}\x00/
    $freearc = "ArC\x01"
    $sqx = "-sqx-"
    $zpaq = /(7kSt|zPQ[\x01\x02])/
    $warc = "WARC/"
    // The list of an archive of PHP, behind its length.
    $phar = /__HALT_COMPILER\(\);([ \n]\?>\r?\n?)?[\x00-\xff]{3}\x00/
  condition:
    $arj at 0 or $arj_sfx or $lha at 2 or $alz or $egg or $ace at 7 or $zoo at 20 or $sit at 0 or $sit_old at 0 or $sis at 0
    or $sis at 8 or $ar at 0 or $deb_ar at 0 or $rpm at 0 or $xar at 0 or $wim at 0 or $arc_nrg at 0
    or $arc at 0 or $freearc at 0 or $sqx at 7 or $zpaq at 0 or $warc at 0 or $phar
}

rule Compressed {
  meta:
    what = "compressed content"
  strings:
    $gzip = { 1f 8b }
    $compress = { 1f (9d | a0 | 1e | 9e | a1) }
    $bzip = /BZh[1-9]/
    $xz = { fd 37 7a 58 5a 00 }
    $lzma = { 5d 00 00 ?? ?? ?? }
    $zstd = { (22 | 23 | 24 | 25 | 26 | 27 | 28) b5 2f fd }
    $skippable = { 5? 2a 4d 18 }
    $lz4 = { (04 22 4d 18 | 02 21 4c 18) }
    $lzip = "LZIP"
    $lzop = { 89 4c 5a 4f 00 }
    $szdd = "SZDD\x88\xf0'3"
    $kwaj = "KWAJ\x88\xf0'\xd1"
    $snappy = { ff 06 00 00 73 4e 61 50 70 59 }
    $flash = /[CZ]WS[\x01-\x40]/
    $lrzip = "LRZI"
    $rzip = "RZIP\x02"
    $lzfse = /bvx[12n-]/
    $pbzx = /pbz[xez4-]\x00/
    $mozlz4 = "mozLz40\x00"
    // zlib with the usual window: the first two bytes divide by 31.
    $zlib = { 78 (01 | 5e | 9c | da) }
  condition:
    for any of them : ($ at 0)
}

// Scripts and other files that unpack what is behind them: a whole header of gzip, without a name or with one, or what bzip2 and xz begin with.
rule Compressed_behind_something {
  meta:
    what = "compressed content behind something else"
  strings:
    $gzip = { 1f 8b 08 (00 | 04 | 08) ?? ?? ?? ?? (00 | 02 | 04) (0? | ff) }
    $bzip = /BZh[1-9]1AY&SY/
    $xz = { fd 37 7a 58 5a 00 00 (00 | 01 | 04 | 0a) }
  condition:
    // Programs for Linux have such bytes to compare with.
    uint32be(0) != 0x7f454c46 and any of them
}

rule Disk_image {
  meta:
    what = "a disk image"
  strings:
    $iso = "CD001"
    $udf = /NSR0[23]/
    $koly = "koly\x00\x00\x00\x04"
    $hfs = /(H\+\x00\x04|HX\x00\x05|BD)/
    $squash = /(hsqs|sqsh)/
    $cramfs = { 45 3d cd 28 }
    $vhd = "conectix"
    $vhdx = "vhdxfile"
    $vmdk = "KDMV"
    $cow = "COWD"
    $qcow = { 51 46 49 fb }
    $vdi = { 7f 10 da be }
    $apm = "PM\x00\x00"
    $gpt = "EFI PART"
    $fat = /FAT(12|16|32) {3}/
    $ntfs = "NTFS    "
    $ext = { 53 ef 0? 00 0? 00 }
  condition:
    $iso in (32768..40000) or $udf in (32768..70000) or $koly or ($hfs at 1024 and uint16(1024) != 0x4442) or ($hfs at 1024 and uint8(0) == 0) or $squash at 0
    or $cramfs at 0 or $vhd at 0 or $vhd at (filesize - 512) or $vhdx at 0 or $vmdk at 0 or $cow at 0 or $qcow at 0 or $vdi at 64 or $apm at 512
    or $gpt at 512 or (uint16(510) == 0xaa55 and (any of ($fat*) or $ntfs at 3 or uint8(450) != 0) and filesize >= 1024 and uint16(0) != 0x5a4d) or $ext at 1080
}

rule Document_PDF {
  meta:
    what = "PDF"
  strings:
    $magic = "%PDF" nocase
    $object = /\bobj\s{0,8}<<[^>]{0,200}\/Filter/
  condition:
    $magic in (0..4096) or $object
}

rule Document_OLE2 {
  meta:
    what = "OLE2"
  strings:
    $magic = { d0 cf 11 e0 a1 b1 1a e1 }
    $old = { 0e 11 fc 0d d0 cf 11 e0 }
  condition:
    any of them
}

rule Document_RTF {
  meta:
    what = "RTF"
  strings:
    $magic = "{\\rt" nocase
    $object = "\\objdata" nocase
  condition:
    $magic in (0..1024) or $object
}

rule Document_other {
  meta:
    what = "a document that holds others"
  strings:
    $onenote = { e4 52 5c 7b 8c d8 a7 4d ae b1 53 78 d0 29 96 d3 }
    $onenote_file = { a1 2f ff 43 d9 ef 76 4c 9e e2 10 ea 57 22 76 5f }
    $file_data = { e7 16 e3 bd 65 26 11 45 a4 c4 8d 4d 0b 7a 9e ac }
    $chm = "ITSF"
    $hlp = { 3f 5f 03 00 }
    $tnef = { 78 9f 3e 22 }
    $hwp3 = "HWP Document File"
    $hwpml = "<HWPML" nocase
    $xdp = "<xdp:xdp" nocase
    $word_xml = "w:binData"
    $word_package = "pkg:binaryData"
    $flat_odf = "office:binary-data"
    $mso = "mso-application"
    $mso_mail = "ActiveMime"
    $pst = "!BDN"
    $dbx = { cf ad 12 fe }
    $jet = /\x00\x01\x00\x00Standard (Jet|ACE) DB/
    $mhtml_mso = "QWN0aXZlTWltZQ"
    $ooxml_stream = "EncryptedPackage" wide
    $postscript_ole = { c5 d0 d3 c6 }
    $lnk = { 4c 00 00 00 01 14 02 00 00 00 00 00 c0 00 00 00 00 00 00 46 }
  condition:
    $onenote at 0 or $onenote_file at 0 or $file_data or $chm at 0 or $hlp at 0 or $tnef or $hwp3 at 0 or $hwpml or $xdp or $word_xml or $word_package
    or $flat_odf or $mso or $mso_mail or $pst at 0 or $dbx at 0 or $jet at 0 or $mhtml_mso or $ooxml_stream or $postscript_ole at 0
    or ($lnk at 0 and filesize > 65536)
}

rule Mail_encoded {
  meta:
    what = "an encoded mail part"
  strings:
    $encoding = /content-transfer-encoding[ \t]*:\s{0,80}["(]?(base64|quoted-printable|x-?uu|uuencode|x-?yenc|x-?binhex|mac-binhex40)/ nocase
    // Any encoding but the plain ones, and what hides its name in comments or folded lines.
    $odd = /content-transfer-encoding[ \t]*:[^\n]{0,80}[(=]/ nocase
    $uuencode = /(^|[\r\n])begin(-base64)? [0-7]{3,6} [^\r\n]/
    $yenc = /(^|[\r\n])=ybegin /
    $binhex = "(This file must be converted with BinHex"
    $pgp = "-----BEGIN PGP MESSAGE-----"
    $smime = /content-type[ \t]*:\s{0,80}application\/(x-)?pkcs7-mime/ nocase
  condition:
    any of them
}

rule Page_encoded {
  meta:
    what = "encoded content in a page"
  strings:
    $uri = /data:[\w.+-]{0,80}\/?[\w.+-]{0,80}(;[^,;"'<>]{0,80}){0,8};\s{0,8}base64\s{0,8},/ nocase
    $script = "#@~^"
    $xml = /dt:dt\s{0,8}=\s{0,8}["']bin\.(base64|hex)/ nocase
    $soap = /encoding\s{0,8}=\s{0,8}["']base64["']/ nocase
  condition:
    any of them
}

rule Program_packed {
  meta:
    what = "a packed program or installer"
  strings:
    $upx = "UPX!"
    $upx_section = /UPX[0-9]\x00/
    $fsg = "FSG!"
    $section = /\.(aspack|adata|petite|nsp[012]|MPRESS[12]|WWPACK|neolit[eh]|pec[12]|PESHiELD|yP|vmp[0-9]|themida|enigma[12])\x00/ nocase
    $mew = /MEW[\x00-\xff]{4}[\x00-\xff]{1}/
    $pecompact = "PECompact2"
    $upack = ".Upack"
    $nullsoft = { ef be ad de 4e 75 6c 6c 73 6f 66 74 49 6e 73 74 }
    $autoit = "AU3!EA0"
    $autoit_old = { a3 48 4b be 98 6c 4a a9 99 4c 53 0a 86 d6 48 7d }
    $inno = "Inno Setup Setup Data"
    $installshield = "InstallShield Self-Extracting"
    $wise = "WiseMain"
    $pyinstaller = { 4d 45 49 0c 0b 0a 0b 0e }
    $java_pack = { ca fe d0 0d }
  condition:
    (uint16(0) == 0x5a4d or uint32(0) == 0x464c457f or uint32(0) == 0xfeedface or uint32(0) == 0xfeedfacf or uint32be(0) == 0xcafebabe)
    and (any of ($upx*) or $fsg or $section or $mew at 0 or $pecompact or $upack or $nullsoft or any of ($autoit*) or $inno or $installshield or $wise or $pyinstaller)
    or $java_pack at 0
}

rule Program_that_writes_itself {
  meta:
    what = "a packed program"
  condition:
    // What unpacks itself needs a section that can be written to and run, or begins in one that honest linkers don't begin in.
    pe.is_pe and for any section in pe.sections : (
      (section.characteristics & pe.SECTION_MEM_EXECUTE != 0 and section.characteristics & pe.SECTION_MEM_WRITE != 0)
      or (pe.entry_point_raw > 0 and section.virtual_address <= pe.entry_point_raw
        and pe.entry_point_raw < section.virtual_address + section.virtual_size
        and (section.characteristics & pe.SECTION_MEM_EXECUTE == 0 or section.characteristics & pe.SECTION_MEM_WRITE != 0))
    )
}

rule Program_with_data_behind_it {
  meta:
    what = "what a program carries behind it"
  condition:
    // Installers and self-extracting archives; a signature lies there as well, and may be all that does.
    pe.is_pe and pe.overlay.size > 0
    and not (pe.data_directories[pe.IMAGE_DIRECTORY_ENTRY_SECURITY].virtual_address == pe.overlay.offset
      and pe.data_directories[pe.IMAGE_DIRECTORY_ENTRY_SECURITY].size + 16 >= pe.overlay.size)
}

rule Program_in_something {
  meta:
    what = "a program inside something else"
  strings:
    $header = { 50 45 00 00 (4c 01 | 64 86 | aa 64 | c0 01 | c4 01) ?? 00 }
  condition:
    #header > 1 or (#header == 1 and not pe.is_pe)
}

rule Encrypted {
  meta:
    what = "encrypted content"
  strings:
    $openssl = "Salted__"
    $pgp = { 85 (01 | 02 | 04) 0c 03 }
    // A password, and what is packed by OpenPGP: in the old form of a header and in the new one.
    $pgp_password = { (8c | c3) ?? 04 (07 | 08 | 09 | 0a) 03 }
    $pgp_packed = { a3 (01 | 02 | 03) }
    $age = "age-encryption.org/v1"
    $luks = { 4c 55 4b 53 ba be }
    $cms = "-----BEGIN CMS-----"
  condition:
    for any of them : ($ at 0)
}
