// The operators' pages in a real browser against a real server, and hostile texts on all pages; those of everybody are in pages.test.ts and dashboard.test.ts.
import t from 'tap';
import { databaseFolder } from '../native/engine.js';
import { hostileSignatures, hostileSuite } from './hostile-suite.js';
import { operatorSuite } from './operator-suite.js';
import { FREE_LIMIT, startSetting } from './setting.js';

const setting = await startSetting({
  SIGNATURES_DIR: databaseFolder(t, { 'hostile.hsb': hostileSignatures() }),
  PLANS: `FREE:${FREE_LIMIT},PRO:1000,BUSINESS:10000`,
});
t.teardown(() => setting.stop());

t.test('the pages of operators', (t) => operatorSuite(t, setting));
t.test('hostile texts', (t) => hostileSuite(t, setting));
