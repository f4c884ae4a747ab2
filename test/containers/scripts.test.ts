// What a script, a page or a registry file has in pieces, as numbers, digits or escapes is looked at, and ordinary sources stay clean.
import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const wanted = eicar();
const base64 = wanted.toString('base64');
const hex = wanted.toString('hex');
const bytes = [...wanted];
const cut = (text: string, length: number): string[] => text.match(new RegExp(`.{1,${length}}`, 'g')) ?? [];
const spelled = (spell: (byte: number) => string, between = ''): string => bytes.map(spell).join(between);
const digits = (byte: number): string => byte.toString(16).padStart(2, '0');
const backwards = (text: string): string => [...text].reverse().join('');
const wide = Buffer.from(wanted.toString('latin1'), 'utf16le').toString('base64');
const pieces = cut(base64, 24);
// One of its first 16 letters is a slash, and where it has a name many are, one behind the other.
const packed = (flags: number, name: Buffer): Buffer =>
  Buffer.concat([Buffer.from([0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 2, 255]), name, gzipSync(wanted).subarray(10)]);
const early = packed(0, Buffer.alloc(0)).toString('base64');
const often = packed(8, Buffer.concat([Buffer.alloc(30, 255), Buffer.alloc(1)])).toString('base64');
const values = Array.from({ length: 20_000 }, () =>
  deflateSync(Buffer.alloc(80, 'a')).toString('base64').padEnd(96, 'A'),
);

