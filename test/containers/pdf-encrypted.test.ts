// Documents that are encrypted and open without a password: their streams are looked at where libclamav doesn't open them (ISO 32000-2, 7.6).
import { createCipheriv, createHash } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { eicar } from '../fixtures/samples.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const wanted = eicar();
const harmless = Buffer.from('words and words'.repeat(20));
const runs = (content: Buffer): Buffer =>
  Buffer.concat([...content].map((byte) => Buffer.from([0, byte])).concat(Buffer.from([128])));

const padding = Buffer.from('28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a', 'hex');
const owner = Buffer.alloc(32, 'owner)(\\');
const documentId = Buffer.from('0123456789abcdef');
const rights = -44;

const digest = (name: string, ...parts: readonly Buffer[]): Buffer =>
  createHash(name).update(Buffer.concat(parts)).digest();

function rc4(key: Buffer, content: Buffer): Buffer {
  const state = Array.from({ length: 256 }, (_, at) => at);
  const valueAt = (at: number): number => state[at & 255] ?? 0;
  const swap = (one: number, other: number): void => {
    const value = valueAt(one);
    state[one & 255] = valueAt(other);
    state[other & 255] = value;
  };
  let other = 0;
  for (let at = 0; at < 256; at += 1) {
    other += valueAt(at) + (key[at % key.length] ?? 0);
    swap(at, other);
  }
  let second = 0;
  return Buffer.from(
    content.map((byte, at) => {
      second += valueAt(at + 1);
      swap(at + 1, second);
      return byte ^ valueAt(valueAt(at + 1) + valueAt(second));
    }),
  );
}

function aes(key: Buffer, content: Buffer, start: Buffer = Buffer.alloc(16), isPadded = true): Buffer {
  const cipher = createCipheriv(`aes-${key.length * 8}-cbc`, key, start).setAutoPadding(isPadded);
  return Buffer.concat([cipher.update(content), cipher.final()]);
}

/** Algorithm 2.B, with nothing for a password. */
function hardened(salt: Buffer): Buffer {
  let key = digest('sha256', salt);
  for (let round = 1; ; round += 1) {
    const block = aes(key.subarray(0, 16), Buffer.concat(Array(64).fill(key)), key.subarray(16, 32), false);
    const sum = block.subarray(0, 16).reduce((all, byte) => all + byte, 0);
    key = digest(['sha256', 'sha384', 'sha512'][sum % 3] ?? '', block);
    if (round >= 64 && (block.at(-1) ?? 0) <= round - 32) return key.subarray(0, 32);
  }
}

interface Lock {
  /** Of the dictionary of encryption. */
  readonly dictionary: string;
  encrypt(content: Buffer): Buffer;
}

const text = (bytes: Buffer): string => `<${bytes.toString('hex')}>`;
const filter = (method: string): string => `/CF<</StdCF<</AuthEvent/DocOpen/CFM/${method}>>>>/StmF/StdCF/StrF/StdCF`;
/** The stream is in object 2. */
const ofObject = (key: Buffer, more = ''): Buffer =>
  digest('md5', key, Buffer.from([2, 0, 0, 0, 0]), Buffer.from(more)).subarray(0, Math.min(key.length + 5, 16));

function oldKey(length: number, revision: number): Buffer {
  const said = Buffer.alloc(4);
  said.writeInt32LE(rights);
  let key = digest('md5', padding, owner, said, documentId).subarray(0, length);
  for (let round = 0; revision > 2 && round < 50; round += 1) key = digest('md5', key).subarray(0, length);
  return key;
}

function proofOf(key: Buffer, revision: number): Buffer {
  if (revision === 2) return rc4(key, padding);
  let proof: Buffer = digest('md5', padding, documentId);
  for (let round = 0; round < 20; round += 1) proof = rc4(Buffer.from(key.map((byte) => byte ^ round)), proof);
  return Buffer.concat([proof, Buffer.alloc(16)]);
}

