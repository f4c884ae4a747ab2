// The dashboard in a real browser against a real server: each page's job done as a user does it, and what goes wrong on the way.
import t from 'tap';
import { accountSuite } from './account-suite.js';
import { billingSuite } from './billing-suite.js';
import { historySuite } from './history-suite.js';
import { keySuite } from './key-suite.js';
import { scanSuite } from './scan-suite.js';
import { sessionSuite } from './session-suite.js';
import { startSetting } from './setting.js';

// One server and one browser for all: together they take seconds to come up. The other half is in pages.test.ts.
const setting = await startSetting();
t.teardown(() => setting.stop());

t.test('signing in and out', (t) => sessionSuite(t, setting));
t.test('scanning', (t) => scanSuite(t, setting));
t.test('the history', (t) => historySuite(t, setting));
t.test('API keys', (t) => keySuite(t, setting));
t.test('billing', (t) => billingSuite(t, setting));
t.test('the account', (t) => accountSuite(t, setting));
