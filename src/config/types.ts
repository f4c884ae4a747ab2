// The configuration as the program sees it: every setting with its unit, nothing left to be looked up.
import type { Plans } from './plans.js';
import type { ProcessChoice } from './processes.js';
import type { EngineChoice } from './variables.js';

export interface Config {
  readonly port: number;
  readonly host: string;
  readonly baseUrl: string | null;
  readonly dataDirectory: string;
  /** Null: the embedded store under the data directory. */
  readonly databaseUrl: string | null;
  /** As whom the embedded store runs when root starts it; null: as nobody, or as the owner of what is there. */
  readonly databaseUser: string | null;
  /** Null: keys and quota are kept in this process. */
  readonly redisUrl: string | null;
  /** auto: ClamAV, or YARA rules alone where it can't be loaded. */
  readonly engine: EngineChoice;
  readonly signatureFolders: SignatureFolders;
  /** Logical signatures are asked only where one of their gates hits. */
  readonly hasGates: boolean;
  /** Between two looks for changed databases; 0: none are made. */
  readonly signaturesPollMs: number;
  /** Where `signatures update` gets the official databases from; null: from ClamAV; none: from nowhere. */
  readonly signaturesMirror: string | null;
  /** What it fetches beside them. */
  readonly signatureUrls: readonly string[];
  /** Where it puts all of that when no folder of others is in use. */
  readonly signatureDownloads: string;
  /** Whose verdicts an account gets without a scan: those of all accounts, or its own. */
  readonly verdictScope: 'shared' | 'account';
  /** Bytes of verdicts that are remembered; 0: none are. */
  readonly verdictCacheBytes: number;
  /** The first port for metrics; 0: a free port is chosen. */
  readonly adminPort: number;
  /** Of one process; null: as many as its descriptors allow. */
  readonly connections: number | null;
  /** Null: a share of them, or with trusted proxies all. */
  readonly connectionsPerAddress: number | null;
  /** Server processes on the one port. */
  readonly processes: number;
  /** What PROCESSES=auto has chosen that number for; null: it is set. */
  readonly processesBecause: ProcessChoice['because'] | null;
  /** Resident bytes of one server process above which it scans no more and is restarted; null: no bound. */
  readonly memoryLimitBytes: number | null;
  readonly scanThreads: number;
  /** Scans that may wait for a thread. */
  readonly scanQueue: number;
  /** From the moment the content is whole to the verdict, waiting included. */
  readonly scanTimeoutMs: number;
  readonly scanLimits: ScanLimits;
  readonly uploadTimeoutMs: number;
  /** How long an upload waits for memory before it gets its 503. */
  readonly uploadWaitMs: number;
  /** What one account leaves to others of the memory of uploads, and of that of downloads: a share of 1. */
  readonly memoryReserveShare: number;
  /** Bytes of uploads in memory at one time. */
  readonly uploadMemoryBytes: number;
  /** Networks in CIDR notation that URL scans may reach in spite of the guard. */
  readonly urlAllowNetworks: readonly string[];
  /** First and last of each range; null: all but the refused ones. */
  readonly urlPorts: readonly (readonly [number, number])[] | null;
  /** Null: those of the machine. */
  readonly urlDnsServers: readonly string[] | null;
  /** From the first question about the URL's host to the last byte. */
  readonly downloadTimeoutMs: number;
  /** Bytes of downloads in memory at one time. */
  readonly downloadMemoryBytes: number;
  readonly downloadsPerUser: number;
  readonly downloads: number;
  readonly coreDumps: 'on' | 'off';
  /** auto: uWebSockets.js, or node:http where it can't be loaded. */
  readonly httpServer: 'auto' | 'uws' | 'node';
  readonly sandbox: 'auto' | 'off' | 'required';
  readonly encryptedArchives: 'allow' | 'reject';
  readonly plans: Plans;
  /** Null: billing is off. */
  readonly billing: BillingSettings | null;
  /** Who may make an account: anybody, or the operator alone. */
  readonly registration: 'open' | 'closed';
  /** CIDRs of proxies whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly string[];
  /** Whose access tokens are taken besides our own. */
  readonly trustedIssuer: { readonly issuer: string; readonly jwksUrl: string; readonly audience: string } | null;
  readonly appEnv: string;
  readonly historyRetentionDays: number;
  /** Bytes of rows on local disk that wait for the database; beyond, scans get 503. */
  readonly historyJournalBytes: number;
  readonly logLevel: string;
  readonly bootstrap: Bootstrap;
}

export interface BillingSettings {
  readonly secretKey: string;
  readonly webhookSecret: string;
  readonly apiBase: string;
  /** Where Stripe sends buyers back to; no slash at its end. */
  readonly returnBase: string;
}

/** Folders whose signatures are loaded into one engine, the optional ones first. */
export interface SignatureFolders {
  /** Each must have a database. */
  readonly directories: readonly string[];
  /** Each is left out for as long as it has none. */
  readonly optionalDirectories: readonly string[];
}

/** What one content may unpack to. More is not looked at, and the answer says so. */
export interface ScanLimits {
  readonly maxScanSizeBytes: number;
  readonly maxFiles: number;
  readonly maxRecursion: number;
  /** Bytes that all scans together may have unpacked. */
  readonly maxTemporaryBytes: number;
}

export interface Bootstrap {
  readonly email: string | null;
  readonly password: string | null;
  readonly apiKey: string | null;
  readonly plan: string;
}

export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(
      `The configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:\n  ${problems.join('\n  ')}`,
    );
    this.name = 'ConfigError';
    this.problems = problems;
  }
}
