// Every page of the dashboard in a real browser, in both schemes and from phone to wide screen. What is done on the pages is in dashboard.test.ts, which runs beside this.
import t from 'tap';
import { awaySuite } from './away-suite.js';
import { pageSuite } from './page-suite.js';
import { plainSuite } from './plain-suite.js';
import { robustSuite } from './robust-suite.js';
import { startSetting } from './setting.js';

const setting = await startSetting();
t.teardown(() => setting.stop());

t.test('every page', (t) => pageSuite(t, setting));
t.test('a server as it comes', (t) => plainSuite(t, setting));
t.test('what goes wrong around a page', (t) => robustSuite(t, setting));
t.test('a server that is away', async (t) => {
  await setting.browser.closePersons();
  await awaySuite(t, setting);
});
