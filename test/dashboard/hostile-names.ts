// 120 names that have broken pages somewhere: markup, handlers, characters that turn or hide text, templates, formulas, names of any length, and what is no text at all.

/** What a name runs where a page obeys it: the test looks for the mark, and for the dialog. */
const RUN = 'window.hostile=1,alert(1)';

const markup: readonly string[] = [
  `<script>${RUN}</script>`,
  `</title><script>${RUN}</script>`,
  `<img src=x onerror=${RUN}>`,
  `"><img src=x onerror=${RUN}>`,
  `'><svg onload=${RUN}>`,
  `<svg><script>${RUN}</script></svg>`,
  `<iframe srcdoc="<script>parent.hostile=1</script>">`,
  `<iframe src="javascript:${RUN}">`,
  `<a href="javascript:${RUN}">open</a>`,
  `<math><mtext><mglyph><style><img src=x onerror=${RUN}>`,
  '<style>*{display:none}</style>',
  '<style>@import "http://evil.example/a.css";</style>',
  '<link rel=stylesheet href=http://evil.example/a.css>',
  '<base href=http://evil.example/>',
  '<meta http-equiv=refresh content="0;url=http://evil.example/">',
  '<object data=http://evil.example/></object>',
  '<form action=http://evil.example/><button>Sign in</button></form>',
  '<input type=password placeholder=Password>',
  '<plaintext>',
  '<!--',
  '--!><b>bold</b>',
  ']]><b>bold</b>',
  '<template shadowrootmode=open><b>',
  '<h1>Your session has ended</h1>',
];

const handlers: readonly string[] = [
  'onanimationstart',
  'onbeforetoggle',
  'onblur',
  'onclick',
  'onerror',
  'onfocus',
  'onload',
  'onmouseover',
  'onpointerenter',
  'onscroll',
  'ontoggle',
  'ontransitionend',
].map((handler) => `" autofocus tabindex=1 ${handler}=${RUN} x="`);

/** Controls of the bidirectional algorithm: an exe that poses as a png. */
const turned: readonly string[] = [
  0x061c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069,
].map((code) => `invoice${String.fromCodePoint(code)}gnp.exe`);

/** Characters without a width: two names that look the same. */
const hidden: readonly string[] = [0x00ad, 0x180e, 0x200b, 0x2060, 0x2063, 0xfeff, 0xe0041, 0xfff9].map(
  (code) => `pay${String.fromCodePoint(code)}roll.xlsx`,
);

const written: readonly string[] = [
  'تقرير السنة.pdf',
  'דוח שנתי.docx',
  'ܐܒܓܕ.bin',
  'report تقرير 2026 דוח.pdf',
  '〱㊙️龘.txt',
  'İstanbul ıI.txt',
  '👩‍👩‍👧‍👦🏳️‍🌈.zip',
  'می‌خواهم.txt',
];

/** Marks that stand on the letter before them, as high as they like. */
const stacked: readonly string[] = [
  `z${'\u0300\u0316'.repeat(60)}algo.txt`,
  `กิ${'็'.repeat(80)}.txt`,
  `e\u20dd\u20de\u20e0${'\u0489'.repeat(40)}.txt`,
  `${'\u0334'.repeat(100)}first.txt`,
];

const templates: readonly string[] = [
  '{{7*7}}',
  `{{constructor.constructor("${RUN}")()}}`,
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the syntax of others
  '${7*7}',
  '<%= 7*7 %>',
  '#{7*7}',
  '{% include "secret" %}',
  '[[7*7]]',
  '@(7*7)',
  '%s%s%s%n',
  '$(reboot)',
  '`reboot`',
  '{"__proto__":{"hostile":1}}',
];

const formulas: readonly string[] = [
  '=1+1.csv',
  '+1.csv',
  '-1.csv',
  '@SUM(A1).csv',
  '=HYPERLINK("http://evil.example","open")',
  "=cmd|'calc'!A0",
];

const long: readonly string[] = [
  `${'W'.repeat(251)}.bin`,
  `${'😀'.repeat(251)}.zip`,
  `${'\ufdfd'.repeat(251)}.txt`,
  `${'long name '.repeat(25)}.txt`,
  `${'.'.repeat(254)}a`,
  `${'-'.repeat(250)}.tar.gz`,
];

/** The service takes them out of the names of files. */
const controls: readonly string[] = [1, 7, 8, 0x1b, 0x7f, 0x85, 0x9b, 0x0a, 0x0d, 0x09].map(
  (code) => `line${String.fromCodePoint(code)}[2Kbreak.txt`,
);

const noText: readonly string[] = [
  'half \ud83d of one.txt',
  'other half \ude00.txt',
  'turned \ude00\ud83d.txt',
  'nobody \uffff.txt',
  'line\u2028break.txt',
  'paragraph\u2029break.txt',
];

/** What programs have properties or values of that name. */
const words: readonly string[] = ['__proto__', 'constructor', 'toString', 'null', 'undefined', 'NaN', 'true', '0'];

const others: readonly string[] = ['&lt;b&gt;bold&lt;&#47;b&gt;', '&#x3c;script&#x3e;', "' OR 1=1 --", '100%_safe.txt'];

/** Each as it is sent. */
export const HOSTILE: readonly string[] = [
  ...markup,
  ...handlers,
  ...turned,
  ...hidden,
  ...written,
  ...stacked,
  ...templates,
  ...formulas,
  ...long,
  ...controls,
  ...noText,
  ...words,
  ...others,
];

/** What is left of it where text is UTF-8. */
export function asUtf8(name: string): string {
  return name.replace(/\p{Cs}/gu, '\ufffd');
}

/** What is shown of it: characters that turn or hide text are written out. */
const UNSEEN =
  /[\p{Cc}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

export function shownAs(name: string): string {
  return name.replace(UNSEEN, (character) =>
    character === '\n' || character === '\t'
      ? character
      : `[U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
  );
}
