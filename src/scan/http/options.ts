// What a client says beside the content, as a field, a parameter, JSON or a header: its own text about the scan, and by which policy it is looked at.
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { encryptedPolicies, heuristicsPolicies, type ScanPolicy } from '../../engine/verdict.js';
import { Failure } from '../../errors.js';
import { METADATA_BYTES } from '../../limits.js';

/** But for tabs and line ends. Postgres has no text with NUL in it; nobody can read the others. */
const CONTROL = /[^\P{Cc}\t\n\r]/u;

/** As parameters and JSON fields, and of a form. */
export const optionFields = {
  metadata: z
    .string()
    .optional()
    .describe(
      `Your own text about the scan, at most ${METADATA_BYTES} bytes: it is kept with it, and means nothing to us.`,
    ),
  encrypted: z
    .enum(encryptedPolicies)
    .optional()
    .describe(
      '`reject`: content with members that need a password is a 422. `allow`: the verdict is about all the others, with the notice `encrypted`.',
    ),
  heuristics: z
    .enum(heuristicsPolicies)
    .optional()
    .describe(
      '`off`: what the engine merely suspects (names that begin with `Heuristics.`) is no infection, and a notice.',
    ),
};
type OptionName = keyof typeof optionFields;
export type SaidOptions = { readonly [Name in OptionName]?: string | undefined };

const NAMES: readonly OptionName[] = ['metadata', 'encrypted', 'heuristics'];

/** Null: it is another field of a form. */
export function optionNamed(name: string): OptionName | null {
  return NAMES.find((one) => one === name) ?? null;
}

/** Each once, whatever the way by which it comes. */
export class RequestOptions {
  metadata: string | null;
  /** Null, as the next one: as the service has it. */
  encrypted: ScanPolicy['encrypted'] | null;
  heuristics: ScanPolicy['heuristics'] | null;

  constructor() {
    this.metadata = null;
    this.encrypted = null;
    this.heuristics = null;
  }

  /** Throws Failure `badRequest`. */
  assertOnce(name: OptionName): void {
    if (this[name] !== null) throw new Failure('badRequest', `${name}: given twice`);
  }

  /** Throws Failure `badRequest`. */
  set(name: OptionName, text: string): void {
    this.assertOnce(name);
    if (name === 'metadata') this.metadata = metadataOf(text);
    else if (name === 'encrypted') this.encrypted = oneOf(name, encryptedPolicies, text);
    else this.heuristics = oneOf(name, heuristicsPolicies, text);
  }

  /** The same of bytes as they were sent. */
  setBytes(name: OptionName, bytes: Buffer): void {
    if (!isUtf8(bytes)) throw new Failure('badRequest', `${name}: must be UTF-8`);
    this.set(name, bytes.toString('utf8'));
  }

  /** What was said of the policy; empty: nothing. */
  get policyText(): string {
    return this.encrypted === null && this.heuristics === null ? '' : `${this.encrypted} ${this.heuristics}`;
  }

  addAll(said: SaidOptions): void {
    for (const name of NAMES) {
      const text = said[name];
      if (text !== undefined) this.set(name, text);
    }
  }
}

function metadataOf(text: string): string {
  if (Buffer.byteLength(text) > METADATA_BYTES) {
    throw new Failure('badRequest', `metadata: must be at most ${METADATA_BYTES} bytes long`);
  }
  if (CONTROL.test(text)) throw new Failure('badRequest', 'metadata: must not have control characters');
  return text;
}

function oneOf<Value extends string>(name: OptionName, values: readonly Value[], text: string): Value {
  const value = values.find((one) => one === text);
  if (value === undefined) throw new Failure('badRequest', `${name}: must be one of ${values.join(', ')}`);
  return value;
}
