// Sessions of clamd's protocol as clients have them, good, broken and cut: made from a number, so that a difference comes again.
import { deflateRawSync } from 'node:zlib';
import { bytesOf, CLEAN, chunk, EICAR, END, stream } from './client.js';

export type Random = (below: number) => number;

export interface Session {
  readonly bytes: Buffer;
  /** The client says that it sends nothing more. */
  readonly ends: boolean;
  /** Where its bytes are split; clamd takes an old command as whole that has come in two. */
  readonly piece: number;
}

function oneOf<Value>(random: Random, values: readonly [Value, ...Value[]]): Value {
  return values[random(values.length)] ?? values[0];
}

/** `n`, `z`, or none of them. */
type Framing = 'n' | 'z' | 'old';

function framed(framing: Framing, word: string): Buffer {
  if (framing === 'old') return bytesOf(`${word}\n`);
  return bytesOf(framing + word + (framing === 'z' ? '\0' : '\n'));
}

const PLAIN = ['PING', 'VERSION', 'PING', 'VERSIONCOMMANDS', 'STATS'] as const;
const BROKEN = [
  'ping',
  'PING ',
  ' PING',
  '',
  'PINGPING',
  'SCAN',
  'SCAN ',
  'CONTSCAN',
  'MULTISCAN',
  'STREAM',
  'FILDES',
  'DETSTATS',
  'DETSTATSCLEAR',
  'IDSESSION ',
  'END ',
  'INSTREAM ',
  'n',
  'z',
  'zPING',
  'NO\x80\xffSUCH',
  'A'.repeat(200),
] as const;

/** A zip of one file, stored or packed. */
function zipOf(content: Buffer, isPacked: boolean): Buffer {
  const body = isPacked ? deflateRawSync(content) : content;
  const name = Buffer.from('a.txt');
  const local = Buffer.alloc(30);
  local.writeUInt32LE(0x04034b50, 0);
  local.writeUInt16LE(20, 4);
  local.writeUInt16LE(isPacked ? 8 : 0, 8);
  local.writeUInt32LE(crcOf(content), 14);
  local.writeUInt32LE(body.length, 18);
  local.writeUInt32LE(content.length, 22);
  local.writeUInt16LE(name.length, 26);
  const central = Buffer.alloc(46);
  central.writeUInt32LE(0x02014b50, 0);
  local.copy(central, 6, 4, 30);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length + name.length, 12);
  end.writeUInt32LE(local.length + name.length + body.length, 16);
  return Buffer.concat([local, name, body, central, name, end]);
}

function crcOf(content: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of content) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

const CONTENTS: readonly [Buffer, ...Buffer[]] = [
  CLEAN,
  EICAR,
  Buffer.alloc(0),
  Buffer.from('a'),
  Buffer.alloc(100_000, 'clean text\n'),
  Buffer.concat([EICAR, Buffer.alloc(50, ' ')]),
  zipOf(EICAR, true),
  zipOf(EICAR, false),
  zipOf(CLEAN, true),
  Buffer.from('<html><script>document.write("x")</script></html>'),
];

/** INSTREAM with its content, in chunks of any size, now and then broken. */
function streamOf(random: Random, framing: Framing): Buffer {
  const content = oneOf(random, CONTENTS);
  const command = framed(framing, 'INSTREAM');
  switch (random(14)) {
    case 0:
      // Without its end: what follows is read as a size.
      return bytesOf(command, chunk(content));
    case 1:
      return bytesOf(command, Buffer.from('7fffffff', 'hex'), content);
    case 2:
      return bytesOf(command, END, END);
    default:
      return bytesOf(command, content.length === 0 ? END : stream(content, 1 + random(content.length)));
  }
}

function command(random: Random, framing: Framing): Buffer {
  switch (random(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return streamOf(random, framing);
    case 4:
      return framed(framing, oneOf(random, BROKEN));
    case 5:
      return framed(oneOf(random, ['n', 'z', 'old']), oneOf(random, PLAIN));
    default:
      return framed(framing, oneOf(random, PLAIN));
  }
}

export function sessionOf(random: Random): Session {
  const framing = oneOf<Framing>(random, ['n', 'z', 'n', 'z', 'old']);
  const isSession = random(3) > 0;
  const parts: Buffer[] = isSession ? [framed(framing, 'IDSESSION')] : [];
  for (let left = 1 + random(isSession ? 6 : 2); left > 0; left -= 1) parts.push(command(random, framing));
  const isEnded = isSession && random(4) > 0;
  if (isEnded) parts.push(framed(framing, 'END'));
  if (random(10) === 0) parts.push(framed(framing, 'PING'));
  if (random(20) === 0) parts.unshift(Buffer.from(Array.from({ length: 1 + random(20) }, () => random(256))));
  const whole = Buffer.concat(parts);
  const isCut = random(5) === 0;
  const bytes = isCut ? whole.subarray(0, 1 + random(whole.length)) : whole;
  const hasOld = /(?:^|[\n\0])[^nz]/.test(bytes.toString('latin1')) || framing === 'old';
  const piece = hasOld || bytes.length > 5_000 ? bytes.length : oneOf(random, [1, 2, 3, 7, 64, bytes.length]);
  // Where nothing ends it clamd waits for more for 30 s.
  return { bytes, ends: true, piece };
}
