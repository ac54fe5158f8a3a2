// Event stream, shared by all views and open while the page is visible.

import { hasSessionEnded, query } from "./api.js";
import { notice } from "./dom.js";

const KINDS = ["application", "applicationRemoved", "applicationSet", "applicationSetRemoved", "plan", "operation", "reset"];
// Time without a connection before the notice appears, in milliseconds.
const DISCONNECTED_AFTER = 3000;

const subscribers = new Set();
let stream = null;
let lastEventId = null;
let disconnectTimer = null;
// `isDisconnected` is true while the notice is visible. `isRefused` is true if the service is reachable but
// rejected the stream.
let [isDisconnected, isRefused] = [false, false];

// Calls subscriber(kind, data) for each event. The kind is `reset` if events may have been missed. Returns a function that ends the
// subscription.
export function subscribe(subscriber) {
  subscribers.add(subscriber);
  openStream();
  return () => {
    subscribers.delete(subscriber);
    if (subscribers.size === 0) closeStream();
  };
}

function notifySubscribers(kind, data) {
  [...subscribers].forEach((subscriber) => subscriber(kind, data));
}

function openStream() {
  if (stream || document.hidden || subscribers.size === 0) return;
  stream = new EventSource(query("/api/v1/events", { lastEventId }));
  for (const kind of KINDS) {
    stream.addEventListener(kind, (event) => {
      lastEventId = event.lastEventId || lastEventId;
      notifySubscribers(kind, JSON.parse(event.data)[kind]);
    });
  }
  stream.addEventListener("open", () => {
    clearTimeout(disconnectTimer);
    disconnectTimer = null;
    isDisconnected = false;
    notice(null);
    // The service sends missed events after a reconnection. Without a last event ID, the service can't send
    // missed events, so changes may have been missed.
    if (!lastEventId) notifySubscribers("reset", {});
  });
  stream.addEventListener("error", async () => {
    isRefused = stream?.readyState === EventSource.CLOSED;
    // The browser does not reconnect after a rejection. Either the session has ended, which needs no notice,
    // or the maximum number of streams is reached.
    if (isRefused) {
      stream = null;
      setTimeout(openStream, DISCONNECTED_AFTER);
      notifySubscribers("reset", {});
      if (await hasSessionEnded().catch(() => false) || stream || subscribers.size === 0) return;
    }
    if (isDisconnected) showDisconnected();
    else disconnectTimer ??= setTimeout(showDisconnected, DISCONNECTED_AFTER);
  });
}

// While the service rejects the stream, each retry sends a `reset`, which reloads the lists.
function showDisconnected() {
  isDisconnected = true;
  notice(isRefused ? "Live updates are unavailable, for example because too many event streams are open. The page reloads its data every few seconds."
    : "No connection to the service; the data may be out of date. Reconnecting.");
}

export function closeStream() {
  stream?.close();
  stream = null;
  clearTimeout(disconnectTimer);
  [disconnectTimer, isDisconnected] = [null, false];
}

// A hidden page closes its event stream, because the number of streams is limited.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    closeStream();
  } else {
    openStream();
  }
});
