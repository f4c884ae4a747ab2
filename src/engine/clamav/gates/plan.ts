// Which signatures are gated, logical and extended ones, by which gates, and how they are shared out among the engines that take second looks.
import {
  beginnings,
  type Cost,
  countDifferent,
  type Gate,
  isEverywhere,
  keptChoice,
  keyOf,
  literals,
  literalsAmong,
  needOf,
  openForms,
  targetsOfLiterals,
} from './candidates.js';
import { CELLS, type Prior } from './prior.js';
import { type LogicalSignature, nameOf, parseSignature, type Reason } from './signature.js';

/** Why a signature stays in the first engine. */
export type KeptReason = Reason | 'handler' | 'same name' | 'few of a kind' | 'no gate' | 'program';

/** A share must look when a gate of each set has hit. */
interface Condition {
  readonly share: number;
  /** Indexes of gates; two sets at least. */
  readonly sets: readonly (readonly number[])[];
}

/** A bytecode program that runs where a logical signature matches. */
export interface Triggered {
  /** Its file's name in the database. */
  readonly file: string;
  /** A line of an .ldb file. */
  readonly trigger: string;
}

export interface PlanOptions {
  /** Bytecode programs that do nothing but find, no two files with one name. */
  readonly programs: readonly Triggered[];
  /** Names of signatures that make programs run, whether these may be gated or not. */
  readonly triggerNames: readonly string[];
  /** Keys of gates that fired in clean content. */
  readonly noisy: ReadonlySet<string>;
  /** What is known of clean content beforehand; null: nothing is. */
  readonly prior: Prior | null;
  /** Of lines by their index, where another thread has found them: as `needsOfLines` says. */
  readonly needs?: readonly (Needs | null)[];
  readonly onProgress?: (fraction: number) => void;
}

const EXECUTABLE = 1;
const MAIL = 'CL_TYPE_MAIL';
/**
 * A second look costs what its share costs, and each share some 20 MB. So signatures whose gates are likely to hit, as far as bytes and the prior tell,
 * have a share of their own, and most second looks are at a few signatures.
 */
const LIKELY_EXECUTABLE = 4_000;
const LIKELY_OTHERS = 600;
/** Of those that are less likely. The mask of a gate has 32 bits. */
const UNLIKELY_SHARES_MAX = 2;
const SIGNATURES_PER_SHARE = 16_000;
/** Of the two zip and RAR begin with. */
const BEGINNING_BYTES_MIN = 2;
const BEGINNING_BYTES_MAX = 16;

/** What is in each content that a signature matches. */
export interface Needs {
  /** The kind of file that the signature is for. */
  readonly target: number;
  /** One of each. */
  readonly sets: readonly (readonly Gate[])[];
  /** Its likelihood in clean content, at most. */
  readonly cost: number;
}

interface Gated {
  readonly line: string;
  readonly needs: Needs;
}

/** Extended ones of any kind of file, and of programs for Windows. */
const OF_OWN_PASS = /^[^:;]*:[01*]:[^;]*$/;

const isCandidate = ({ isHandler, isExtended, target }: LogicalSignature, targets: ReadonlySet<number>): boolean =>
  !isHandler && (!isExtended || targets.has(target));

/** `lines`: all logical and extended signatures of the databases, in any order. */
export function planGates(lines: readonly string[], options: PlanOptions) {
  const { programs, triggerNames, noisy, prior, needs: found = [], onProgress } = options;
  const kept: Partial<Record<KeptReason, number>> = {};
  const ofOwnPass: string[] = [];
  const keep = (reason: KeptReason, line: string): void => {
    kept[reason] = (kept[reason] ?? 0) + 1;
    if (OF_OWN_PASS.test(line)) ofOwnPass.push(line.split(':')[3] ?? '');
  };
  const names = countNames(lines);
  for (const name of triggerNames) names.set(name, (names.get(name) ?? 0) + 1);
  const handlers: string[] = [];
  const gated: Gated[] = [];
  const mail: { readonly line: string; readonly beginnings: readonly string[] | null }[] = [];
  const targets = targetsOfLiterals(lines);
  const costs = costsOf(noisy, prior, targets);
  for (const [index, line] of lines.entries()) {
    if (index % LINES_PER_REPORT === 0) onProgress?.(index / lines.length);
    const known = found[index];
    // While they load, signatures are identified by their names.
    const isAlone = names.get(nameOf(line)) === 1;
    if (isAlone && known !== undefined && known !== null) {
      gated.push({ line, needs: known });
      continue;
    }
    const parsed = parseSignature(line);
    if (!parsed.understood) {
      if (line.includes('HandlerType')) handlers.push(line);
      keep(parsed.reason, line);
      continue;
    }
    const { signature } = parsed;
    const canHave = isAlone && isCandidate(signature, targets);
    const needs = canHave ? (known === undefined ? needsOf(signature, costs) : known) : null;
    if (signature.isHandler) {
      handlers.push(line);
      keep('handler', line);
    } else if (!isAlone) keep('same name', line);
    else if (needs !== null) gated.push({ line, needs });
    else if (signature.isExtended && !targets.has(signature.target)) keep('few of a kind', line);
    else if (isForMail(signature)) mail.push({ line, beginnings: beginningsOf(signature) });
    else keep('no gate', line);
  }
  const gatedPrograms: Gated[] = [];
  for (const { file, trigger } of programs) {
    const parsed = parseSignature(trigger);
    const needs = parsed.understood && !parsed.signature.isHandler ? needsOf(parsed.signature, costs) : null;
    if (parsed.understood && needs !== null) {
      gatedPrograms.push({ line: `${file};${parsed.signature.name}`, needs });
    } else keep('program', trigger);
  }
  const count = gated.length + mail.length + gatedPrograms.length;
  const shared = sharedOut(gated, mail, gatedPrograms);
  const all = shared.gates.map(({ gate }) => gate);
  return {
    ...shared,
    /** Indexes of those gates that are looked for outside of libclamav's matcher. */
    literals: literalsAmong(all, targets),
    /** Signatures that change how a layer is parsed: every engine needs them. */
    handlers,
    /** Patterns of the extended signatures that stay in the first engine, and that libclamav would match in a pass of their own. */
    ofOwnPass,
    gated: count,
    kept,
  };
}

