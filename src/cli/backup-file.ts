// A backup as a file: lines of JSON, packed; the first one says of which version it is, the last one that it is whole.
import { createReadStream, createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { z } from 'zod';
import { codeOf } from '../store/store-error.js';
import { Refusal } from './output.js';

const Head = z.strictObject({ sluiceBackup: z.literal(1), version: z.string(), schema: z.string() });
export type Head = z.infer<typeof Head>;
const Batch = z.strictObject({ table: z.string(), rows: z.array(z.string()).min(1) });
export type Batch = z.infer<typeof Batch>;
const End = z.strictObject({ end: z.int() });

/** Nobody but its owner may read it: it has hashes of passwords, and what signs tokens. */
const OWNER_ONLY = 0o600;

/** Returns how many rows it has. Throws a Refusal where the file is there already. */
export async function writeBackup(path: string, head: Head, batches: AsyncIterable<Batch>): Promise<number> {
  let rows = 0;
  async function* lines(): AsyncGenerator<string> {
    yield `${JSON.stringify(head)}\n`;
    for await (const batch of batches) {
      rows += batch.rows.length;
      yield `${JSON.stringify(batch)}\n`;
    }
    yield `${JSON.stringify({ end: rows })}\n`;
  }
  try {
    await pipeline(
      Readable.from(lines()),
      createGzip(),
      createWriteStream(path, { flags: 'wx', mode: OWNER_ONLY, flush: true }),
    );
    return rows;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw new Refusal(`${path} is there already`);
    await rm(path, { force: true });
    throw error;
  }
}

/** `onHead` comes before the first batch. Throws a Refusal where it is no backup, or not a whole one. */
export async function readBackup(
  path: string,
  onHead: (head: Head) => void,
  onBatch: (batch: Batch) => Promise<void>,
): Promise<number> {
  let rows = 0;
  let state = 'head';
  let failure: unknown = null;
  async function read(source: AsyncIterable<Buffer>): Promise<void> {
    for await (const line of linesOf(source)) {
      const value: unknown = JSON.parse(line);
      if (state === 'head') {
        onHead(Head.parse(value));
        state = 'batches';
      } else if (End.safeParse(value).success) {
        if (End.parse(value).end !== rows) throw new Refusal(`${path} has rows missing`);
        state = 'end';
      } else {
        const batch = Batch.parse(value);
        await onBatch(batch);
        rows += batch.rows.length;
      }
    }
  }
  try {
    // Of a reader that fails the pipeline says only that it was ended.
    await pipeline(createReadStream(path), createGunzip(), (source: AsyncIterable<Buffer>) =>
      read(source).catch((error: unknown) => {
        failure = error;
      }),
    );
    if (failure !== null) throw failure;
  } catch (caught) {
    const error = failure ?? caught;
    const isUnread =
      error instanceof SyntaxError || error instanceof z.ZodError || /^Z_|^ENOENT/.test(codeOf(error) ?? '');
    throw isUnread ? new Refusal(`${path} can't be read as a backup`) : error;
  }
  if (state !== 'end') throw new Refusal(`${path} is cut off`);
  return rows;
}

async function* linesOf(source: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of source) {
    const lines = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}
