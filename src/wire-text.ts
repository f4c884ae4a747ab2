// Texts as they come and go over the wire, and into rows and reports: URLs, JSON, and times, which are UTC without an offset.
import { z } from 'zod';

/** Whole seconds: `YYYY-MM-DDThh:mm:ss`. A number: epoch milliseconds. */
export const wireTime = (time: Date | number): string => new Date(time).toISOString().slice(0, 19);

export const DAY_MS = 86_400_000;

/** `YYYY-MM-DD`, of the same. */
export const wireDay = (time: Date | number): string => new Date(time).toISOString().slice(0, 10);

/** What the OpenAPI document says of a time. */
export const WireTime = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/)
  .describe('UTC');

/** The same as `JSON.stringify`, for less where nothing needs an escape, which is nearly always. */
export const jsonText = (text: string | null): string => (text === null ? 'null' : `"${bareText(text)}"`);

/** Without its quotes. */
export function bareText(text: string): string {
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return JSON.stringify(text).slice(1, -1);
  }
  return text;
}

/** Of an id, digits, or a name of ours, which need no escapes. */
export const jsonName = (name: string | null): string => (name === null ? 'null' : `"${name}"`);

/** Null: it is no JSON, or says so. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Of a host with more of them the parser takes tenths of a second, by their square. Percent-encoded they are more than most servers take. */
const NON_ASCII_MAX = 1_024;
const ASCII = /[ -~]+/g;

/** Null: it is none. Not by URL.canParse: once optimised, that of Node 20 reads Latin-1 as UTF-8, and takes what is no URL for one, and the other way round. */
export function parseUrl(text: string, base?: URL): URL | null {
  if (text.length > NON_ASCII_MAX && text.replace(ASCII, '').length > NON_ASCII_MAX) return null;
  try {
    return new URL(text, base);
  } catch {
    return null;
  }
}
