// Texts and symbols for API values. A state is never shown by its color alone.

import { h } from "./dom.js";
import { truncate } from "./svg-export.js";

// Symbol and tone of each state. Other states have no symbol of their own.
const STATES = {
  Synced: ["✓", "good"], OutOfSync: ["≠", "warn"],
  Healthy: ["✓", "good"], Progressing: ["…", "busy"], Degraded: ["✕", "bad"], Missing: ["○", "warn"],
  Suspended: ["‖", "wait"], Unknown: ["?", "dull"],
  Succeeded: ["✓", "good"], Failed: ["✕", "bad"], Error: ["✕", "bad"], Running: ["…", "busy"],
  Terminating: ["■", "wait"], Paused: ["‖", "wait"],
  Waiting: ["○", "dull"], Pending: ["◔", "wait"], Held: ["‖", "wait"], Passed: ["✓", "good"], Skipped: ["»", "dull"],
  "Marked as done": ["✓", "warn"], AssumedHealthy: ["?", "warn"],
  Stopped: ["■", "warn"], Rolling: ["…", "busy"], RollingBack: ["↶", "busy"], RolledBack: ["↶", "warn"],
  AlreadyDone: ["✓", "good"], Empty: ["○", "dull"], Unfinished: ["■", "warn"], NotReached: ["○", "dull"],
  Deleting: ["…", "busy"], Deleted: ["✓", "good"], Released: ["»", "good"],
  Completed: ["✓", "good"], Superseded: ["»", "dull"], Terminated: ["■", "warn"],
  Applying: ["…", "busy"], AwaitingHealth: ["◔", "wait"], AwaitingGone: ["◔", "wait"], Pruning: ["…", "busy"],
  Clearing: ["…", "busy"], Settling: ["◔", "wait"], Verifying: ["…", "busy"], DryRun: ["…", "busy"],
  AwaitingRetry: ["‖", "wait"], "Not reached": ["○", "dull"], "Nothing to do": ["=", "dull"], "Not needed": ["○", "dull"],
  create: ["+", "good"], apply: ["~", "busy"], replace: ["↻", "warn"], prune: ["−", "bad"],
  "prune-skipped": ["·", "dull"], unchanged: ["=", "dull"],
  waiting: ["‖", "wait"], stored: ["○", "busy"], replaced: ["»", "dull"], withdrawn: ["■", "dull"], executed: ["✓", "good"],
  modified: ["~", "warn"], added: ["+", "good"], extra: ["−", "bad"], same: ["=", "dull"],
};

// Returns the state of a wave. A skipped wave that no user has skipped is not needed, was not reached, or has
// nothing to do.
export function getWaveState({ phase, state, skipped, done, tasks }) {
  if (state !== "Skipped" || skipped > 0) return state;
  if (phase === "SyncFail") return "Not needed";
  return done < tasks ? "Not reached" : "Nothing to do";
}

// Returns an object's state in an operation, including overrides by users. There are no events for the
// completion of objects in the last wave, so their state follows from the wave's state.
export function getObjectState({ hookPhase, override }, wave) {
  if (hookPhase === "Running") return wave?.state === "Passed" ? "Succeeded" : hookPhase;
  return { Skip: "Skipped", MarkDone: "Marked as done" }[override?.action] ?? hookPhase;
}

// Describes an object's result: a hook's state, or the sync result followed by a later failure.
export function describeResult(result, wave) {
  const { status, hookType, hookPhase } = result;
  if (["Skipped", "MarkedDone"].includes(status)) return { Skipped: "Skipped", MarkedDone: "Marked as done" }[status];
  if (hookType) return getObjectState(result, wave) ?? status ?? "–";
  const isBad = ["Failed", "Error"].includes(hookPhase) && status !== "SyncFailed";
  return [status, isBad ? hookPhase : null].filter(Boolean).join(", ") || "–";
}

export function getTone(state) {
  return STATES[state]?.[1] ?? "dull";
}

export function getSymbol(state) {
  return STATES[state]?.[0] ?? "·";
}

// Renders a state with its symbol. `label` describes the subject of the state for screen readers.
export function renderBadge(state, label) {
  if (!state) return null;
  return h(`span.badge.${getTone(state)}`, null,
    h("span.sign", { "aria-hidden": "true" }, getSymbol(state)),
    label ? h("span.unseen", null, `${label}: `) : null, state);
}

const TIME_FORMAT = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
  timeZoneName: "short",
});
const CLOCK_FORMAT = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// Formats a time in the reader's time zone.
export function formatTime(at) {
  if (!at) return "–";
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : TIME_FORMAT.format(date);
}

export function formatClock(at) {
  return CLOCK_FORMAT.format(new Date(at));
}

