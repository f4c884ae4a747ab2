// The samples that every new engine scans before it serves: one that the project's own signatures must find, and one that no signature may find.
import { readFile } from 'node:fs/promises';

export interface SelfTest {
  /** Empty where no loaded file has a signature for it. */
  readonly infectedSample: Uint8Array;
  readonly cleanSample: Uint8Array;
}

const OWN_DATABASE = /\/sluice\.ldb$/;
const OWN_SIGNATURE = 'Sluice.Test.EICAR;';
/** The EICAR test file, in parts: a file of the project that had it whole would be found by scanners. */
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