/** What each needs that could be gated, by its index: to be asked on several threads. `targets`: as `targetsOfLiterals` says of all lines. */
export function needsOfLines(
  lines: readonly string[],
  targets: ReadonlySet<number>,
  { noisy, prior, onProgress }: Pick<PlanOptions, 'noisy' | 'prior' | 'onProgress'>,
): readonly (Needs | null)[] {
  const costs = costsOf(noisy, prior, targets);
  return lines.map((line, index) => {
    if (index % LINES_PER_REPORT === 0) onProgress?.(index / lines.length);
    const parsed = parseSignature(line);
    return parsed.understood && isCandidate(parsed.signature, targets) ? needsOf(parsed.signature, costs) : null;
  });
}

/** Of about a hundredth of a second. */
const LINES_PER_REPORT = 64;

/** Hashes of all windows of all gates that the signatures can have, as far as they were not seen. It takes seconds. */
export function wantedWindows(
  lines: readonly string[],
  prior: Prior,
  onProgress: (fraction: number) => void,
): Float64Array {
  const windows = new Set<number>();
  const targets = targetsOfLiterals(lines);
  // No gate is good enough, so all of them are asked about.
  const cost: Cost = (gate) => {
    for (const window of prior.unseenWindows(gate)) windows.add(window);
    return Number.POSITIVE_INFINITY;
  };
  for (const [index, line] of lines.entries()) {
    if (index % LINES_PER_REPORT === 0) onProgress(index / lines.length);
    const parsed = parseSignature(line);
    if (parsed.understood && isCandidate(parsed.signature, targets)) needOf(parsed.signature, cost);
  }
  return Float64Array.from(windows);
}

function countNames(lines: readonly string[]): Map<string, number> {
  const names = new Map<string, number>();
  for (const line of lines) {
    const name = nameOf(line);
    names.set(name, (names.get(name) ?? 0) + 1);
  }
  return names;
}

interface Costs {
  /** Gates of another signature are asked about from now on. */
  begin(): void;
  readonly alone: Cost;
  /** Of a gate that sends nobody by itself: what is common tells something as well. */
  readonly beside: Cost;
  /** As `targetsOfLiterals` says. */
  readonly targets: ReadonlySet<number>;
}

interface LookPrice {
  readonly cost: number;
  readonly isCommon: boolean;
}

/**
 * What a hit would cost: its likelihood in clean content. What was seen there too often is no gate: a second look costs as much as some
 * thousand signatures that every content is asked about.
 */
function costsOf(noisy: ReadonlySet<string>, prior: Prior | null, targets: ReadonlySet<number>): Costs {
  const patterns = new Set(Array.from(noisy, (key) => key.slice(key.lastIndexOf(':') + 1)));
  // They are asked about for each set.
  const remembered = new Map<Gate, LookPrice>();
  function computed(gate: Gate): LookPrice {
    const isNoisy = patterns.has(gate.pattern) && noisy.has(keyOf(gate));
    const guessed = isNoisy ? Number.POSITIVE_INFINITY : likelihood(gate);
    if (guessed === Number.POSITIVE_INFINITY || prior === null) return { cost: guessed, isCommon: false };
    // Where nothing was counted, what bytes tell must do.
    const share = prior.shareOf(gate);
    if (share === null) return { cost: guessed, isCommon: guessed > SHARE_MAX };
    if (share === 0) return { cost: guessed * UNSEEN ** prior.unseenOf(gate), isCommon: false };
    return { cost: share, isCommon: share > SHARE_MAX };
  }
  const priceOf = (gate: Gate): LookPrice => {
    const known = remembered.get(gate) ?? computed(gate);
    remembered.set(gate, known);
    return known;
  };
  return {
    begin: () => remembered.clear(),
    alone(gate) {
      const { cost, isCommon } = priceOf(gate);
      return isCommon ? Number.POSITIVE_INFINITY : cost;
    },
    beside: (gate) => priceOf(gate).cost,
    targets,
  };
}

