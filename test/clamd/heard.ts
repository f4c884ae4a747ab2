// What the parser of clamd's protocol hears, as something that tests can compare.
import { ClamdParser, type ClamdParserTarget, type Command } from '../../src/clamd/protocol.js';

/** A parser, and what it hears, in words; chunks that follow each other are one text. */
export function listen(): { readonly parser: ClamdParser; readonly words: string[] } {
  const words: string[] = [];
  let content = '';
  const target: ClamdParserTarget = {
    onCommand(command: Command) {
      words.push(JSON.stringify(command));
      if (command.kind === 'INSTREAM') parser.beginStream();
      if (command.kind === 'FILDES') parser.expectDescriptor();
    },
    onChunk: (sizeBytes) => words.push(`chunk ${sizeBytes}`),
    onStreamBytes(bytes) {
      content += Buffer.from(bytes).toString('hex');
    },
    onStreamEnd() {
      words.push(`content ${content}`);
      content = '';
    },
    onDescriptorByte: () => words.push('descriptor'),
    onTooLong: () => words.push('too long'),
  };
  const parser = new ClamdParser(target);
  return { parser, words };
}

export function heard(parts: readonly Uint8Array[]): string[] {
  const { parser, words } = listen();
  for (const part of parts) {
    for (let rest = Buffer.from(part); rest.length > 0; ) {
      parser.isHeld = false;
      rest = rest.subarray(parser.write(rest));
    }
  }
  parser.endOld();
  return words;
}
