// Says how it was to start, or why it doesn't, and ends.
import { openSupervisorChannel } from '../../src/supervisor/channel.js';

const never = new Promise<string>(() => undefined);
try {
  const channel = await openSupervisorChannel(never);
  process.send?.({ start: channel?.start }, () => process.disconnect());
} catch (error) {
  process.send?.({ problem: String(error) }, () => process.disconnect());
}
