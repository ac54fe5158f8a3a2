// The waves of an operation or of a plan as columns, from the first to the last, as a picture of its own.

import { svg } from "./draw.js";
import { cut } from "./picture.js";
import { objectName, sign, tone } from "./words.js";

// In pixels.
const WIDTH = 210;
const GAP = 14;
const LINE = 17;
const TOP = 66;
const BAR = 64;
// So many columns are beside each other; more begin another row.
const COLUMNS = 6;
// So many objects of a wave are named.
const OBJECTS = 30;
// So many letters fit.
const LETTERS = 28;

// The objects of a wave as they are named in a picture: `stateOf` says how one stands, or what is to be done with it.
export function objectsOf(tasks, stateOf) {
  return tasks.map((task) => ({ name: `${task.hook ? "hook " : ""}${objectName(task)}`, state: stateOf(task) }));
}

// Each of `waves` has a phase, a number, its objects, and may have a state, words about it, and which share of it is written,
// passed over or well.
export function wavesPicture({ title, words, waves }) {
  const rows = [];
  for (let at = 0; at < waves.length; at += COLUMNS) rows.push(waves.slice(at, at + COLUMNS));
  const heights = rows.map((row) => Math.max(...row.map(heightOf)));
  const width = GAP + Math.min(COLUMNS, Math.max(waves.length, 2)) * (WIDTH + GAP);
  const height = TOP + heights.reduce((sum, one) => sum + one + GAP, 0);
  const picture = svg("svg.waves-picture", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${words}` },
    svg("title", null, title), svg("desc", null, words),
    svg("text.title", { x: GAP, y: 28 }, cut(title, Math.floor(width / 10))), svg("text.quiet", { x: GAP, y: 48 }, cut(words, Math.floor(width / 7))));
  let y = TOP;
  rows.forEach((row, index) => {
    row.forEach((wave, column) => drawWave(picture, wave, { x: GAP + column * (WIDTH + GAP), y, height: heights[index] }));
    y += heights[index] + GAP;
  });
  return picture;
}

function heightOf(wave) {
  const lines = 2 + (wave.state ? 1 : 0) + (wave.words ? 1 : 0) + Math.min(wave.objects.length, OBJECTS) + (wave.objects.length > OBJECTS ? 1 : 0);
  return 14 + lines * LINE + (wave.shares ? BAR + 12 : 0);
}

function drawWave(picture, wave, { x, y, height }) {
  const group = svg("g", null, svg("rect.card", { x, y, width: WIDTH, height, rx: 8 }));
  let at = y + 8;
  if (wave.shares) {
    const box = { x: x + 10, width: WIDTH - 20 };
    group.append(svg("rect.empty", { ...box, y: at, height: BAR, rx: 4 }));
    for (const [look, share] of wave.shares) {
      const tall = Math.round(BAR * Math.min(1, Math.max(0, share)));
      if (tall > 0) group.append(svg(`rect.${look}`, { ...box, y: at + BAR - tall, height: tall }));
    }
    at += BAR + 10;
  }
  const write = (text, look = "", whole = text) => {
    at += LINE;
    group.append(svg(`text${look}`, { x: x + 10, y: at - 3 }, cut(text, LETTERS), svg("title", null, whole)));
  };
  write(wave.phase, ".strong");
  write(`wave ${wave.wave}`);
  if (wave.state) write(`${sign(wave.state)} ${wave.state}`);
  if (wave.words) write(wave.words, ".quiet");
  for (const one of wave.objects.slice(0, OBJECTS)) {
    const look = tone(one.state);
    group.append(svg(`rect.${look}`, { x: x + 10, y: at + 3, width: 3, height: LINE - 6 }));
    at += LINE;
    group.append(svg("text", { x: x + 18, y: at - 3 }, cut(`${sign(one.state)} ${one.name}`, LETTERS), svg("title", null, `${one.name}: ${one.state}`)));
  }
  if (wave.objects.length > OBJECTS) write(`and ${wave.objects.length - OBJECTS} more`, ".quiet");
  picture.append(group);
}
