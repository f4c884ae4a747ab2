// The samples that every new engine is tried on before it serves: one that our own signatures must find, one that nothing may.
import { readFile } from 'node:fs/promises';

export interface SelfTest {
  /** Empty where no loaded file is known to find it. */
  readonly infectedSample: Uint8Array;
  readonly cleanSample: Uint8Array;
}

const OWN_DATABASE = /\/sluice\.ldb$/;
const OWN_SIGNATURE = 'Sluice.Test.EICAR;';
/** The EICAR test file, in parts that mean nothing by themselves, so that no file of ours is one. */
const TEST_FILE = ['X5O!P%@AP[4\\PZX54(P^)', '7CC)7}$EICAR-STANDARD-', 'ANTIVIRUS-TEST-', 'FILE!$H+H*'];
const CLEAN_TEXT = 'Sluice self-test: a few harmless words that no signature may match.\n';

export function testFile(): Uint8Array {
  return Buffer.from(TEST_FILE.join(''), 'latin1');
}

export function cleanSample(): Uint8Array {
  return Buffer.from(CLEAN_TEXT);
}

export async function selfTestFor(databasePaths: readonly string[]): Promise<SelfTest> {
  for (const path of databasePaths.filter((candidate) => OWN_DATABASE.test(candidate))) {
    if ((await readFile(path, 'latin1')).includes(OWN_SIGNATURE)) {
      return { infectedSample: testFile(), cleanSample: cleanSample() };
    }
  }
  return { infectedSample: new Uint8Array(), cleanSample: cleanSample() };
}
