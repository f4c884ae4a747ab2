// Lines: the oldest first, and what has left points to nothing.
import t from 'tap';
import { type InLine, Line } from '../../src/waiting/line.js';

interface Thing extends InLine<Thing> {
  readonly name: string;
}

function thing(name: string): Thing {
  return { name, before: null, behind: null };
}

t.test('a line has the oldest first, and lets any of its things go', async (t) => {
  const line = new Line<Thing>();
  const things = ['a', 'b', 'c', 'd', 'e'].map(thing);
  const names = (): string => {
    let text = '';
    for (let each = line.first; each !== null; each = each.behind) text += each.name;
    return text;
  };
  for (const each of things) line.add(each);
  t.equal(names(), 'abcde');
  const expected = { c: 'abde', a: 'bde', e: 'bd', b: 'd', d: '' };
  for (const [name, left] of Object.entries(expected)) {
    const [one = thing('')] = things.filter((each) => each.name === name);
    t.ok(line.has(one));
    t.equal(line.remove(one), true);
    t.equal(names(), left);
    t.equal(line.size, left.length);
    t.notOk(line.has(one));
    t.equal(line.remove(one), false, 'it has gone already');
    t.strictSame([one.before, one.behind], [null, null]);
  }
});

t.test('each thing is looked at once, but what another look takes out, and what comes meanwhile', async (t) => {
  const line = new Line<Thing>();
  const [a, b, c, d, late] = [thing('a'), thing('b'), thing('c'), thing('d'), thing('late')];
  for (const one of [a, b, c, d]) line.add(one);
  const looked: string[] = [];
  line.each((one) => {
    looked.push(one.name);
    if (one === a) {
      line.remove(a);
      line.remove(b);
      line.add(late);
    }
  });
  t.strictSame(looked, ['a', 'c', 'd']);
  t.equal(line.size, 3);
});

t.test('what has left may come again, behind the others or before them', async (t) => {
  const line = new Line<Thing>();
  const [one, other] = [thing('one'), thing('other')];
  line.add(one);
  line.add(other);
  line.remove(one);
  line.add(one);
  t.equal(line.first, other);
  t.equal(other.behind, one);
  t.equal(line.size, 2);
  line.remove(one);
  line.addFirst(one);
  t.equal(line.first, one);
  t.equal(one.behind, other);
  t.equal(other.before, one);
  line.remove(other);
  line.remove(one);
  line.addFirst(one);
  line.add(other);
  t.equal(line.first, one);
  t.equal(one.behind, other);
  t.equal(line.size, 2);
});
