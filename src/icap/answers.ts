// What a scan means for the one who asked, the heads of ICAP's answers (RFC 3507), and the page that a client gets in the place of what is blocked.
import { createHash } from 'node:crypto';
import type { Engine } from '../engine/engine.js';
import { Failure } from '../errors.js';
import { ICAP_OPTIONS_SECONDS, ICAP_PREVIEW_BYTES } from '../limits.js';
import { limitText } from '../scan/content.js';
import type { ScanFacts } from '../scan/scan-facts.js';

export const CONTINUE = Buffer.from('ICAP/1.0 100 Continue\r\n\r\n');

export const REASONS: Readonly<Record<number, string>> = {
  200: 'OK',
  204: 'No Modifications Needed',
  400: 'Bad request',
  408: 'Request timeout',
  431: 'Request header fields too large',
  500: 'Server error',
  501: 'Method not implemented',
  503: 'Service overloaded',
  505: 'ICAP version not supported by server',
};

/** RFC 3507, section 4.7: 32 bytes with its quotes. */
const TAG_CHARACTERS = 30;

/** It changes with the engine and its signatures: proxies drop then what they remember. Without an engine it is another one as well. */
export function tagOf(engine: Pick<Engine, 'description' | 'identity'> | null): string {
  const text = engine === null ? 'loading' : `${engine.description} ${engine.identity ?? ''}`;
  return `"${createHash('sha256').update(text).digest('hex').slice(0, TAG_CHARACTERS)}"`;
}

export const NO_BODY = 'null-body=0';

export function optionsOf(version: string, connections: number): string[] {
  return [
    'Methods: REQMOD, RESPMOD',
    `Service: Sluice ${version}`,
    'Service-ID: sluice',
    `Max-Connections: ${connections}`,
    `Options-TTL: ${ICAP_OPTIONS_SECONDS}`,
    'Allow: 204',
    `Preview: ${ICAP_PREVIEW_BYTES}`,
    'Transfer-Preview: *',
  ];
}

/** One line, of printable ASCII. */
const headerText = (text: string): string => text.replace(/[^ -~]/g, '?');

export const noticeHeader = (notice: string): string => `X-Sluice-Notice: ${headerText(notice)}`;

/** Type as c-icap and others have it: 0 is a virus, 2 a content that could not be looked into. Resolution 2: blocked. */
export function blockedHeaders({ kind, reason, filename }: Blocked): string[] {
  const threat = headerText(reason).replaceAll(';', ',');
  return [
    kind === 'infected' ? `X-Virus-ID: ${headerText(reason)}` : noticeHeader(reason),
    `X-Infection-Found: Type=${kind === 'infected' ? 0 : 2}; Resolution=2; Threat=${threat};`,
    `X-Violations-Found: 1\r\n\t${headerText(filename) || '-'}\r\n\t${threat}\r\n\t0\r\n\t2`,
    'X-Response-Info: Blocked',
  ];
}

const TITLES = {
  infected: 'Blocked: malware was found',
  incomplete: 'Blocked: the content could not be looked at as a whole',
} as const;

export const BLOCK_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{{title}}</title>
<h1>{{title}}</h1>
<p>{{reason}}</p>
<p>File: {{filename}}</p>
<p>Request: {{requestId}}</p>
</html>
`;

/** The HTTP response in the place of the blocked one, in its two sections. */
export function blockedResponse(
  template: string,
  blocked: Blocked,
  requestId: string,
): { readonly header: Buffer; readonly body: Buffer } {
  const { kind, reason, filename } = blocked;
  const said = { title: TITLES[kind], reason, filename: filename || 'without a name', requestId };
  const page = template.replace(/\{\{(title|reason|filename|requestId)\}\}/g, (text, name: string) => {
    const value = Object.entries(said).find(([key]) => key === name)?.[1];
    return typeof value === 'string' ? escaped(value) : text;
  });
  const body = Buffer.from(page, 'utf8');
  const header = [
    'HTTP/1.1 403 Forbidden',
    'Content-Type: text/html; charset=utf-8',
    `Content-Length: ${body.length}`,
    'Cache-Control: no-store',
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    'X-Content-Type-Options: nosniff',
    '\r\n',
  ].join('\r\n');
  return { header: Buffer.from(header, 'latin1'), body };
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');

/** What becomes of what could not be looked at as a whole. */
export type IncompletePolicy = 'block' | 'pass';

/** `reason`: the name of the signature, or why it could not be looked at as a whole. */
interface Blocked {
  readonly kind: 'infected' | 'incomplete';
  readonly reason: string;
  readonly filename: string;
}

export type IcapOutcome =
  /** `notice`: what the client should know all the same. */
  | { readonly kind: 'pass'; readonly notice: string | null }
  | Blocked
  /** The client decides, by its own setting for a service that fails. */
  | { readonly kind: 'error'; readonly status: number; readonly reason: string };

export const NOTHING_TO_SCAN: IcapOutcome = { kind: 'pass', notice: null };

/** ICAP's 408 and 5xx are not HTTP's: their texts are in answers.ts. */
const TIMEOUT = 408;
const OVERLOADED = 503;
const SERVER_ERROR = 500;

export interface OutcomeSettings {
  readonly incomplete: IncompletePolicy;
  readonly limitBytes: number;
}

export function outcomeOf(scan: ScanFacts, { incomplete, limitBytes }: OutcomeSettings): IcapOutcome {
  const { verdict, problem, filename } = scan;
  if (verdict?.kind === 'infected') return { kind: 'infected', reason: verdict.virusName, filename };
  if (verdict !== null) return { kind: 'pass', notice: scan.notices.join(', ') || null };
  const reason = reasonOf(problem, limitBytes);
  if (reason === null) return errorOf(problem, scan.requestId);
  // What isn't there as a whole can't be sent back; with a 204 the client has it itself.
  return incomplete === 'pass' ? { kind: 'pass', notice: reason } : { kind: 'incomplete', reason, filename };
}

const ORDER: readonly IcapOutcome['kind'][] = ['infected', 'incomplete', 'error', 'pass'];

/** Of several contents of one body. What is said of those that pass is said together. */
export function worstOf(outcomes: readonly IcapOutcome[]): IcapOutcome {
  const kind = ORDER.find((each) => outcomes.some((outcome) => outcome.kind === each));
  const found = outcomes.find((outcome) => outcome.kind === kind);
  if (found !== undefined && found.kind !== 'pass') return found;
  const notices = outcomes.flatMap((outcome) =>
    outcome.kind === 'pass' && outcome.notice !== null ? outcome.notice : [],
  );
  return { kind: 'pass', notice: [...new Set(notices)].join(', ') || null };
}

/** Why the content could not be looked at as a whole; null: it is not the content's. */
function reasonOf(problem: unknown, limitBytes: number): string | null {
  if (!(problem instanceof Failure)) return null;
  if (problem.code === 'fileTooLarge' || problem.code === 'acceptedTooLarge') {
    return `The content is over ${limitText(limitBytes).replace('MB', ' MB')}`;
  }
  return problem.code === 'scanIncomplete' ? problem.message : null;
}

export function errorOf(problem: unknown, requestId: string): IcapOutcome {
  if (!(problem instanceof Failure))
    return { kind: 'error', status: SERVER_ERROR, reason: `Internal error ${requestId}` };
  const status = problem.code === 'uploadTooSlow' ? TIMEOUT : OVERLOADED;
  return { kind: 'error', status, reason: problem.message };
}
