// The dashboard in a real browser against a real server: each page's job done as a user does it, and what goes wrong on the way.
import t from 'tap';
import { accountSuite } from './account-suite.js';
import { billingSuite } from './billing-suite.js';
import { historySuite } from './history-suite.js';
import { keySuite } from './key-suite.js';
import { scanSuite } from './scan-suite.js';
import { sessionSuite } from './session-suite.js';
import { startSetting } from './setting.js';
import { webhookSuite } from './webhook-suite.js';

// One server and one browser for all: together they take seconds to come up. The other half is in pages.test.ts and operators.test.ts.
const setting = await startSetting();
t.teardown(() => setting.stop());

const suites: readonly [string, typeof sessionSuite][] = [
  ['signing in and out', sessionSuite],
  ['scanning', scanSuite],
  ['the history', historySuite],
  ['API keys', keySuite],
  ['webhooks', webhookSuite],
  ['billing', billingSuite],
  ['the account', accountSuite],
];
for (const [name, suite] of suites) {
  t.test(name, async (t) => {
    t.teardown(() => setting.browser.closePersons());
    await suite(t, setting);
  });
}
