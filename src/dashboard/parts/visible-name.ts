// Names as they are shown: characters that turn what is around them, or that nobody sees, are written out, so that exe doesn't pose as png and two names that differ look different.

/**
 * Controls but the line break and the tab; embeddings, overrides, isolates and marks of the bidirectional algorithm (UAX 9, section 2); characters
 * without a width, but the joiners, which emoji and Persian need; separators of lines; annotations and tags.
 */
const UNSEEN =
  /(?![\t\n])[\p{Cc}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

export function visibleName(name: string): string {
  return name.replace(UNSEEN, (character) => `[U+${hexOf(character.codePointAt(0) ?? 0)}]`);
}

function hexOf(code: number): string {
  return code.toString(16).toUpperCase().padStart(4, '0');
}
