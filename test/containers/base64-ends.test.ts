// Base64 in a script ends where the script's own words begin, and goes on where the script goes on.
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { zip } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const wanted = eicar();
/** Without padding, with one sign of it, and with two: the test file may have blanks behind it. */
const contents: Record<string, Buffer> = Object.fromEntries(
  [0, 1, 2].map((more) => [`${68 + more} bytes`, Buffer.concat([wanted, Buffer.alloc(more, ' ')])]),
);
const linesOf = (content: Buffer, width: number): string[] =>
  content.toString('base64').match(new RegExp(`.{1,${width}}`, 'g')) ?? [];

const spaced = (content: Buffer, width: number, blanks = ' '): string => linesOf(content, width).join(blanks);
const wraps: Record<string, (content: Buffer) => string> = {
  ...Object.fromEntries(
    ['EOF', 'END', 'DATA', 'A', 'end', 'Payload2'].map((word) => [
      `lines of a shell up to ${word}`,
      (content: Buffer) =>
        `#!/bin/sh\nbase64 -d > a.com <<${word}\n${linesOf(content, 76).join('\n')}\n${word}\n./a.com\n`,
    ]),
  ),
  'lines of Perl': (content) =>
    `use MIME::Base64;\nprint decode_base64(<<END);\n${linesOf(content, 76).join('\n')}\nEND\n`,
  'lines that end with another word, and one that is echoed': (content) =>
    `base64 -d > a.com <<EOF\r\n${linesOf(content, 64).join('\r\n')}\r\nEOF\r\necho done\r\n`,
  'lines that a group echoes': (content) =>
    `@echo off\r\n(\r\n${linesOf(content, 60)
      .map((line) => `echo ${line}\r\n`)
      .join('')})>a.b64\r\nrem base64\r\n`,
  'lines that are echoed behind the file': (content) =>
    `@echo off\r\n${linesOf(content, 60)
      .map((line) => `>>a.b64 echo ${line}\r\n`)
      .join('')}rem base64\r\n`,
  'lines that are echoed, and a word behind them': (content) =>
    `(\n${linesOf(content, 60)
      .map((line) => `echo ${line}\n`)
      .join('')}echo done\n)\nrem base64\n`,
  'pieces between blanks': (content) => `<a type="base64Binary" value=" ${spaced(content, 60)} "/>`,
  'pieces between tabs': (content) => `atob('${spaced(content, 20, '\t\t')}')`,
  'a text with other words behind it': (content) =>
    `save --base64 ${content.toString('base64')} AnotherWordThatIsLong/AndAnotherOne\n`,
  'lines of a script that go on': (content) => `atob("${linesOf(content, 60).join('\\n\\\n')}")`,
};

t.test('base64 ends before the words of a script, and goes on behind them', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, wrap] of Object.entries(wraps)) {
    for (const [size, content] of Object.entries(contents)) {
      // A line with digits that is none of base64 can't be told from one that is, where nothing is missing.
      const isTold = !what.endsWith('Payload2') || content.length % 3 !== 0;
      if (isTold) t.equal(verdictOf(Buffer.from(wrap(content))), 'infected', `${what}, ${size}`);
    }
    const archive = zip([{ name: 'a.com', content: wanted }]);
    t.equal(verdictOf(Buffer.from(wrap(archive))), 'infected', `${what}, a zip`);
    t.equal(verdictOf(Buffer.from(wrap(Buffer.alloc(300, 'words ')))), 'clean', `${what}, words`);
  }
});

t.test('a short last line of base64 is a part of it', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const width of [20, 40, 44, 60, 64, 72, 80]) {
    for (const [size, content] of Object.entries(contents)) {
      t.equal(
        verdictOf(Buffer.from(`base64\n\n${linesOf(content, width).join('\n')}\n`)),
        'infected',
        `${width}, ${size}`,
      );
    }
  }
});

t.test('a zip in a mail is whole, however many bytes of its end stand in the last line', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (let more = 1; more <= 57; more += 1) {
    const archive = zip([{ name: `${'a'.repeat(more)}.txt`, content: Buffer.alloc(300, 'words ') }]);
    const mail = `From: a@example.org\nMIME-Version: 1.0\nContent-Type: application/zip\nContent-Transfer-Encoding: base64\n\n${linesOf(archive, 76).join('\n')}\n`;
    t.equal(verdictOf(Buffer.from(mail)), 'clean', `${archive.length} bytes`);
  }
});
