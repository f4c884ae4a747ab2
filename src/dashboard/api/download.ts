// A file that the browser downloads as it is streamed. The browser says nothing of an answer that is none, so the service is asked for something else first.
import { ask } from './client.ts';
import { User } from './shapes.ts';

/** Rejects with Problem or SessionEnded. */
export async function download(path: string, name: string): Promise<void> {
  await ask({ path: '/web/users/me', shape: User });
  const link = document.createElement('a');
  link.href = path;
  link.download = name;
  link.click();
}
