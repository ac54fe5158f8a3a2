// What hooks write while they run: a log for each, which follows its last line as long as somebody looks at that.

import { at } from "./ask.js";
import { fill, h } from "./draw.js";
import { clock, objectName } from "./words.js";

// So many lines of a hook are kept on the page.
const LINES = 500;
// Lines that come together are shown together, in milliseconds.
const SHOW_EVERY = 250;
const KINDS = ["line", "left-out", "note"];
// How long until it is tried again where the service has no place for us.
const AGAIN_AFTER = 5000;
// How long after the last hook has ended it is listened for its last lines.
const READ_ON_FOR = 5000;
// More lines at once are not read out to those who hear the page.
const SAID_MAX = 10;

// Follows the hooks of an operation into `place`. Returns { run, end }: `run` is told whether any of its hooks runs now.
export function followOutput(id, place) {
  const hooks = new Map();
  let [stream, waiting, timer, again, closing] = [null, [], null, null, null];
  let [isWanted, isOver] = [false, false];

  function open() {
    if (stream || !isWanted || isOver || document.hidden) return;
    // What was written before comes again.
    hooks.forEach((hook) => { hook.isFresh = true; });
    stream = new EventSource(`${at.operation(id)}/output`);
    KINDS.forEach((kind) => stream.addEventListener(kind, (event) => take(JSON.parse(event.data))));
    stream.addEventListener("end", () => {
      isOver = true;
      close();
      show();
    });
    stream.addEventListener("error", () => {
      // The browser would begin anew by itself, and all lines would come twice.
      close();
      again ??= setTimeout(() => {
        again = null;
        open();
      }, AGAIN_AFTER);
    });
  }

  function close() {
    stream?.close();
    stream = null;
  }

  function take(told) {
    waiting.push(told);
    timer ??= setTimeout(show, SHOW_EVERY);
  }

  function show() {
    clearTimeout(timer);
    timer = null;
    const told = waiting;
    waiting = [];
    const touched = new Set();
    for (const one of told) {
      const hook = hookOf(one.hook ? objectName(one.hook) : null);
      if (hook.isFresh) {
        fill(hook.log);
        [hook.isFresh, hook.left] = [false, 0];
      }
      if (!touched.has(hook)) hook.log.setAttribute("aria-live", told.length > SAID_MAX ? "off" : "polite");
      hook.isAtEnd ??= hook.log.scrollTop + hook.log.clientHeight >= hook.log.scrollHeight - 4;
      hook.log.append(lineOf(one, hook));
      touched.add(hook);
    }
    for (const hook of touched) {
      while (hook.log.childElementCount > LINES) {
        hook.log.firstElementChild.remove();
        hook.left += 1;
      }
      hook.about.textContent = hook.left > 0 ? `The last ${LINES} lines.` : "";
      // Who reads something above is not taken away from it.
      if (hook.isAtEnd) hook.log.scrollTop = hook.log.scrollHeight;
      hook.isAtEnd = null;
    }
  }

  function hookOf(name) {
    const known = hooks.get(name);
    if (known) return known;
    const title = name ? `Output of hook ${name}` : "Output of hooks";
    const log = h("div.output", { role: "log", "aria-live": "polite", "aria-relevant": "additions", "aria-label": title, tabindex: "0" });
    const about = h("p.quiet");
    const hook = { log, about, left: 0, isFresh: false, isAtEnd: null, sources: new Set() };
    if (hooks.size === 0) {
      place.setAttribute("aria-labelledby", "output");
      fill(place, h("h2", { id: "output" }, "What hooks write"));
    }
    place.append(h("details", { open: true, "data-hook": name ?? "" }, h("summary", null, title), about, log));
    hooks.set(name, hook);
    return hook;
  }

  function onVisible() {
    if (document.hidden) close();
    else open();
  }
  document.addEventListener("visibilitychange", onVisible);

  return {
    run(isRunning) {
      isWanted = isRunning;
      if (isRunning) {
        clearTimeout(closing);
        closing = null;
        open();
      } else if (stream) {
        closing ??= setTimeout(close, READ_ON_FOR);
      }
    },
    end() {
      document.removeEventListener("visibilitychange", onVisible);
      clearTimeout(timer);
      clearTimeout(again);
      clearTimeout(closing);
      isOver = true;
      close();
    },
  };
}

// One line, as text; with pod and container once a hook has several.
function lineOf(told, hook) {
  if (told.pod) hook.sources.add(`${told.pod}, ${told.container}`);
  const source = told.pod && hook.sources.size > 1 ? h("small", null, `${told.pod}, ${told.container}: `) : null;
  const time = told.at ? h("time", { datetime: told.at, title: told.at }, clock(told.at)) : null;
  return h(`div.${told.kind === "line" ? "said" : "aside"}`, null, time, " ", source, told.text);
}
