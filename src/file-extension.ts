// The extension of a file's name, as results and rows show it.

/** What follows the last dot, as sent; empty without a dot or with a leading one only. */
export function extensionOf(filename: string): string {
  const dot = filename.lastIndexOf('.');
  return dot <= 0 ? '' : filename.slice(dot + 1);
}
