// What the parser of ICAP hears, as something that tests can compare.
import { IcapParser, type IcapParserTarget } from '../../src/icap/request.js';

/** A parser, and what it hears, in words; bytes that follow each other are one text. */
export function listen(wantsRest = true): { readonly parser: IcapParser; readonly words: string[] } {
  const words: string[] = [];
  let content = '';
  const target: IcapParserTarget = {
    onSections: () => undefined,
    onHead({ headers, requestHeader, responseHeader, ...rest }) {
      const sections = [requestHeader, responseHeader].map((each) => each?.toString('latin1') ?? null);
      words.push(JSON.stringify([...headers, ...sections, rest]));
    },
    onChunk: () => words.push('chunk'),
    onBodyBytes(bytes) {
      content += Buffer.from(bytes).toString('hex');
    },
    onPreviewEnd() {
      words.push(`preview ${content}`);
      content = '';
      return wantsRest;
    },
    onBodyEnd() {
      words.push(`body ${content}`);
      content = '';
    },
    onProblem: ({ status, message }) => words.push(`${status} ${message}`),
  };
  return { parser: new IcapParser(target), words };
}

export function heard(parts: readonly Uint8Array[], wantsRest = true): string[] {
  const { parser, words } = listen(wantsRest);
  for (const part of parts) {
    for (let rest = Buffer.from(part); rest.length > 0; ) rest = rest.subarray(parser.write(rest));
  }
  return words;
}
