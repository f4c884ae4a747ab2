// What is said beside a verdict: the words of X-Scan-Notice and of the history, in the order in which they apply.
import type { Engine } from '../engine/engine.js';
import type { CompleteVerdict } from './verdicts/cache.js';

const NONE: readonly string[] = [];

export function noticesOf(verdict: CompleteVerdict, { notice }: Pick<Engine, 'notice'>): readonly string[] {
  const isEncrypted = verdict.kind === 'clean' && verdict.encrypted;
  const isTruncated = verdict.kind === 'clean' && verdict.truncated === true;
  const isSuspected = verdict.kind === 'clean' && verdict.suspected !== undefined;
  if (!isEncrypted && !isTruncated && !isSuspected && notice === null) return NONE;
  const notices: string[] = [];
  if (isEncrypted) notices.push('encrypted');
  if (isTruncated) notices.push('truncated');
  if (isSuspected) notices.push('suspected');
  if (notice !== null) notices.push(notice);
  return notices;
}
