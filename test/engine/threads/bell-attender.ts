// A thread of the tests that ends while it attends a bell.
import { startBell } from '../../../src/engine/threads/bell.js';

startBell(() => undefined).attend();
