// Settings that several variables make together, or that depend on the machine.
import { totalmem } from 'node:os';
import { delimiter, resolve } from 'node:path';
import { ownSignaturesDirectory } from '../paths.js';
import { chooseProcesses, type ProcessChoice } from './processes.js';
import type { BillingSettings, Config, SignatureFolders } from './types.js';
import type { Variables } from './variables.js';

/** Where Debian's freshclam puts the official databases. */
const FRESHCLAM_DIRECTORY = '/var/lib/clamav';
const MIB = 1024 * 1024;

/** Of the machine's memory, or the container's, for all server processes together; the rest is for the stores and the kernel. */
const MEMORY_SHARE = 0.8;

/** `limitMb` 0: no bound. Unset: an even share of what there is. */
export function memoryLimitBytes(limitMb: number | undefined, processes: number): number | null {
  if (limitMb === 0) return null;
  if (limitMb !== undefined) return limitMb * MIB;
  return Math.floor(memoryOfServers() / processes);
}

function memoryOfServers(): number {
  // What the cgroup allows, 0 where there is no limit (Node takes it from memory.max).
  const allowed = process.constrainedMemory();
  const available = allowed > 0 && allowed < totalmem() ? allowed : totalmem();
  return available * MEMORY_SHARE;
}

/** What PROCESSES says, or with auto what this machine does. `because` null: it is set. */
export function processChoice(
  { v, isSet }: Given,
  cores: number,
): ProcessChoice | { processes: number; because: null } {
  if (v.PROCESSES !== 'auto') return { processes: v.PROCESSES, because: null };
  const { MEMORY_LIMIT_MB: limitMb = 0, SCAN_THREADS: scanThreads = null } = v;
  return chooseProcesses({
    cores,
    memoryBytes: memoryOfServers(),
    hasRedis: isSet('REDIS_URL'),
    processBytes: limitMb === 0 ? null : limitMb * MIB,
    scanThreads,
  });
}

/** The variables as far as they can be read, for what several of them must be together. */
export interface Given {
  /** With its default in the place of one that is wrong. */
  readonly v: Variables;
  /** It is set, to any value. */
  isSet(name: keyof Variables): boolean;
  /** It is set to what it can't be, which is among the problems already: what follows from its value is not known. */
  isWrong(name: keyof Variables): boolean;
  readonly problems: string[];
}

export function checkPlans({ v, isWrong, problems }: Given): void {
  if (isWrong('PLANS') || isWrong('BOOTSTRAP_PLAN') || v.PLANS.has(v.BOOTSTRAP_PLAN)) return;
  problems.push(`BOOTSTRAP_PLAN must be one of ${[...v.PLANS.keys()].join(', ')}`);
}

export function checkProcesses({ v, isSet, problems }: Given): void {
  // With auto there is one where no Redis is.
  if (v.PROCESSES === 1 || v.PROCESSES === 'auto' || isSet('REDIS_URL')) return;
  problems.push('REDIS_URL is needed when PROCESSES is above 1: they share their counts');
}

/** With STRIPE_SECRET_KEY billing is on, and needs the rest; what is missing or doesn't fit goes to the problems. */
export function billingSettings({ v, isSet, isWrong, problems }: Given): BillingSettings | null {
  if (!isSet('STRIPE_SECRET_KEY')) return null;
  for (const name of ['STRIPE_WEBHOOK_SECRET', 'STRIPE_PRICES', 'BASE_URL'] as const) {
    if (!isSet(name)) problems.push(`${name} is needed when STRIPE_SECRET_KEY is set`);
  }
  const { STRIPE_SECRET_KEY: secretKey, STRIPE_WEBHOOK_SECRET: webhookSecret, STRIPE_PRICES: sold } = v;
  const names = [...v.PLANS.keys()];
  if (sold !== undefined && !isWrong('PLANS')) {
    if ([...sold.keys()].some((plan) => !v.PLANS.has(plan))) {
      problems.push(`STRIPE_PRICES must name plans of PLANS: ${names.join(', ')}`);
    }
    if (names.every((plan) => sold.has(plan))) {
      problems.push('STRIPE_PRICES must leave one plan without a price: the one of accounts that do not pay');
    }
  }
  if (secretKey === undefined || webhookSecret === undefined || sold === undefined || v.BASE_URL === undefined) {
    return null;
  }
  const returnBase = v.BASE_URL.replace(/\/+$/, '');
  return { secretKey, webhookSecret, apiBase: v.STRIPE_API_BASE, returnBase };
}

/** All three variables or none. */
export function issuerSettings({ v, isSet, isWrong, problems }: Given): Config['trustedIssuer'] {
  const missing = (['JWT_ISSUER', 'JWT_JWKS_URL', 'JWT_AUDIENCE'] as const).filter((name) => !isSet(name));
  if (missing.length === 3) return null;
  for (const name of missing) problems.push(`${name} must be set as well: an issuer needs all three JWT_ variables`);
  const { JWT_ISSUER: issuer, JWT_JWKS_URL: jwksUrl, JWT_AUDIENCE: audience } = v;
  if (!isWrong('BASE_URL') && issuer === ownIssuer(v.BASE_URL ?? null)) {
    problems.push("JWT_ISSUER must not be Sluice's own");
  }
  if (issuer === undefined || jwksUrl === undefined || audience === undefined) return null;
  return { issuer, jwksUrl, audience };
}

/** The `iss` of our own access tokens: the same on every node that is configured alike. */
export function ownIssuer(baseUrl: string | null): string {
  return baseUrl === null ? 'sluice' : baseUrl.replace(/\/$/, '');
}

/** SIGNATURES_DIR replaces the default folders; several are separated like those of PATH. */
export function signatureFolders(setting: string | undefined, downloads: string): SignatureFolders {
  if (setting === undefined) {
    return { directories: [ownSignaturesDirectory], optionalDirectories: [FRESHCLAM_DIRECTORY, downloads] };
  }
  const directories = setting.split(delimiter).filter((entry) => entry !== '');
  return { directories: directories.map((entry) => resolve(entry)), optionalDirectories: [] };
}
