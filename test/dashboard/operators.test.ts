// The operators' pages in a real browser against a real server; those of everybody are in pages.test.ts and dashboard.test.ts.
import t from 'tap';
import { operatorSuite } from './operator-suite.js';
import { startSetting } from './setting.js';

const setting = await startSetting();
t.teardown(() => setting.stop());

t.test('the pages of operators', (t) => operatorSuite(t, setting));