/** Null: nothing is known that is rare enough. */
function needsOf(signature: LogicalSignature, costs: Costs): Needs | null {
  const areCheap = costs.targets.has(signature.target);
  costs.begin();
  const plain = keptChoice(literals);
  const choices = [plain, keptChoice(openForms)];
  const first = needOf(signature, costs.alone, { choices });
  if (first === null) return null;
  const options = { choices: areCheap ? [plain] : choices };
  const sets = [first.gates];
  let { cost } = first;
  const taken = new Set<number | string>();
  const isTaken = ({ pattern }: Gate): boolean => stretches(pattern).some((stretch) => taken.has(stretch));
  // Of one pattern a second gate tells little that the first one doesn't.
  const hasSeveral = areCheap && !signature.isExtended;
  while (hasSeveral ? sets.length < SETS_MAX : sets.length < 2 && cost >= RARE_ALONE) {
    for (const { pattern } of sets.at(-1) ?? []) for (const stretch of stretches(pattern)) taken.add(stretch);
    const next = needOf(signature, areCheap ? costs.beside : costs.alone, { ...options, isTaken });
    if (next === null || next.gates.length > FURTHER_GATES_MAX) break;
    sets.push(next.gates);
    cost *= Math.min(1, DEPENDENCE * next.cost);
  }
  return { target: signature.target, sets, cost };
}

/** Each further gate makes libclamav's matcher larger and a little slower: only what is likelier than this is worth a second one. */
const RARE_ALONE = 2 ** -17;
/** Where gates cost next to nothing (native/literals.h). */
const SETS_MAX = 4;
const FURTHER_GATES_MAX = 16;
/** So much more often than elsewhere the next one is where the first one is. */
const DEPENDENCE = 8;
const STRETCH_BYTES = 5;

/** Each is longer than what two gates share by chance. Plain bytes are a number, what is open among others is text. */
function stretches(pattern: string): readonly (number | string)[] {
  if (isPlain(pattern)) return plainStretches(pattern);
  const cells = pattern.match(CELLS) ?? [];
  return Array.from({ length: Math.max(1, cells.length - STRETCH_BYTES + 1) }, (_, at) => {
    const text = cells.slice(at, at + STRETCH_BYTES).join('');
    return isPlain(text) ? (plainStretches(text)[0] ?? text) : text;
  });
}

function plainStretches(pattern: string): readonly number[] {
  const bytes = fixedBytes(pattern);
  const length = Math.min(STRETCH_BYTES, bytes.length);
  const found: number[] = [];
  for (let at = 0; at + length <= bytes.length; at += 1) {
    let stretch = length;
    for (let next = at; next < at + length; next += 1) stretch = stretch * 256 + (bytes[next] ?? 0);
    found.push(stretch);
  }
  return found;
}

/**
 * For each window that was in no clean content, the whole is so much rarer than its bytes tell. Of code that is in many programs, but in another version
 * in those that were counted, most windows were seen.
 */
const UNSEEN = 2 ** -2;
/** Of clean contents. */
const SHARE_MAX = 0.001;

const BITS_PER_DIFFERENT_BYTE = 1;
const BITS_PER_REPEATED_BYTE = 0.1;
const BITS_OF_A_PLACE = 4;

/** As far as bytes tell: by the number of different ones, less by repeated ones; at a place of its own a literal is rarer. */
function likelihood({ pattern, offset }: Gate): number {
  const bytes = fixedBytes(pattern);
  if (isEverywhere(offset, bytes)) return Number.POSITIVE_INFINITY;
  const different = countDifferent(bytes);
  const bits = different * BITS_PER_DIFFERENT_BYTE + (bytes.length - different) * BITS_PER_REPEATED_BYTE;
  return 2 ** -(bits + (offset === '*' ? 0 : BITS_OF_A_PLACE));
}

/** Written over by the next pattern. */
const fixed = Buffer.alloc(64);

/** Of a choice the first; nothing for what is open. To be read before the next call. */
function fixedBytes(pattern: string): Uint8Array {
  if (pattern.length <= 2 * fixed.length && isPlain(pattern)) {
    return fixed.subarray(0, fixed.write(pattern, 'hex'));
  }
  const tokens = pattern.match(/\([^)]*\)|../g) ?? [];
  const closed = tokens.map((token) => (token.startsWith('(') ? token.slice(1, 3) : token));
  return Buffer.from(closed.filter((token) => !token.includes('?')).join(''), 'hex');
}

