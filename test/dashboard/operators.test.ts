// The operators' pages in a real browser against a real server, hostile texts on all pages, and a server that answers nothing; those of everybody are in pages.test.ts and dashboard.test.ts.
import t from 'tap';
import { databaseFolder } from '../native/engine.js';
import { hostileSignatures, hostileSuite } from './hostile-suite.js';
import { operatorSuite } from './operator-suite.js';
import { FREE_LIMIT, startSetting } from './setting.js';
import { silentSuite } from './silent-suite.js';
import { uploadSuite } from './upload-suite.js';

const setting = await startSetting({
  SIGNATURES_DIR: databaseFolder(t, { 'hostile.hsb': hostileSignatures() }),
  PLANS: `FREE:${FREE_LIMIT},PRO:1000,BUSINESS:10000`,
});
t.teardown(() => setting.stop());

t.test('the pages of operators', (t) => operatorSuite(t, setting));
t.test('hostile texts', (t) => hostileSuite(t, setting));
// Here, since an address can make so many accounts an hour, and the other files make most of them.
t.test('a server that answers nothing', async (t) => {
  await setting.browser.closePersons();
  await silentSuite(t, setting);
});
t.test('uploads that do not move', async (t) => {
  await setting.browser.closePersons();
  await uploadSuite(t, setting);
});