// Messages contain the time of the next attempt in UTC, as in Argo CD. The page shows the reader's local time
// instead.
const MINUTE_FORMAT = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const RETRY_TIME = /(Retrying attempt #\d+ at )(\d{1,2}):(\d{2})(AM|PM)/;
export function localizeRetryTime(text, now = new Date()) {
  return text?.replace(RETRY_TIME, (_, prefix, hour, minute, meridiem) => {
    const at = new Date(now);
    at.setUTCHours((Number(hour) % 12) + (meridiem === "PM" ? 12 : 0), Number(minute), 0, 0);
    // The attempt is in the future, at most a day ahead.
    if (now - at > 12 * 3_600_000) at.setUTCDate(at.getUTCDate() + 1);
    return prefix + MINUTE_FORMAT.format(at);
  });
}

export function renderTime(at) {
  if (!at) return h("span", null, "–");
  return h("time", { datetime: at, title: at }, formatTime(at));
}

// Formats a duration, such as 1.4 s, 3 min 20 s, 2 h 5 min, or 3 d 4 h.
export function formatDuration(milliseconds) {
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let rest = Math.round(seconds);
  const first = parts.findIndex(([, size]) => rest >= size);
  return parts.slice(first, first + 2).map(([name, size]) => {
    const number = Math.floor(rest / size);
    rest -= number * size;
    return number > 0 ? `${number} ${name}` : "";
  }).filter(Boolean).join(" ");
}

export function formatElapsed(from, to) {
  return formatDuration(new Date(to ?? Date.now()) - new Date(from));
}

export function formatCount(number, singular, plural) {
  return `${Number(number).toLocaleString()} ${Number(number) === 1 ? singular : plural ?? `${singular}s`}`;
}

// Shortens commits to their first digits, and keeps other revisions. The revisions of several sources are
// separated by commas.
export function shortenRevision(revision) {
  const shortenCommit = (text) => (/^[0-9a-f]{40}$/.test(text) ? text.slice(0, 7) : text);
  return revision ? revision.split(",").map(shortenCommit).join(", ") : "–";
}

// Shortens a plan's hash to the first digits.
export function shortenHash(hash) {
  return (hash ?? "").slice(0, 12);
}

// Renders an approval with the user name, the reason and the time.
export function renderApproval({ by, reason, at }) {
  return h("div", null, by, reason ? [": ", renderCollapsible(reason)] : null, " ", renderTime(at));
}

// Default length above which a text is collapsed.
const COLLAPSED_LENGTH = 200;

// Renders a text of any length. A long text is collapsed to its beginning and can be expanded.
export function renderCollapsible(text, maxLength = COLLAPSED_LENGTH) {
  if (typeof text !== "string" || text.length <= maxLength) return text;
  return h("details.folded", null, h("summary", null, h("span.beginning", null, truncate(text, maxLength), " ", h("u", null, "More")), h("u.less", null, "Less")), h("div", null, text));
}

// Length above which a reason in a list is collapsed.
const REASON_LENGTH = 60;

// Renders the requester and the reason for use in a list.
export function renderRequester(requester, reason) {
  return [requester ?? "–", reason ? h("small", null, ": ", renderCollapsible(reason, REASON_LENGTH)) : null];
}

// Default maximum number of listed names.
const NAMES_MAX = 20;

// Joins the first names of a list, and adds the number of omitted names.
export function joinNames(names, maxCount = NAMES_MAX) {
  return [...names.slice(0, maxCount), ...(names.length > maxCount ? [`and ${names.length - maxCount} more`] : [])].join(", ");
}

// Renders a finding with its location and object, as on the command line.
export function renderFinding({ severity, origin, object, message }) {
  return h("li", null, severity ? `${severity}: ` : null, origin ? [h("code", null, origin), ": "] : null, object ? [h("strong", null, object), ": "] : null, message);
}

// Returns a key that is unique among the objects of an application.
export const getObjectKey = (object) => `${object.group ?? ""}/${object.kind}/${object.namespace ?? ""}/${object.name}`;

// Formats an object's name.
export function formatObjectName(object) {
  return `${object.kind} ${object.namespace ? `${object.namespace}/` : ""}${object.name}`;
}

// Renders a description list. Terms without a value are omitted.
export function renderTerms(pairs) {
  const visible = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0));
  return h("dl.terms", null, visible.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

// Describes a deletion's order.
export function describeOrder({ order }) {
  return { AllAtOnce: "all at once", Reverse: "steps in reverse order", Custom: "custom steps", Orphan: "nothing is deleted; all Applications are released" }[order] ?? null;
}

// Returns true if a deletion removes all Applications at once, so that it cannot be paused, skipped or
// terminated.
export function isAtOnce(deletion) {
  return ["AllAtOnce", "Orphan"].includes(deletion?.order);
}