const infected: Record<string, string> = {
  'JavaScript joins it': `atob(${pieces.map((piece) => `"${piece}"`).join(' + ')})`,
  'JavaScript joins a list of it': `atob([${pieces.map((piece) => `'${piece}'`).join(',')}].join(''))`,
  'a list of it holds texts of their own': `{"base64":["${Buffer.alloc(99, 'words ').toString('base64')}","${base64}"]}`,
  'VBScript joins it over lines': `a = ${pieces.map((piece) => `"${piece}"`).join(' & _\r\n  ')}\r\nb = "bin.base64"`,
  'VBA adds it line by line': `${pieces.map((piece) => `s = s & "${piece}"\r\n`).join('')}b = "bin.base64"`,
  'PHP joins it': `<?php base64_decode("${pieces.join('" .\n "')}");`,
  'Python puts it side by side': `base64.b64decode("${pieces.join('"\n  "')}")`,
  'a batch file echoes it': `${pieces.map((piece) => `echo ${piece}>>a.b64\r\n`).join('')}rem base64`,
  'a line goes on behind its end': `base64 = "${pieces.join('\\\n')}"`,
  'a JSON has ends of lines in it': `{"base64":"${pieces.join('\\r\\n')}"}`,
  'a JSON has backslashes before slashes': `{"base64":"${gzipSync(wanted).toString('base64').replaceAll('/', '\\/')}"}`,
  'a JSON of .NET': `{"base64":"${gzipSync(wanted).toString('base64').replaceAll('+', '\\u002B')}"}`,
  'a form has it as an address': `base64=${gzipSync(wanted).toString('base64').replaceAll('+', '%2B').replaceAll('/', '%2F')}`,
  'letters of addresses': `base64 ${gzipSync(wanted).toString('base64').replaceAll('+', '-').replaceAll('/', '_')}`,
  'a JSON has a backslash among the first letters': `{"base64":"${early.replaceAll('/', '\\/')}"}`,
  'nothing announces a JSON with one': `{"content":"${early.replaceAll('/', '\\/')}"}`,
  'a JSON has backslashes one behind the other': `{"base64":"${often.replaceAll('/', '\\/')}"}`,
  'a JSON has a number among the first letters': `{"base64":"${early.replaceAll('/', '\\u002f').replaceAll('+', '\\u002b')}"}`,
  'a script has a number among the first letters': `atob("${early.replaceAll('/', '\\x2F').replaceAll('+', '\\x2B')}")`,
  'an address has one': `base64,${early.replaceAll('/', '%2F').replaceAll('+', '%2B')}`,
  'a page has one': `<a title="atob(" href="${early.replaceAll('/', '&#47;').replaceAll('+', '&#43;')}">`,
  'a dash is among the first letters': `atob("${early.replaceAll('+', '-').replaceAll('/', '_')}")`,
  'dashes stand one behind the other': `atob("${often.replaceAll('+', '-').replaceAll('/', '_')}")`,
  'nothing announces a program of macOS': `{"content":"${Buffer.concat([Buffer.from('cffaedfe070000010300000002000000', 'hex'), Buffer.alloc(64), gzipSync(wanted)]).toString('base64')}"}`,
  'nothing announces a PDF': `{"content":"${Buffer.concat([Buffer.from('%PDF-1.7\n%\xff\xff\xff\xff\n1 0 obj<<>>stream\n', 'latin1'), deflateSync(wanted), Buffer.from('\nendstream')]).toString('base64')}"}`,
  'Python reads it from its end': `base64.b64decode(b'${backwards(base64)}'[::-1])`,
  'nothing announces it': `{"name":"a.com","content":"${base64}"}`,
  'nothing announces it, and it is read from its end': `x="${backwards(deflateSync(wanted).toString('base64').replace(/=+$/, ''))}"`,
  'it is packed by zlib': `exec(zlib.decompress(base64.b64decode('${deflateSync(wanted).toString('base64')}')))`,
  'it is packed by deflate': `<?php eval(gzinflate(base64_decode('${deflateRawSync(wanted).toString('base64')}')));`,
  'PowerShell takes it by a slash': `powershell /enc ${wide}`,
  'PowerShell takes it by a word with carets': `powershell -^e^n^c ${wide}`,
  'numbers of PowerShell': `$b = @(${spelled((byte) => `0x${digits(byte)}`, ',')})`,
  'numbers of C#': `byte[] b = new byte[68] {${spelled((byte) => `0x${digits(byte)}`, ', ')}};`,
  'numbers of VBA': `b = Array(${spelled((byte) => `${byte}`, ', _\r\n')})`,
  'numbers of Java': `byte[] b = {${spelled((byte) => `${byte}`, ',')}};`,
  'numbers of a page': `<html><script>new Uint8Array([${spelled((byte) => `${byte}`, ',')}])</script></html>`,
  'characters by their numbers': `eval(String.fromCharCode(${spelled((byte) => `${byte}`, ', ')}))`,
  'characters of VBScript': `x = ${spelled((byte) => `Chr(${byte})`, ' & ')}`,
  'characters of VBScript over lines': `x = ${spelled((byte) => `ChrW(&H${digits(byte)})`, ' & _\r\n')}`,
  'characters of PowerShell': `iex (${spelled((byte) => `[char]${byte}`, '+')})`,
  'a file of the registry': `REGEDIT4\r\n"a"=hex:${cut(spelled(digits, ','), 60).join('\\\r\n  ')}\r\n`,
  'digits of PowerShell': `[Convert]::FromHexString('${hex}')`,
  'digits of VBA': cut(hex, 40)
    .map((piece) => `s = s & "${piece}"\r\n`)
    .join(''),
  'digits in lines': `xxd -r -p <<E\n${cut(hex, 60).join('\n')}\nE\n`,
  'digits of SQL': `INSERT INTO a VALUES (0x${hex});`,
  'escapes of JavaScript': `x = "${spelled((byte) => `\\x${digits(byte)}`)}"`,
  'escapes of characters': `x = "${spelled((byte) => `\\u00${digits(byte)}`)}"`,
  'escapes among letters': `x = "${spelled((byte) => (byte % 9 === 0 ? `\\${byte.toString(8)}` : `\\x${digits(byte)}`))}"`,
  'escapes of Python in lines': cut(
    spelled((byte) => `\\x${digits(byte)}`),
    56,
  )
    .map((line) => `b += b"${line}"\n`)
    .join(''),
  'escapes of JavaScript in braces': `x = "${spelled((byte) => `\\u{${byte.toString(16)}}`)}"`,
  'escapes of Perl in braces': `print "${spelled((byte) => `\\x{${digits(byte)}}`)}"`,
  'escapes of C# of eight digits': `x = "${spelled((byte) => `\\U000000${digits(byte)}`)}"`,
  'escapes of Lua': `load("${spelled((byte) => `\\${byte}`)}")()`,
  'escapes of Lua, each of three digits': `load('${spelled((byte) => `\\${byte.toString().padStart(3, '0')}`)}')()`,
  'escapes of a shell': `printf '${spelled((byte) => `\\${byte.toString(8).padStart(3, '0')}`)}'`,
  'bytes as Python shows them': `exec(zlib.decompress(b'${[...deflateSync(wanted)].map((byte) => (byte < 0x20 || byte > 0x7e || byte === 0x27 || byte === 0x5c ? `\\x${digits(byte)}` : String.fromCharCode(byte))).join('')}'))`,
  'what JavaScript escapes': `unescape("${escape(wanted.toString('latin1'))}")`,
  'bytes of Java': `byte[] b = {${spelled((byte) => `(byte) 0x${digits(byte)}`, ', ')}};`,
  'numbers between dashes': `a = Split("${spelled((byte) => `${byte}`, '-')}", "-")`,
  'numbers between colons': `${spelled(digits, ':')}`,
  'escapes of an address': `document.write(unescape("${spelled((byte) => `%${digits(byte)}`)}"))`,
  'escapes of an address, two bytes in each': `unescape("${wanted.toString('hex').replace(/(..)(..)/g, '%u$2$1')}")`,
};