function oldLock(version: number, revision: number, length: number, rest: string, hasAes: boolean): Lock {
  const key = oldKey(length, revision);
  // Its owner's entry as a text, with letters that need a backslash.
  const written = owner.toString('latin1').replace(/[()\\]/g, '\\$&');
  return {
    dictionary: `/V ${version}/R ${revision}/P ${rights}/O(${written})/U${text(proofOf(key, revision))}${rest}`,
    encrypt: (content) =>
      hasAes ? Buffer.concat([Buffer.alloc(16), aes(ofObject(key, 'sAlT'), content)]) : rc4(ofObject(key), content),
  };
}

function newLock(revision: number): Lock {
  const key = digest('sha256', Buffer.from('key'));
  const hash = (salt: Buffer): Buffer => (revision === 6 ? hardened(salt) : digest('sha256', salt));
  const salts = [Buffer.from('12345678'), Buffer.from('abcdefgh')] as const;
  const user = Buffer.concat([hash(salts[0]), ...salts]);
  const hidden = aes(hash(salts[1]), key, Buffer.alloc(16), false);
  return {
    dictionary: `/V 5/R ${revision}/P ${rights}/O${text(Buffer.alloc(48))}/U${text(user)}/UE${text(hidden)}${filter('AESV3')}`,
    encrypt: (content) => Buffer.concat([Buffer.alloc(16), aes(key, content)]),
  };
}

const locks: Record<string, Lock> = {
  'RC4 of 40 bits': oldLock(1, 2, 5, '', false),
  'RC4 of 128 bits': oldLock(2, 3, 16, '/Length 128', false),
  'RC4 by a list of filters': oldLock(4, 4, 16, `/Length 128${filter('V2')}`, false),
  'AES of 128 bits': oldLock(4, 4, 16, `/Length 128${filter('AESV2')}`, true),
  'AES of 256 bits, as it was first': newLock(5),
  'AES of 256 bits': newLock(6),
};

function pdf(lock: Lock, dictionary: string, data: Buffer, more = ''): Buffer {
  const trailer = `trailer\n<</Root 1 0 R/Encrypt 9 0 R/ID[${text(documentId)}${text(documentId)}]>>\n%%EOF\n`;
  return Buffer.concat([
    Buffer.from(
      `%PDF-1.7\n1 0 obj\n<</Type/Catalog>>\nendobj\n2 0 obj\n<</Length ${data.length}${dictionary}>>\nstream\n`,
    ),
    data,
    Buffer.from('\nendstream\nendobj\n9 0 obj\n<</Filter/Standard'),
    Buffer.from(lock.dictionary, 'latin1'),
    Buffer.from(`>>\nendobj\n${more}${trailer}`),
  ]);
}

/** In rows of 17 bytes. */
const rows = deflateSync(
  Buffer.concat([0, 17, 34, 51].map((at) => Buffer.concat([Buffer.alloc(1), wanted.subarray(at, at + 17)]))),
);

t.test('streams of a document that opens without a password are looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, lock] of Object.entries(locks)) {
    const verdict = (dictionary: string, content: Buffer): string =>
      verdictOf(pdf(lock, dictionary, lock.encrypt(content)));
    t.equal(verdict('', wanted), 'infected', `${what}, without a filter`);
    t.equal(verdict('/Filter/RL', runs(wanted)), 'infected', `${what}, of run lengths`);
    t.equal(verdict('/Filter/FlateDecode', deflateSync(wanted)), 'infected', `${what}, of what is deflated`);
    const parameters = '/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 17>>';
    t.equal(verdict(parameters, rows), 'infected', `${what}, with a predictor`);
    t.equal(verdict('/Filter/FlateDecode', deflateSync(harmless)), 'clean', `${what}, of words`);
    t.equal(verdict('/Filter/RL', runs(harmless)), 'clean', `${what}, of words by run lengths`);
  }
});

