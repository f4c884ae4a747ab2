// Names as they are shown: base names of hostile filenames, and extensions.
import t from 'tap';
import { baseName, extensionOf } from '../../src/scan/filename.js';

const names: [string, string | null][] = [
  ['a.txt', 'a.txt'],
  ['/etc/passwd', 'passwd'],
  ['C:\\Windows\\a.exe', 'a.exe'],
  ['mixed\\and/slashes', 'slashes'],
  ['..', null],
  ['a/..', null],
  ['.', null],
  ['', null],
  ['   ', null],
  ['dir/', null],
  ['\u0000\u0007', null],
  ['a\u0000b\r\nc\u007f\u0085.txt', 'abc.txt'],
  [' leading.txt', ' leading.txt'],
  ['\u202efdp.exe', '\u202efdp.exe'],
  ['😀'.repeat(256), '😀'.repeat(255)],
  ['x'.repeat(300), 'x'.repeat(255)],
];
for (const [sent, shown] of names) t.equal(baseName(sent), shown, JSON.stringify(sent).slice(0, 50));

const extensions: [string, string][] = [
  ['a.txt', 'txt'],
  ['a.TXT', 'TXT'],
  ['a.tar.gz', 'gz'],
  ['README', ''],
  ['.htaccess', ''],
  ['.config.json', 'json'],
  ['a.', ''],
];
for (const [filename, extension] of extensions) t.equal(extensionOf(filename), extension, filename);
