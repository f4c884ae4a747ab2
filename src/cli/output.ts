// What a command says, and how it ends: its output, texts that are safe to print, tables, the help on variables, refusals, exit codes.
import { constants } from 'node:os';
import { environment } from '../config/variables.js';
import type { Progress } from './progress.js';

// Exit codes; those of the supervisor are in supervisor/slot.ts.

/** Everything was scanned and is clean. */
export const EXIT_CLEAN = 0;
export const EXIT_INFECTED = 1;
/** Nothing matched, but something was not or not wholly looked at. Bad usage ends with it as well. */
export const EXIT_FAILED = 2;
/** sysexits.h EX_SOFTWARE: a bug. */
export const EXIT_SOFTWARE = 70;
/** What a shell reports of a command that signal n ended, plus n. */
export const EXIT_SIGNAL_BASE = 128;

/**
 * The exit code of work that SIGINT and SIGTERM break off, by the signal where one did. Once: a second Ctrl-C ends the process as it does without us.
 */
export async function untilSignal(work: (stop: AbortController) => Promise<number>): Promise<number> {
  const stop = new AbortController();
  let stoppedBy: NodeJS.Signals | null = null;
  const onSignal = (signal: NodeJS.Signals): void => {
    stoppedBy = signal;
    stop.abort();
  };
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  try {
    const exitCode = await work(stop);
    return stoppedBy === null ? exitCode : EXIT_SIGNAL_BASE + constants.signals[stoppedBy];
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

export interface OutputOptions {
  /** One JSON document instead of text for people. */
  readonly json: boolean;
}

/** `1 scan`, `2 scans` */
export const counted = (count: number, name: string): string => `${count} ${name}${count === 1 ? '' : 's'}`;

export function print(text: string): void {
  process.stdout.write(text);
}

/**
 * Standard output with back-pressure: a slow reader slows the scan down, and a reader that closes the pipe ends it. `onClosed`: the reader is gone
 * (`sluice scan ... | head`); what is written from then on is dropped.
 */
export function createOutput(stream: NodeJS.WriteStream, progress: Progress, onClosed: () => void) {
  let closed = false;
  let resume: () => void = () => undefined;
  stream.on('drain', () => resume());
  stream.on('error', () => {
    closed = true;
    onClosed();
    resume();
  });
  return {
    /** Resolves when more may be written. */
    async write(text: string): Promise<void> {
      if (closed || text === '') return;
      if (stream.isTTY) progress.hide();
      if (stream.write(text)) return;
      await new Promise<void>((resolve) => {
        resume = resolve;
      });
    },
  };
}

/** Control and format characters, what else ends a line, and halves of pairs. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** The text on one line; a backslash is doubled, so that what is shown can be turned back. */
export function escapeText(text: string): string {
  return text.replaceAll('\\', '\\\\').replace(UNSAFE, (character) => SHORT[character] ?? codePoint(character));
}

/** A path as the system has it: bytes that are not UTF-8 are shown as `\xNN`. */
export function escapePath(path: Buffer): string {
  const text = path.toString('utf8');
  if (Buffer.from(text, 'utf8').equals(path)) return escapeText(text);
  return escapeText(path.toString('latin1')).replace(/[\x80-\xff]/g, codePoint);
}

/** JSON whose strings are as safe to print: JSON itself leaves everything above U+001F as it is. */
export function safeJson(value: unknown): string {
  return JSON.stringify(value).replace(UNSAFE, (character) =>
    [...Array(character.length).keys()]
      .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

function codePoint(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code <= 0xff ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
}

const GAP = '  ';

/** The heads and the rows as lines; numbers are aligned to the right. */
export function table(heads: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cells = rows.map((row) => row.map((cell) => (typeof cell === 'number' ? String(cell) : escapeText(cell))));
  const widths = heads.map((head, column) => Math.max(head.length, ...cells.map((row) => row[column]?.length ?? 0)));
  const isNumber = heads.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => (isNumber[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)))
      .join(GAP)
      .trimEnd();
  return [heads, ...cells].map((row) => `${line(row)}\n`).join('');
}

const WIDTH = 100;
const INDENT = '      ';

/** The table as text; `environmentHelp(['SCAN_THREADS'])` only shows that variable. */
export function environmentHelp(names: readonly string[] = environment.map(({ name }) => name)): string {
  const shown = environment.filter(({ name }) => names.includes(name));
  const rows = shown.map((row) => `  ${row.name}${row.default === null ? '' : `=${row.default}`}\n${wrap(row.about)}`);
  return ['Environment variables, with their defaults:', ...rows].join('\n');
}

function wrap(text: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && INDENT.length + line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].map((each) => INDENT + each).join('\n');
}

/** Why a command can't be carried out though its usage is right; printed as it is. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
}
