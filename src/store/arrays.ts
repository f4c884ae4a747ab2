// Arrays of Postgres' own types, as the driver sends and reads them. postgres.js 3.4.9 would ask each new connection for their numbers, and nobody could catch
// it where that question fails: by a statement timeout, or with its connection.
import type { Driver } from './queries.js';

/** pg_type.dat: arrays of these types. Their numbers are the same in every database. */
const TEXTS = { boolean: 1000, bigint: 1016, text: 1009, uuid: 2951 };
const NUMBERS = { smallint: 1005, integer: 1007, double: 1022 };

const ITEM = /"((?:[^"\\]|\\.)*)"|([^,{}]+)/gs;

function serialize(items: unknown): unknown {
  if (!Array.isArray(items)) return items;
  return `{${items.map((item) => (item === null ? 'NULL' : `"${String(item).replace(/["\\]/g, '\\$&')}"`)).join(',')}}`;
}

/** Of one dimension. */
function parse(text: string): (string | null)[] {
  return Array.from(text.matchAll(ITEM), ([, quoted, plain = '']) => {
    if (quoted !== undefined) return quoted.replace(/\\(.)/gs, '$1');
    return plain === 'NULL' ? null : plain;
  });
}

export function withArrays(driver: Driver): Driver {
  const { options } = driver;
  for (const type of [...Object.values(TEXTS), ...Object.values(NUMBERS)]) {
    options.serializers[type] = serialize;
    options.parsers[type] = parse;
  }
  for (const type of Object.values(NUMBERS)) {
    options.parsers[type] = (text: string) => parse(text).map((item) => (item === null ? null : Number(item)));
  }
  return driver;
}
