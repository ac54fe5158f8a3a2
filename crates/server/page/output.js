// Live output of hooks, with a separate log for each hook.

import { apiPath } from "./api.js";
import { fill, h } from "./dom.js";
import { formatClock, formatObjectName } from "./format.js";

// Maximum number of displayed lines per hook.
const LINES_MAX = 500;
// Interval between updates of the display, in milliseconds.
const SHOW_INTERVAL = 250;
const KINDS = ["line", "omitted", "note"];
// Delay before the stream is opened again, in milliseconds.
const RETRY_DELAY = 5000;
// Time in milliseconds that the stream stays open after the last hook has ended, so that the last lines arrive.
const CLOSE_DELAY = 5000;
// Maximum number of lines per update that are announced to screen readers.
const ANNOUNCED_MAX = 10;

// Follows the output of an operation's hooks. `setRunning` must be called with true while any hook is
// running.
export function followOutput(id, container) {
  const hooks = new Map();
  let [stream, queue, timer, retryTimer, closeTimer] = [null, [], null, null, null];
  let [hasRunningHooks, isFinished] = [false, false];

  function open() {
    if (stream || !hasRunningHooks || isFinished || document.hidden) return;
    // The service sends earlier lines again.
    hooks.forEach((hook) => { hook.isRestarted = true; });
    stream = new EventSource(`${apiPath.operation(id)}/output`);
    KINDS.forEach((kind) => stream.addEventListener(kind, (event) => enqueue(JSON.parse(event.data))));
    stream.addEventListener("end", () => {
      isFinished = true;
      close();
      show();
    });
    stream.addEventListener("error", () => {
      // The browser would reconnect automatically, and lines would appear twice.
      close();
      retryTimer ??= setTimeout(() => {
        retryTimer = null;
        open();
      }, RETRY_DELAY);
    });
  }

  function close() {
    stream?.close();
    stream = null;
  }

  function enqueue(entry) {
    queue.push(entry);
    timer ??= setTimeout(show, SHOW_INTERVAL);
  }

  function show() {
    clearTimeout(timer);
    timer = null;
    const entries = queue;
    queue = [];
    const changedHooks = new Set();
    for (const entry of entries) {
      const hook = getHook(entry.hook ? formatObjectName(entry.hook) : null);
      if (hook.isRestarted) {
        fill(hook.log);
        [hook.isRestarted, hook.droppedLines] = [false, 0];
      }
      if (!changedHooks.has(hook)) hook.log.setAttribute("aria-live", entries.length > ANNOUNCED_MAX ? "off" : "polite");
      hook.isAtEnd ??= hook.log.scrollTop + hook.log.clientHeight >= hook.log.scrollHeight - 4;
      hook.log.append(renderLine(entry, hook));
      changedHooks.add(hook);
    }
    for (const hook of changedHooks) {
      while (hook.log.childElementCount > LINES_MAX) {
        hook.log.firstElementChild.remove();
        hook.droppedLines += 1;
      }
      hook.note.textContent = hook.droppedLines > 0 ? `Last ${LINES_MAX} lines.` : "";
      // If the user has scrolled up, the scroll position is kept.
      if (hook.isAtEnd) hook.log.scrollTop = hook.log.scrollHeight;
      hook.isAtEnd = null;
    }
  }

  function getHook(name) {
    const existing = hooks.get(name);
    if (existing) return existing;
    const title = name ? `Output of hook ${name}` : "Output of hooks";
    const log = h("div.output", { role: "log", "aria-live": "polite", "aria-relevant": "additions", "aria-label": title, tabindex: "0" });
    const note = h("p.quiet");
    const hook = { log, note, droppedLines: 0, isRestarted: false, isAtEnd: null, sources: new Set() };
    if (hooks.size === 0) {
      container.setAttribute("aria-labelledby", "output");
      fill(container, h("h2", { id: "output" }, "Hook output"));
    }
    container.append(h("details", { open: true, "data-hook": name ?? "" }, h("summary", null, title), note, log));
    hooks.set(name, hook);
    return hook;
  }

  function onVisible() {
    if (document.hidden) close();
    else open();
  }
  document.addEventListener("visibilitychange", onVisible);

  return {
    setRunning(isRunning) {
      hasRunningHooks = isRunning;
      if (isRunning) {
        clearTimeout(closeTimer);
        closeTimer = null;
        open();
      } else if (stream) {
        closeTimer ??= setTimeout(close, CLOSE_DELAY);
      }
    },
    stop() {
      document.removeEventListener("visibilitychange", onVisible);
      clearTimeout(timer);
      clearTimeout(retryTimer);
      clearTimeout(closeTimer);
      isFinished = true;
      close();
    },
  };
}

// Renders a line as text. If the hook has several pods or containers, the line starts with their names.
function renderLine(entry, hook) {
  if (entry.pod) hook.sources.add(`${entry.pod}, ${entry.container}`);
  const source = entry.pod && hook.sources.size > 1 ? h("small", null, `${entry.pod}, ${entry.container}: `) : null;
  const time = entry.at ? h("time", { datetime: entry.at, title: entry.at }, formatClock(entry.at)) : null;
  return h(`div.${entry.kind === "line" ? "said" : "aside"}`, null, time, " ", source, entry.text);
}
