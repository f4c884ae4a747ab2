// The engines that there are, and which of them is built: the wanted one, or one that stands in for it.
import type { EngineChoice } from '../config/config.js';
import { messageOfError } from '../error-text.js';
import type { BuildOrder } from './build-order.js';
import { buildClamav } from './clamav/engine.js';
import type { BuiltEngine } from './engine.js';
import { buildYara } from './yara/engine.js';

interface EngineKind {
  /** As operators read it. */
  readonly title: string;
  readonly build: (order: BuildOrder) => Promise<BuiltEngine>;
}

const clamav: EngineKind = { title: 'ClamAV', build: buildClamav };
const yara: EngineKind = { title: 'YARA-X', build: buildYara };

/** The wanted engine, and the one that stands in for it. */
const choices: Readonly<Record<EngineChoice, { readonly wanted: EngineKind; readonly standIn: EngineKind | null }>> = {
  auto: { wanted: clamav, standIn: yara },
  clamav: { wanted: clamav, standIn: null },
  yara: { wanted: yara, standIn: null },
};

/** Rejects with the reason when the wanted engine can't be built. */
export async function buildWanted(choice: EngineChoice, order: BuildOrder): Promise<BuiltEngine> {
  return await choices[choice].wanted.build(order);
}

/** Rejects with both reasons when the stand-in can't be built either; with `failure` when there is no stand-in. */
export async function buildStandIn(choice: EngineChoice, order: BuildOrder, failure: unknown): Promise<BuiltEngine> {
  const { wanted, standIn } = choices[choice];
  if (standIn === null) throw failure;
  const reason = messageOfError(failure);
  try {
    return await standIn.build({ ...order, standsInFor: { name: wanted.title, reason } });
  } catch (error) {
    const message = `${reason}; ${standIn.title} cannot stand in for ${wanted.title}: ${messageOfError(error)}`;
    throw new Error(message, { cause: error });
  }
}
