// What ICAP's answers are made of: the tag of engine and signatures, and the page in the place of what is blocked.
import t from 'tap';
import { BLOCK_PAGE, blockedHeaders, blockedResponse, tagOf } from '../../src/icap/answers.js';

t.test('the tag changes with the engine and its signatures, and has the length that RFC 3507 allows', async (t) => {
  const engine = { description: 'clamav/1.4.6; signatures=daily:27000', identity: null };
  const tags = [
    tagOf(null),
    tagOf(engine),
    tagOf({ ...engine, description: 'clamav/1.4.6; signatures=daily:27001' }),
    tagOf({ ...engine, identity: 'a' }),
  ];
  t.equal(new Set(tags).size, tags.length);
  t.equal(tagOf({ ...engine }), tagOf(engine));
  for (const tag of tags) t.match(tag, /^"[0-9a-f]{30}"$/);
});

t.test('names that a client has chosen can not break out of a header or the page', async (t) => {
  const name = 'a"><script>\r\nX-Evil: 1;\u{1f600}';
  const blocked = { kind: 'infected', reason: name, filename: name } as const;
  const { header, body } = blockedResponse(BLOCK_PAGE, blocked, '{{title}}');
  t.notMatch(body.toString(), '<script>');
  t.match(body.toString(), '&lt;script&gt;');
  t.match(body.toString(), 'Request: {{title}}', 'what is filled in is not looked at again');
  t.match(header.toString(), `Content-Length: ${body.length}\r\n`);
  for (const line of blockedHeaders(blocked).join('\r\n').split('\r\n')) t.notMatch(line, /^X-Evil/);
});
