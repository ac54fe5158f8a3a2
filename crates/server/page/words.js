// Words and signs for what the API tells: a state is never shown by its colour alone.

import { h } from "./draw.js";
import { cut } from "./picture.js";

// Sign and tone of each state; what is not known here is shown by its word.
const STATES = {
  Synced: ["✓", "good"], OutOfSync: ["≠", "warn"],
  Healthy: ["✓", "good"], Progressing: ["…", "busy"], Degraded: ["✕", "bad"], Missing: ["○", "warn"],
  Suspended: ["‖", "wait"], Unknown: ["?", "dull"],
  Succeeded: ["✓", "good"], Failed: ["✕", "bad"], Error: ["✕", "bad"], Running: ["…", "busy"],
  Terminating: ["■", "wait"],
  Waiting: ["○", "dull"], Pending: ["◔", "wait"], Held: ["‖", "wait"], Passed: ["✓", "good"], Skipped: ["»", "dull"],
  "Marked as done": ["✓", "warn"], Assumed: ["?", "warn"],
  Stopped: ["■", "warn"], Rolling: ["…", "busy"], RollingBack: ["↶", "busy"], RolledBack: ["↶", "warn"],
  DoneBefore: ["✓", "good"], Empty: ["○", "dull"], Unfinished: ["■", "warn"], NotReached: ["○", "dull"],
  Deleting: ["…", "busy"], Gone: ["✓", "good"], Left: ["»", "dull"], Released: ["»", "good"],
  Completed: ["✓", "good"], Superseded: ["»", "dull"], Terminated: ["■", "warn"],
  Applying: ["…", "busy"], AwaitingHealth: ["◔", "wait"], AwaitingGone: ["◔", "wait"], Pruning: ["…", "busy"],
  Clearing: ["…", "busy"], Settling: ["◔", "wait"], Verifying: ["…", "busy"], DryRun: ["…", "busy"],
  AwaitingRetry: ["‖", "wait"], "Not reached": ["○", "dull"], "Nothing to do": ["=", "dull"], "Not needed": ["○", "dull"],
  create: ["+", "good"], apply: ["~", "busy"], replace: ["↻", "warn"], prune: ["−", "bad"],
  "prune-skipped": ["·", "dull"], unchanged: ["=", "dull"],
  waiting: ["‖", "wait"], kept: ["○", "busy"], replaced: ["»", "dull"], withdrawn: ["■", "dull"], taken: ["✓", "good"],
  modified: ["~", "warn"], added: ["+", "good"], extra: ["−", "bad"], same: ["=", "dull"],
};

// How a wave stands. What nobody has skipped is not told as that.
export function waveState({ phase, state, skipped, done, tasks }) {
  if (state !== "Skipped" || skipped > 0) return state;
  if (phase === "SyncFail") return "Not needed";
  return done < tasks ? "Not reached" : "Nothing to do";
}

// How an object of an operation stands, with what people have decided about it. Nothing says of an object of the last wave that it
// is done: its wave has passed.
export function objectState({ hookPhase, overridden }, wave) {
  if (hookPhase === "Running") return wave?.state === "Passed" ? "Succeeded" : hookPhase;
  return { Skip: "Skipped", MarkDone: "Marked as done" }[overridden?.what] ?? hookPhase;
}

// What has become of an object: a hook has run or failed, anything else was synced, and may have gone wrong then.
export function resultOf(one, wave) {
  const { status, hookType, hookPhase } = one;
  if (["Skipped", "MarkedDone"].includes(status)) return { Skipped: "Skipped", MarkedDone: "Marked as done" }[status];
  if (hookType) return objectState(one, wave) ?? status ?? "–";
  const isBad = ["Failed", "Error"].includes(hookPhase) && status !== "SyncFailed";
  return [status, isBad ? hookPhase : null].filter(Boolean).join(", ") || "–";
}

export function tone(state) {
  return STATES[state]?.[1] ?? "dull";
}

export function sign(state) {
  return STATES[state]?.[0] ?? "·";
}

// A state with its sign and word; `of` says what it is the state of, to those who hear it.
export function badge(state, of) {
  if (!state) return null;
  return h(`span.badge.${tone(state)}`, null,
    h("span.sign", { "aria-hidden": "true" }, sign(state)),
    of ? h("span.unseen", null, `${of}: `) : null, state);
}

