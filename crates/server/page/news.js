// The stream of events: one for this page, as long as somebody looks at it.

import { hasEnded, query } from "./ask.js";
import { notice } from "./draw.js";

const KINDS = ["application", "gone", "applicationSet", "applicationSetGone", "plan", "operation", "reset"];
// How long until somebody is told that nothing comes.
const SILENT_AFTER = 3000;

const readers = new Set();
let stream = null;
let last = null;
let silence = null;
// Nothing comes, and that is told; and whether the service has said no, rather than nothing.
let [isSilent, isRefused] = [false, false];

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
    isSilent = false;
    notice(null);
    // What was missed is told, unless there was nothing to go on from: then something may have happened before it was open.
    if (!last) tell("reset", {});
  });
  stream.addEventListener("error", async () => {
    isRefused = stream?.readyState === EventSource.CLOSED;
    // Where the service has refused it, the browser does not try again by itself: the session may be over, which is no silence,
    // or all places may be taken.
    if (isRefused) {
      stream = null;
      setTimeout(open, SILENT_AFTER);
      tell("reset", {});
      if (await hasEnded().catch(() => false) || stream || readers.size === 0) return;
    }
    if (isSilent) tellSilence();
    else silence ??= setTimeout(tellSilence, SILENT_AFTER);
  });
}

// Where it says no, the lists are read again each time it is asked.
function tellSilence() {
  isSilent = true;
  notice(isRefused ? "The service answers, and tells of no news by itself now, as when as many listen as may. What is shown is read again every few seconds."
    : "There is no connection to the service; what is shown may be old. It is tried again.");
}

export function close() {
  stream?.close();
  stream = null;
  clearTimeout(silence);
  [silence, isSilent] = [null, false];
}

// A page that nobody looks at takes no place among those who listen.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
  } else {
    open();
  }
});
