// Which logical signatures are gated, by which gates, and how they are shared out among the engines that take second looks.
import { type Cost, type Gate, keyOf, needOf } from './need.js';
import { type LogicalSignature, parseSignature, type Reason } from './signature.js';

/** Why a logical signature stays in the first engine. */
export type KeptReason = Reason | 'handler' | 'same name' | 'no gate';

export interface Plan {
  readonly gates: readonly PlannedGate[];
  /** Lines of .ldb files, one list for each engine that takes second looks. */
  readonly shares: readonly (readonly string[])[];
  readonly mail: MailShare | null;
  /** Signatures that change how a layer is parsed: every engine needs them. */
  readonly handlers: readonly string[];
  readonly gated: number;
  readonly kept: Readonly<Partial<Record<KeptReason, number>>>;
}

export interface PlannedGate {
  readonly gate: Gate;
  /** Indexes of shares that must look when it hits. */
  readonly shares: readonly number[];
}

/** Signatures without a gate that match only in layers inside of mails: asked where such a layer can have been. */
export interface MailShare {
  /** Index among the shares. */
  readonly share: number;
  /** Hexadecimal: each layer in which one of them matches begins with one of these; empty: with anything. */
  readonly beginnings: readonly string[];
}

export interface PlanOptions {
  /** Keys of gates that fired in clean content. */
  readonly noisy: ReadonlySet<string>;
}

const EXECUTABLE = 1;
const MAIL = 'CL_TYPE_MAIL';
/** A second look costs what its share costs; each engine costs about 8 MB. The mask of a gate has 32 bits. */
const EXECUTABLE_SHARES_MAX = 6;
const OTHER_SHARES_MAX = 1;
const SIGNATURES_PER_SHARE = 5_000;
/** Of the two zip and RAR begin with. */
const BEGINNING_BYTES_MIN = 2;
const BEGINNING_BYTES_MAX = 16;

interface Understood {
  readonly line: string;
  readonly signature: LogicalSignature;
}

/** `lines`: all logical signatures of the databases, in any order. */
export function planGates(lines: readonly string[], { noisy }: PlanOptions): Plan {
  const kept: Partial<Record<KeptReason, number>> = {};
  const keep = (reason: KeptReason): void => {
    kept[reason] = (kept[reason] ?? 0) + 1;
  };
  const names = countNames(lines);
  const handlers: string[] = [];
  const gated: (Understood & { readonly need: readonly Gate[] })[] = [];
  const mail: (Understood & { readonly beginnings: readonly string[] | null })[] = [];
  const cost = costOf(noisy);
  for (const line of lines) {
    const parsed = parseSignature(line);
    if (!parsed.understood) {
      if (line.includes('HandlerType')) handlers.push(line);
      keep(parsed.reason);
      continue;
    }
    const { signature } = parsed;
    // Signatures are told apart by their names while they load.
    const isAlone = names.get(signature.name) === 1;
    const need = isAlone && !signature.isHandler ? needOf(signature, cost) : null;
    if (signature.isHandler) {
      handlers.push(line);
      keep('handler');
    } else if (!isAlone) keep('same name');
    else if (need !== null) gated.push({ line, signature, need });
    else if (isForMail(signature)) mail.push({ line, signature, beginnings: beginningsOf(signature) });
    else keep('no gate');
  }
  return { ...sharedOut(gated, mail), handlers, gated: gated.length + mail.length, kept };
}

function countNames(lines: readonly string[]): Map<string, number> {
  const names = new Map<string, number>();
  for (const line of lines) {
    const name = line.slice(0, line.indexOf(';'));
    names.set(name, (names.get(name) ?? 0) + 1);
  }
  return names;
}

/**
 * Likelihood in clean content, as far as bytes tell: by the number of different ones, less by repeated ones; at a place of its
 * own a literal is rarer.
 */
function costOf(noisy: ReadonlySet<string>): Cost {
  const known = new Map<string, number>();
  return (gate) => {
    const key = keyOf(gate);
    let cost = known.get(key);
    if (cost === undefined) {
      cost = noisy.has(key) ? Number.POSITIVE_INFINITY : likelihood(gate);
      known.set(key, cost);
    }
    return cost;
  };
}

