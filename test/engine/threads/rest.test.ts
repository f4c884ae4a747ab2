// What scans have freed goes back to the kernel once nobody has asked for a scan in a while.
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { start } from '../../fixtures/command.js';
import { temporaryFolder } from '../../fixtures/folder.js';
import { bodySignature, databaseFolder } from '../../native/engine.js';

t.test('a process that rests gives back what lies free between what it holds', async (t) => {
  const program = fileURLToPath(new URL('./rest-program.js', import.meta.url));
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') });
  const { stdout, stderr, code } = await start(t, program, [databases, temporaryFolder(t)]).ended;
  t.equal(code, 0, stderr);
  const { heldMb, restedMb } = JSON.parse(stdout);
  t.ok(restedMb < heldMb - 40, `${heldMb} MB, then ${restedMb}`);
});
