// The stream of events: one for this page, as long as somebody looks at it.

import { query } from "./ask.js";
import { notice } from "./draw.js";

const KINDS = ["application", "gone", "applicationSet", "applicationSetGone", "operation", "reset"];
// How long until somebody is told that nothing comes.
const SILENT_AFTER = 3000;

const readers = new Set();
let stream = null;
let last = null;
let silence = null;

// Tells `reader` of whatever happens: reader(kind, data). After an interruption in which something may have been missed the
// kind is `reset`. Returns what ends it.
export function follow(reader) {
  readers.add(reader);
  open();
  return () => {
    readers.delete(reader);
    if (readers.size === 0) close();
  };
}

function tell(kind, data) {
  [...readers].forEach((reader) => reader(kind, data));
}

function open() {
  if (stream || document.hidden || readers.size === 0) return;
  stream = new EventSource(query("/api/v1/events", { lastEventId: last }));
  for (const kind of KINDS) {
    stream.addEventListener(kind, (event) => {
      last = event.lastEventId || last;
      tell(kind, JSON.parse(event.data)[kind]);
    });
  }
  stream.addEventListener("open", () => {
    clearTimeout(silence);
    silence = null;
    notice(null);
    // What was missed is told, unless there was nothing to go on from: then something may have happened before it was open.
    if (!last) tell("reset", {});
  });
  stream.addEventListener("error", () => {
    silence ??= setTimeout(() => notice("There is no connection to the service; what is shown may be old. It is tried again."), SILENT_AFTER);
    // Where the service has refused it, the browser does not try again by itself: the session may be over, or all places
    // may be taken.
    if (stream?.readyState === EventSource.CLOSED) {
      stream = null;
      setTimeout(open, SILENT_AFTER);
      tell("reset", {});
    }
  });
}

export function close() {
  stream?.close();
  stream = null;
  clearTimeout(silence);
  silence = null;
}

// A page that nobody looks at takes no place among those who listen.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
  } else {
    open();
  }
});