const BITS_PER_DIFFERENT_BYTE = 1;
const BITS_PER_REPEATED_BYTE = 0.1;
const BITS_OF_A_PLACE = 4;
const DIFFERENT_BYTES_MIN = 3;

function likelihood({ hex, offset }: Gate): number {
  const bytes = Buffer.from(hex, 'hex');
  const different = countDifferent(bytes);
  // Runs of one byte, of two in turn, and of bytes that count are in everything.
  const isRegular = different < DIFFERENT_BYTES_MIN || countDifferent(stepsOf(bytes)) === 1;
  if (isRegular && offset === '*') return Number.POSITIVE_INFINITY;
  const bits = different * BITS_PER_DIFFERENT_BYTE + (bytes.length - different) * BITS_PER_REPEATED_BYTE;
  return 2 ** -(bits + (offset === '*' ? 0 : BITS_OF_A_PLACE));
}

function countDifferent(bytes: Uint8Array): number {
  let different = 0;
  for (let at = 0; at < bytes.length; at += 1) if (bytes.indexOf(bytes[at] ?? 0) === at) different += 1;
  return different;
}

function stepsOf(bytes: Uint8Array): Uint8Array {
  const steps = new Uint8Array(bytes.length - 1);
  for (let at = 0; at < steps.length; at += 1) steps[at] = (bytes[at + 1] ?? 0) - (bytes[at] ?? 0);
  return steps;
}

function isForMail({ container, intermediates }: LogicalSignature): boolean {
  return container === MAIL || (intermediates?.includes(MAIL) ?? false);
}

/** Null: it may match in a layer that begins with anything. */
function beginningsOf(signature: LogicalSignature): readonly string[] | null {
  const atTheBeginning = needOf(
    signature,
    () => 1,
    (target, { hex, offset }) =>
      offset === '0' && hex.length >= 2 * BEGINNING_BYTES_MIN
        ? [{ target, offset, hex: hex.slice(0, 2 * BEGINNING_BYTES_MAX) }]
        : [],
  );
  return atTheBeginning?.map(({ hex }) => hex) ?? null;
}

function sharedOut(
  gated: readonly { readonly line: string; readonly signature: LogicalSignature; readonly need: readonly Gate[] }[],
  mail: readonly { readonly line: string; readonly beginnings: readonly string[] | null }[],
): Pick<Plan, 'gates' | 'shares' | 'mail'> {
  const executables = gated.filter(({ signature }) => signature.target === EXECUTABLE).length;
  const executableShares = shareCount(executables, EXECUTABLE_SHARES_MAX);
  const otherShares = shareCount(gated.length - executables, OTHER_SHARES_MAX);
  const shares: string[][] = Array.from({ length: executableShares + otherShares }, () => []);
  const gates = new Map<string, { readonly gate: Gate; readonly shares: Set<number> }>();
  for (const { line, signature, need } of gated) {
    // Signatures that share a gate are looked at together.
    const number = hashOf(need.map(keyOf).join());
    const isExecutable = signature.target === EXECUTABLE;
    const share = isExecutable ? number % executableShares : executableShares + (number % otherShares);
    shares[share]?.push(line);
    for (const gate of need) {
      const key = keyOf(gate);
      const known = gates.get(key) ?? { gate, shares: new Set<number>() };
      known.shares.add(share);
      gates.set(key, known);
    }
  }
  const planned = [...gates.values()].map((one) => ({ gate: one.gate, shares: [...one.shares] }));
  if (mail.length === 0) return { gates: planned, shares, mail: null };
  const isAnything = mail.some(({ beginnings }) => beginnings === null);
  const beginnings = isAnything ? [] : [...new Set(mail.flatMap((one) => one.beginnings ?? []))];
  return {
    gates: planned,
    shares: [...shares, mail.map(({ line }) => line)],
    mail: { share: shares.length, beginnings },
  };
}

function shareCount(signatures: number, most: number): number {
  return Math.min(most, Math.ceil(signatures / SIGNATURES_PER_SHARE));
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
