// Names as they are shown: characters that turn what is around them are written out, so that exe doesn't pose as png.

/** Embeddings, overrides and isolates of the bidirectional algorithm (UAX 9, section 2). */
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

export function visibleName(name: string): string {
  return name.replace(TURNING, (character) => `[U+${character.charCodeAt(0).toString(16).toUpperCase()}]`);
}
