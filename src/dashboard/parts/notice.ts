// What is said beside a verdict, as a sentence.
import { texts } from '../texts.ts';

const sentences: Readonly<Record<string, string>> = {
  encrypted: texts.notices.encrypted,
  'raw-content': texts.notices.rawContent,
  truncated: texts.notices.truncated,
};

/** A notice that is newer than this page is shown as it came. */
export function noticeText(notice: string): string {
  return sentences[notice] ?? notice;
}