const clean: Record<string, string> = {
  'a table of C': `static const unsigned char t[] = {${Array.from({ length: 4000 }, (_, at) => `0x${digits(at & 255)}`).join(', ')}};`,
  'twenty thousand tables': Array.from({ length: 20_000 }, () => `{${'1,2,'.repeat(40)}},\n`).join(''),
  'twenty thousand values that nothing announces': `{"a":[${values.map((value) => `{"b":"${value}"}`).join(',')}]}`,
  'digests in lines': Array.from({ length: 4000 }, (_, at) => `${digits(at & 255).repeat(32)}\n`).join(''),
  'words in another script': `{"a":"${'\\u0423\\u0441\\u0442'.repeat(100)}"}`,
  'paths of Windows': `x = "${'C:\\Users\\x\\u\\U\\x{\\u{4'.repeat(100)}"`,
  'rules behind names': `${'averyverylongname'.repeat(3)}${'-'.repeat(50)}\n`.repeat(2000),
  'names with dashes': `.${'block-element_name-averyverylongname-'.repeat(3)}x{base64:0}\n`.repeat(2000),
  'long names': 'abcdefghijklmnopqrstuvwxyz/'.repeat(2000),
};

t.test('what a script spells in its own way is looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, text] of Object.entries(infected)) t.equal(verdictOf(Buffer.from(text)), 'infected', what);
  for (const [what, text] of Object.entries(clean)) t.equal(verdictOf(Buffer.from(text)), 'clean', what);
});

t.test('pieces are found wherever blocks of bytes begin', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const samples = [
    'numbers of PowerShell',
    'numbers of C#',
    'characters of VBScript',
    'digits of PowerShell',
    'escapes of JavaScript',
    'nothing announces it',
  ];
  for (const what of samples) {
    const text = infected[what] ?? '';
    for (let before = 0; before < 33; before += 1) {
      t.equal(verdictOf(Buffer.from(`${'-'.repeat(before)}\n${text}`)), 'infected', `${what}, behind ${before} others`);
    }
  }
});
