// Bytes that nearly everything has, or most Windows programs: a gate of them would hit in vain before anything is learned.
import type { Gate } from './candidates.js';

const EXECUTABLE = 1;
const DIFFERENT_BYTES_MIN = 3;

const latin1 = (hex: string): string => Buffer.from(hex, 'hex').toString('latin1');
const range = (first: number, last: number): string =>
  String.fromCharCode(...Array.from({ length: last - first + 1 }, (_, index) => first + index));

/** What linkers and Microsoft's run-time library put into programs, and functions that most of them import. */
const TEXTS = [
  `${latin1('0e1fba0e00b409cd21b8014ccd21')}This program cannot be run in DOS mode.\r\r\n$`,
  'This program must be run under Win32\r\n$',
  // Tables of letters in one case.
  `${range(0, 0x60)}${range(0x41, 0x5a)}${range(0x7b, 0xff)}`,
  `${range(0, 0x40)}${range(0x61, 0x7a)}${range(0x5b, 0xff)}`,
  'PADDINGXXPADDING'.repeat(4),
  'PADDINGPADDINGXX'.repeat(4),
  '<program name unknown>',
  'runtime error ',
  'DOMAIN error\r\n',
  'Microsoft Visual C++ Runtime Library',
  'An application has made an attempt to load the C runtime library incorrectly.',
  'This indicates a bug in your application. It is most likely the result of calling an MSIL-compiled (/clr) function from a native ' +
    'constructor or from DllMain.',
  '<assembly xmlns="urn:schemas-microsoft-com:asm.v1" manifestVersion="1.0">',
  "<assembly xmlns='urn:schemas-microsoft-com:asm.v1' manifestVersion='1.0'>",
  '<trustInfo xmlns="urn:schemas-microsoft-com:asm.v3">',
  '<requestedExecutionLevel level="asInvoker" uiAccess="false"></requestedExecutionLevel>',
  '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>',
  'SOFTWARE\\Microsoft\\Windows\\CurrentVersion\\Uninstall',
  'Software\\Microsoft\\Windows\\CurrentVersion\\Run',
  ...'GetProcAddress LoadLibraryA LoadLibraryW GetModuleHandleA GetModuleHandleW GetModuleFileNameA GetModuleFileNameW'.split(
    ' ',
  ),
  ...'GetCommandLineA GetCommandLineW CorExitProcess ExitProcess TerminateProcess CreateProcessA CreateProcessW'.split(
    ' ',
  ),
  ...'GetFileAttributesA GetFileAttributesW SetFilePointer CreateFileA CreateFileW ReadFile WriteFile'.split(' '),
  ...'CreateWindowExA CreateWindowExW PostMessageA PostMessageW MessageBoxA MessageBoxW'.split(' '),
  ...'RegSetValueExA RegSetValueExW RegOpenKeyExA RegOpenKeyExW VirtualProtect VirtualAlloc'.split(' '),
  ...'GetLastError WaitForSingleObject WaitForSingleObjectEx GetLastActivePopup GetProcessWindowStation'.split(' '),
  '<requestedPrivileges>',
  'pure virtual function call\r\n',
  ...'__getmainargs mscoree.dll KERNEL32.dll USER32.dll ADVAPI32.dll SHELL32.dll msvcrt.dll'.split(' '),
];
/** Those that are UTF-16 in programs: keys of the version resource first of all. */
const WIDE_TEXTS = [
  ...'VS_VERSION_INFO StringFileInfo VarFileInfo Translation CompanyName FileDescription FileVersion InternalName'.split(
    ' ',
  ),
  ...'LegalCopyright LegalTrademarks OriginalFilename ProductName ProductVersion Comments mscoree.dll KERNEL32.DLL'.split(
    ' ',
  ),
  'Copyright (C) ',
];

/** The null characters around the wide ones are part of what is always there. */
const COMMON = [
  ...TEXTS,
  ...WIDE_TEXTS.map((text) => `\0\0${Buffer.from(text, 'utf16le').toString('latin1')}\0\0\0\0`),
].join('\n\n');

/** Nearly all bytes that are asked about begin with none of these. */
const BEGINNING_BYTES = 4;
const COMMON_BYTES = Buffer.from(COMMON, 'latin1');
const BEGINNINGS = new Set(
  Array.from({ length: COMMON_BYTES.length - BEGINNING_BYTES + 1 }, (_, at) => beginningOf(COMMON_BYTES, at)),
);

function beginningOf(bytes: Uint8Array, at: number): number {
  return ((bytes[at] ?? 0) << 24) | ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0);
}

/** `bytes`: those of the gate that are fixed. */
export function isEverywhere({ target, offset }: Pick<Gate, 'target' | 'offset'>, bytes: Uint8Array): boolean {
  if (offset !== '*') return false;
  // Runs of one byte, of two in turn, and of bytes that count are in everything.
  if (countDifferent(bytes) < DIFFERENT_BYTES_MIN || isEven(bytes)) return true;
  if (target !== EXECUTABLE) return false;
  if (bytes.length >= BEGINNING_BYTES && !BEGINNINGS.has(beginningOf(bytes, 0))) return false;
  return COMMON_BYTES.includes(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
}

/** Which bytes were seen, by the number of the look that has seen them last: nothing has to be cleared. */
const seen = new Uint32Array(256);
let look = 0;

export function countDifferent(bytes: Uint8Array): number {
  look += 1;
  let different = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (seen[byte] !== look) different += 1;
    seen[byte] = look;
  }
  return different;
}

/** Bytes that are the same distance from each other. */
function isEven(bytes: Uint8Array): boolean {
  const step = ((bytes[1] ?? 0) - (bytes[0] ?? 0)) & 0xff;
  for (let at = 2; at < bytes.length; at += 1)
    if ((((bytes[at] ?? 0) - (bytes[at - 1] ?? 0)) & 0xff) !== step) return false;
  return true;
}
