// A text as JSON has it.

/** The same as `JSON.stringify`, for less where nothing needs an escape, which is nearly always. */
export function jsonText(text: string | null): string {
  return text === null ? 'null' : `"${bareText(text)}"`;
}

/** Without its quotes. */
export function bareText(text: string): string {
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return JSON.stringify(text).slice(1, -1);
  }
  return text;
}

/** Of an id, digits, or a name of ours, which need no escapes. */
export function jsonName(name: string | null): string {
  return name === null ? 'null' : `"${name}"`;
}
