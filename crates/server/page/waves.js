// Waves of an operation or a plan, as a picture for download.

import { svg } from "./dom.js";
import { truncate } from "./svg-export.js";
import { formatObjectName, getSymbol, getTone } from "./format.js";

// Sizes in pixels.
const WIDTH = 210;
const GAP = 14;
const LINE_HEIGHT = 17;
const HEADER_HEIGHT = 66;
const BAR_HEIGHT = 64;
// Maximum number of columns per line of the picture.
const COLUMNS_MAX = 6;
// Maximum number of objects per wave that are listed by name.
const OBJECTS_MAX = 30;
// Maximum length of a text in characters.
const TEXT_LENGTH = 28;

// Returns the names and states of a wave's objects. `getState` returns the state or planned action of a task.
export function describeObjects(tasks, getState) {
  return tasks.map((task) => ({ name: `${task.hook ? "hook " : ""}${formatObjectName(task)}`, state: getState(task) }));
}

// Draws waves. Each wave has a phase, a number and objects. Optionally, it has a state, a text, and the shares of its objects
// that are applied, finished, failed or done.
export function drawWavesPicture({ title, text, waves }) {
  const rows = [];
  for (let start = 0; start < waves.length; start += COLUMNS_MAX) rows.push(waves.slice(start, start + COLUMNS_MAX));
  const heights = rows.map((row) => Math.max(...row.map(computeHeight)));
  const width = GAP + Math.min(COLUMNS_MAX, Math.max(waves.length, 2)) * (WIDTH + GAP);
  const height = HEADER_HEIGHT + heights.reduce((sum, rowHeight) => sum + rowHeight + GAP, 0);
  const picture = svg("svg.waves-picture", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${text}` },
    svg("title", null, title), svg("desc", null, text),
    svg("text.title", { x: GAP, y: 28 }, truncate(title, Math.floor(width / 10))), svg("text.quiet", { x: GAP, y: 48 }, truncate(text, Math.floor(width / 7))));
  let y = HEADER_HEIGHT;
  rows.forEach((row, index) => {
    row.forEach((wave, column) => drawWave(picture, wave, { x: GAP + column * (WIDTH + GAP), y, height: heights[index] }));
    y += heights[index] + GAP;
  });
  return picture;
}

function computeHeight(wave) {
  const lines = 2 + (wave.state ? 1 : 0) + (wave.text ? 1 : 0) + Math.min(wave.objects.length, OBJECTS_MAX) + (wave.objects.length > OBJECTS_MAX ? 1 : 0);
  return 14 + lines * LINE_HEIGHT + (wave.shares ? BAR_HEIGHT + 12 : 0);
}

function drawWave(picture, wave, { x, y, height }) {
  const group = svg("g", null, svg("rect.card", { x, y, width: WIDTH, height, rx: 8 }));
  let bottom = y + 8;
  if (wave.shares) {
    const box = { x: x + 10, width: WIDTH - 20 };
    group.append(svg("rect.empty", { ...box, y: bottom, height: BAR_HEIGHT, rx: 4 }));
    for (const [className, share] of wave.shares) {
      const barHeight = Math.round(BAR_HEIGHT * Math.min(1, Math.max(0, share)));
      if (barHeight > 0) group.append(svg(`rect.${className}`, { ...box, y: bottom + BAR_HEIGHT - barHeight, height: barHeight }));
    }
    bottom += BAR_HEIGHT + 10;
  }
  const addLine = (text, className = "", title = text) => {
    bottom += LINE_HEIGHT;
    group.append(svg(`text${className}`, { x: x + 10, y: bottom - 3 }, truncate(text, TEXT_LENGTH), svg("title", null, title)));
  };
  addLine(wave.phase, ".strong");
  addLine(`wave ${wave.wave}`);
  if (wave.state) addLine(`${getSymbol(wave.state)} ${wave.state}`);
  if (wave.text) addLine(wave.text, ".quiet");
  for (const object of wave.objects.slice(0, OBJECTS_MAX)) {
    const className = getTone(object.state);
    group.append(svg(`rect.${className}`, { x: x + 10, y: bottom + 3, width: 3, height: LINE_HEIGHT - 6 }));
    bottom += LINE_HEIGHT;
    group.append(svg("text", { x: x + 18, y: bottom - 3 }, truncate(`${getSymbol(object.state)} ${object.name}`, TEXT_LENGTH), svg("title", null, `${object.name}: ${object.state}`)));
  }
  if (wave.objects.length > OBJECTS_MAX) addLine(`and ${wave.objects.length - OBJECTS_MAX} more`, ".quiet");
  picture.append(group);
}