const isPlain = (pattern: string): boolean => !pattern.includes('(') && !pattern.includes('?');

function isForMail({ container, intermediates }: LogicalSignature): boolean {
  return container === MAIL || (intermediates?.includes(MAIL) ?? false);
}

/** Null: it may match in a layer that begins with anything. */
function beginningsOf(signature: LogicalSignature): readonly string[] | null {
  const choices = [beginnings(BEGINNING_BYTES_MIN, BEGINNING_BYTES_MAX)];
  return needOf(signature, () => 1, { choices })?.gates.map(({ pattern }) => pattern) ?? null;
}

function sharedOut(
  gated: readonly Gated[],
  mail: readonly { readonly line: string; readonly beginnings: readonly string[] | null }[],
  programs: readonly Gated[],
) {
  const shares: string[][] = [];
  const gates = new Map<string, { readonly gate: Gate; readonly index: number; readonly shares: Set<number> }>();
  const conditions = new Map<string, Condition>();
  const placeOf = (gate: Gate): { readonly index: number; readonly shares: Set<number> } => {
    const key = keyOf(gate);
    const place = gates.get(key) ?? { gate, index: gates.size, shares: new Set<number>() };
    gates.set(key, place);
    return place;
  };
  const put = (all: readonly Gated[]): void => {
    const share = shares.push(all.map(({ line }) => line)) - 1;
    for (const { needs } of all) {
      const sets = needs.sets.map((set) => set.map(placeOf));
      const [alone = [], ...others] = sets;
      if (others.length === 0) for (const place of alone) place.shares.add(share);
      else {
        const condition = { share, sets: sets.map((set) => set.map(({ index }) => index)) };
        conditions.set(JSON.stringify(condition), condition);
      }
    }
  };
  const isExecutable = ({ needs }: Gated): boolean => needs.target === EXECUTABLE;
  const others = gated.filter((one) => !isExecutable(one));
  for (const share of parted(gated.filter(isExecutable), LIKELY_EXECUTABLE)) put(share);
  for (const share of parted(others, LIKELY_OTHERS)) put(share);
  const mailShare = mail.length > 0 ? shares.push(mail.map(({ line }) => line)) - 1 : null;
  const programShare = programs.length > 0 ? shares.length : null;
  if (programShare !== null) put(programs);
  return {
    /** `shares`: indexes of those that must look when it hits, whatever else does. */
    gates: [...gates.values()].map((one) => ({ gate: one.gate, shares: [...one.shares] })),
    conditions: [...conditions.values()],
    /** Lines of .ldb and .ndb files, one list for each share: each share has an engine of its own for second looks. */
    shares,
    /**
     * The share of signatures without a gate that match only in layers inside of mails: asked where such a layer can have been. `beginnings`: in hexadecimal; each
     * layer in which one of them matches begins with one of these; empty: with anything.
     */
    mail: mailShare === null ? null : { share: mailShare, beginnings: beginningsOfAll(mail) },
    /** Index of the share whose lines are names of files of bytecode programs and of their triggers; null: none of them has a gate. */
    programShare,
  };
}

/** Those that are likely to be looked at first, then the others in equal parts. Signatures that share their gates are looked at together. */
function parted(gated: readonly Gated[], likely: number): readonly (readonly Gated[])[] {
  const groups = new Map<string, { readonly cost: number; readonly members: Gated[] }>();
  for (const one of gated) {
    const { sets, cost } = one.needs;
    const key = sets.flat().map(keyOf).join();
    const known = groups.get(key) ?? { cost, members: [] };
    known.members.push(one);
    groups.set(key, known);
  }
  const ranked = [...groups.entries()].sort(
    ([key, one], [other, two]) => two.cost - one.cost || (key < other ? -1 : 1),
  );
  const count = Math.min(UNLIKELY_SHARES_MAX, Math.ceil((gated.length - likely) / SIGNATURES_PER_SHARE));
  const first: Gated[] = [];
  const rest: Gated[][] = Array.from({ length: Math.max(0, count) }, () => []);
  for (const [key, { members }] of ranked) {
    const isFirst = first.length < likely || rest.length === 0;
    const into = isFirst ? first : (rest[hashOf(key) % rest.length] ?? first);
    into.push(...members);
  }
  return [first, ...rest].filter((share) => share.length > 0);
}

function beginningsOfAll(mail: readonly { readonly beginnings: readonly string[] | null }[]): readonly string[] {
  const isAnything = mail.some(({ beginnings }) => beginnings === null);
  return isAnything ? [] : [...new Set(mail.flatMap((one) => one.beginnings ?? []))];
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
