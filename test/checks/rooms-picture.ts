// Makes docs/images/rooms.svg from the imports: `node dist/test/checks/rooms-picture.js`. A room is a folder of src/ with its files and lines,
// an arrow means that one imports from the other; rooms of one row don't.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const source = join(root, 'src');

/** As docs/architecture.md has them, the ways in first. */
const rows: readonly (readonly string[])[] = [
  ['cli'],
  ['supervisor', 'service'],
  ['clamd', 'operator'],
  ['scan'],
  ['download', 'admission', 'account', 'history', 'billing'],
  ['engine', 'http', 'store'],
  ['config', 'waiting', 'root'],
];

const WIDTH = 1000;
const BOX = { width: 150, height: 52 };
const ROW_HEIGHT = 118;
const MARGIN = 24;

interface Room {
  files: number;
  lines: number;
  /** Rooms that it imports from, with how many files do. */
  readonly imports: Map<string, number>;
}

function roomOf(path: string): string {
  const [first = '', ...rest] = relative(source, path).split('/');
  return rest.length === 0 ? 'root' : first;
}

function readRooms(): Map<string, Room> {
  const rooms = new Map<string, Room>(rows.flat().map((name) => [name, { files: 0, lines: 0, imports: new Map() }]));
  for (const path of readdirSync(source, { recursive: true, encoding: 'utf8' })) {
    const room = rooms.get(roomOf(join(source, path)));
    if (!path.endsWith('.ts') || room === undefined) continue;
    const text = readFileSync(join(source, path), 'utf8');
    room.files += 1;
    room.lines += text.split('\n').length - 1;
    const imported = [...text.matchAll(/(?:from|import\() ?'(\.[^']+)'/g)].map(([, specifier = '']) =>
      roomOf(join(source, dirname(path), specifier)),
    );
    for (const name of new Set(imported)) {
      if (name !== roomOf(join(source, path))) room.imports.set(name, (room.imports.get(name) ?? 0) + 1);
    }
  }
  return rooms;
}

interface Place {
  readonly x: number;
  readonly y: number;
}

function placesOf(): Map<string, Place> {
  const places = new Map<string, Place>();
  rows.forEach((names, row) => {
    const step = WIDTH / (names.length + 1);
    names.forEach((name, index) => {
      places.set(name, { x: step * (index + 1), y: MARGIN + row * ROW_HEIGHT + BOX.height / 2 });
    });
  });
  return places;
}

function arrow(from: Place, to: Place, files: number): string {
  const [top, bottom] = [from.y + BOX.height / 2, to.y - BOX.height / 2 - 4];
  const middle = (top + bottom) / 2;
  const width = Math.min(4, 0.6 + files / 8).toFixed(1);
  return `<path d="M${from.x.toFixed(0)} ${top} C${from.x.toFixed(0)} ${middle} ${to.x.toFixed(0)} ${middle} ${to.x.toFixed(0)} ${bottom}" stroke-width="${width}"/>`;
}

function box(name: string, { files, lines }: Room, { x, y }: Place): string {
  const [left, top] = [(x - BOX.width / 2).toFixed(0), y - BOX.height / 2];
  const title = name === 'root' ? 'src/*.ts' : `${name}/`;
  return [
    `<rect x="${left}" y="${top}" width="${BOX.width}" height="${BOX.height}" rx="8"/>`,
    `<text x="${x.toFixed(0)}" y="${y - 3}" class="name">${title}</text>`,
    `<text x="${x.toFixed(0)}" y="${y + 16}">${files} files, ${lines.toLocaleString('en')} lines</text>`,
  ].join('\n');
}

function picture(): string {
  const rooms = readRooms();
  const places = placesOf();
  const height = 2 * MARGIN + (rows.length - 1) * ROW_HEIGHT + BOX.height;
  const arrows: string[] = [];
  const boxes: string[] = [];
  for (const [name, room] of rooms) {
    const place = places.get(name);
    if (place === undefined) continue;
    boxes.push(box(name, room, place));
    for (const [other, files] of room.imports) {
      const target = places.get(other);
      if (target !== undefined && target.y > place.y) arrows.push(arrow(place, target, files));
    }
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="The rooms of src/ and who imports whom">
<style>
  rect { fill: #f4f7fb; stroke: #2f5d8a; stroke-width: 1.5 }
  path { fill: none; stroke: #6b8299; stroke-opacity: 0.45 }
  text { font: 13px system-ui, sans-serif; fill: #33475b; text-anchor: middle }
  .name { font-weight: 600; font-size: 16px }
</style>
<rect x="0" y="0" width="${WIDTH}" height="${height}" style="fill:#fff;stroke:none"/>
${arrows.join('\n')}
${boxes.join('\n')}
</svg>
`;
}

mkdirSync(join(root, 'docs', 'images'), { recursive: true });
writeFileSync(join(root, 'docs', 'images', 'rooms.svg'), picture());