t.test('texts of a document that opens without a password are looked at', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, lock] of Object.entries(locks)) {
    const verdict = (name: string, content: string): string =>
      verdictOf(pdf(lock, `/${name}${text(lock.encrypt(Buffer.from(content)))}`, Buffer.from('q')));
    t.equal(verdict('JS', wanted.toString()), 'infected', `${what}, of a script`);
    const spelled = `atob("${wanted.toString('base64')}")`;
    t.equal(verdict('J#53', spelled), 'infected', `${what}, of a script that spells it`);
    t.equal(verdict('A[1 2]/V', `data:;base64,${wanted.toString('base64')}`), 'infected', `${what}, of a field`);
    t.equal(verdict('JS', harmless.toString()), 'clean', `${what}, of words`);
    const many = text(lock.encrypt(harmless)).repeat(1000);
    t.equal(verdictOf(pdf(lock, `/A[${many}]`, Buffer.from('q'))), 'clean', `${what}, many of them`);
  }
  const lock = oldLock(4, 4, 16, '/Length 128/StrF/Identity', true);
  t.equal(verdictOf(pdf(lock, `/JS${text(wanted)}`, Buffer.from('q'))), 'infected', 'as they are');
  const short = pdf(newLock(6), `/A[${'(a word)'.repeat(200_001)}]`, Buffer.from('q'));
  t.match(verdictOf(short), /^incomplete/, 'more than documents have');
});

t.test('a stream may lie in such a document as it is', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const lock = oldLock(4, 4, 16, `/Length 128${filter('AESV2')}`, true);
  const own = '/Filter[/Crypt/RL]/DecodeParms[<</Name/Identity>>null]';
  t.equal(verdictOf(pdf(lock, own, runs(wanted))), 'infected', 'by a filter that does nothing');
  const none = oldLock(4, 4, 16, '/Length 128/StmF/Identity', true);
  t.equal(verdictOf(pdf(none, '/Filter/RL', runs(wanted))), 'infected', 'as all of them');
});

t.test('what else is named as the document is does not hide how it is encrypted', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const lock = oldLock(2, 3, 16, '/Length 128', false);
  for (const more of ['% /ID[<00><00>]\n', '8 0 obj\n<</ID(name)/IDTree[(a)]>>\nendobj\n'])
    t.equal(verdictOf(pdf(lock, '', lock.encrypt(wanted), more)), 'infected');
  const trailing = Buffer.concat([pdf(lock, '', lock.encrypt(wanted)), Buffer.from('% /ID[<00><00>]\n')]);
  t.equal(verdictOf(trailing), 'infected');
  const digits = pdf(lock, '', lock.encrypt(wanted)).toString('latin1').replace('/ID[', '/I#44[');
  t.equal(verdictOf(Buffer.from(digits, 'latin1')), 'infected');
});

t.test('a document that says in two ways how it is encrypted is incomplete', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const lock = oldLock(2, 3, 16, '/Length 128', false);
  const other = `9 0 obj\n<</Filter/Standard${oldLock(1, 2, 5, '', false).dictionary}>>\nendobj\n`;
  for (const more of [other, 'trailer\n<</Encrypt 8 0 R>>\n'])
    t.equal(
      verdictOf(pdf(lock, '', lock.encrypt(wanted), more)),
      'incomplete: engine cannot unpack this kind of PDF data',
    );
});

t.test('values that hold each other are not read again and again', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  const lock = oldLock(2, 3, 16, '/Length 128', false);
  for (const part of [
    '/Encrypt<<',
    '/Encrypt[',
    '/Encrypt(',
    '/Encrypt 1(',
    '8 0 obj[',
    '8 0 obj 1(',
    '/ID[',
    '/ID<<',
  ]) {
    const verdict = verdictOf(pdf(lock, '', lock.encrypt(wanted), part.repeat(200_000)));
    t.ok(verdict === 'infected' || verdict.startsWith('incomplete'), `${part}: ${verdict}`);
  }
  const others = pdf(lock, '', lock.encrypt(wanted), '% /ID[<00><00>]\n'.repeat(100));
  t.equal(verdictOf(others), 'infected', 'the same name again and again');
  const names = Array.from({ length: 100 }, (_, index) => `% /ID[(${index})(0)]\n`).join('');
  t.match(verdictOf(pdf(lock, '', lock.encrypt(wanted), names)), /^incomplete/, 'more names than documents have');
});