const MOMENT = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
  timeZoneName: "short",
});
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// A moment in the reader's zone.
export function moment(at) {
  if (!at) return "–";
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : MOMENT.format(date);
}

export function clock(at) {
  return CLOCK.format(new Date(at));
}

// When an operation is tried again is a time of day in UTC, as in Argo CD: here it is one of the reader's.
const MINUTE = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const TRIED_AGAIN = /(Retrying attempt #\d+ at )(\d{1,2}):(\d{2})(AM|PM)/;
export function inZone(text, now = new Date()) {
  return text?.replace(TRIED_AGAIN, (_, words, hour, minute, half) => {
    const at = new Date(now);
    at.setUTCHours((Number(hour) % 12) + (half === "PM" ? 12 : 0), Number(minute), 0, 0);
    // It is to come, and no further away than a day.
    if (now - at > 12 * 3_600_000) at.setUTCDate(at.getUTCDate() + 1);
    return words + MINUTE.format(at);
  });
}

export function time(at) {
  if (!at) return h("span", null, "–");
  return h("time", { datetime: at, title: at }, moment(at));
}

// How long: 1.4 s, 3 min 20 s, 2 h 5 min, 3 d 4 h.
export function long(milliseconds) {
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let left = Math.round(seconds);
  const first = parts.findIndex(([, size]) => left >= size);
  return parts.slice(first, first + 2).map(([name, size]) => {
    const number = Math.floor(left / size);
    left -= number * size;
    return number > 0 ? `${number} ${name}` : "";
  }).filter(Boolean).join(" ");
}

export function between(from, to) {
  return long(new Date(to ?? Date.now()) - new Date(from));
}

export function count(number, one, many) {
  return `${Number(number).toLocaleString()} ${Number(number) === 1 ? one : many ?? `${one}s`}`;
}

// A commit by its first digits, and anything else as it is.
// Those of several sources are given with commas between them.
export function short(revision) {
  const one = (text) => (/^[0-9a-f]{40}$/.test(text) ? text.slice(0, 7) : text);
  return revision ? revision.split(",").map(one).join(", ") : "–";
}

// A plan by the first digits of its hash.
export function shortHash(hash) {
  return (hash ?? "").slice(0, 12);
}

// Who has approved a plan, why and when.
export function approvalOf({ by, reason, at }) {
  return h("div", null, by, reason ? [": ", folded(reason)] : null, " ", time(at));
}

// So many letters of a text stand where much else does.
const FOLDED = 200;

// A text that others have written as long as they liked: its beginning, and all of it for whoever opens it.
export function folded(text, most = FOLDED) {
  if (typeof text !== "string" || text.length <= most) return text;
  return h("details.folded", null, h("summary", null, h("span.beginning", null, cut(text, most), " ", h("u", null, "More")), h("u.less", null, "Less")), h("div", null, text));
}

// So many letters of a reason are shown in a list at first.
const REASON = 60;

// Who has asked for something, and why, in a list.
export function askedBy(by, reason) {
  return [by ?? "–", reason ? h("small", null, ": ", folded(reason, REASON)) : null];
}

// So many of a list are named.
const NAMED = 20;

// Names in one text, the first of many.
export function listed(names, most = NAMED) {
  return [...names.slice(0, most), ...(names.length > most ? [`and ${names.length - most} more`] : [])].join(", ");
}

// What is surprising, where it was read and of which object, as the command line has it.
export function findingOf({ severity, origin, object, message }) {
  return h("li", null, severity ? `${severity}: ` : null, origin ? [h("code", null, origin), ": "] : null, object ? [h("strong", null, object), ": "] : null, message);
}

// What tells an object from others.
export const objectKey = (object) => `${object.group ?? ""}/${object.kind}/${object.namespace ?? ""}/${object.name}`;

// An object in one text.
export function objectName(object) {
  return `${object.kind} ${object.namespace ? `${object.namespace}/` : ""}${object.name}`;
}

// A list of terms.
export function terms(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0));
  return h("dl.terms", null, shown.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

// In which order a deletion goes, in words.
export function orderOf({ order }) {
  return { AllAtOnce: "all at once", Reverse: "the steps backwards", Custom: "steps of its own", Orphan: "none is deleted, all are let go" }[order] ?? null;
}

// Whether nothing of a deletion waits for anything, so that nothing of it can be held, skipped or ended.
export function isAtOnce(teardown) {
  return ["AllAtOnce", "Orphan"].includes(teardown?.order);
}
