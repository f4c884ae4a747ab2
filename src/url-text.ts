// Texts that may be URLs.

/** Null: it is none. Not by URL.canParse: once optimised, that of Node 20 reads Latin-1 as UTF-8, and takes what is no URL for one, and the other way round. */
export function parseUrl(text: string, base?: URL): URL | null {
  try {
    return new URL(text, base);
  } catch {
    return null;
  }
}
