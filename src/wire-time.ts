// Times and days as they are written in answers, rows and reports: UTC, without an offset.
import { z } from 'zod';

/** Whole seconds: `YYYY-MM-DDThh:mm:ss`. */
export function wireTime(time: Date): string {
  return time.toISOString().slice(0, 19);
}

/** `YYYY-MM-DD` */
export function wireDay(time: Date): string {
  return time.toISOString().slice(0, 10);
}

/** What the OpenAPI document says of a time. */
export const WireTime = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/)
  .describe('UTC');
