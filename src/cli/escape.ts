// Names made safe to print: nothing in a file's name can move the cursor, start a line of its own or pass for another name.

/** Control and format characters, what else ends a line, and halves of pairs. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** The text on one line; a backslash is doubled, so that what is shown can be turned back. */
export function escapeText(text: string): string {
  return text.replaceAll('\\', '\\\\').replace(UNSAFE, (character) => SHORT[character] ?? codePoint(character));
}

/** A path as the system has it: bytes that are not UTF-8 are shown as `\xNN`. */
export function escapePath(path: Buffer): string {
  const text = path.toString('utf8');
  if (Buffer.from(text, 'utf8').equals(path)) return escapeText(text);
  return escapeText(path.toString('latin1')).replace(/[\x80-\xff]/g, codePoint);
}

/** JSON whose strings are as safe to print: JSON itself leaves everything above U+001F as it is. */
export function safeJson(value: unknown): string {
  return JSON.stringify(value).replace(UNSAFE, (character) =>
    [...Array(character.length).keys()]
      .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

function codePoint(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code <= 0xff ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
}
