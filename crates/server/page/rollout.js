// One ApplicationSet: its rollout step by step, or its deletion the other way round, and who blocks.

import { all, at, look, query } from "./ask.js";
import { decidedOf } from "./decided.js";
import { fill, h, link, paths, refill, say, soon } from "./draw.js";
import { deletionPreviewOf, rolloutPreviewOf } from "./foreseen.js";
import { follow } from "./news.js";
import { runsOf } from "./runs.js";
import { memberActions, setActions } from "./steer-set.js";
import { approvalOf, badge, between, count, folded, isAtOnce, long, orderOf, short, terms, time, tone } from "./words.js";

// So many Applications of a step are shown; those that are done are left out first.
const TILES_MAX = 120;
// So many letters of what is said of an Application are shown in its tile at first.
const MESSAGE = 100;
// So many Applications are looked through for those that have outlived their set.
const APPLICATIONS_MAX = 10_000;
const IN_FLIGHT = new Set(["Pending", "Progressing", "Deleting"]);
const DONE = new Set(["Healthy", "Gone", "Left", "Released"]);

// What has become of an Application. Argo CD's words make no difference between one that failed and one that is on its way, nor
// between one that was skipped and one that is well.
const standing = (member) => (member.outcome && member.outcome !== "Settling" ? member.outcome : member.status);
const isDone = (member) => DONE.has(member.status);

export function showRollout(view, namespace, name) {
  const path = at.set(namespace, name);
  const abort = new AbortController();
  const head = h("div");
  const steps = h("section", { "aria-labelledby": "steps" });
  const refused = h("div");
  const preview = h("div", null, rolloutPreviewOf(path, namespace, abort.signal), deletionPreviewOf(path, abort.signal));
  const decided = decidedOf(abort.signal);
  const runs = runsOf(namespace, name, abort.signal);
  fill(view, head, steps, decided.element, refused, runs.element, preview);
  let [set, told, isGone, said] = [null, null, false, null];
  // Whether something has happened since it was loaded last, and not only time has passed.
  let isNews = true;

  // It is gone. What was shown last stays, as it has ended: it says in which order all went.
  async function gone() {
    if (isGone || !set) return;
    isGone = true;
    preview.hidden = true;
    refill(head, h("h1", null, name), h("p.lead", { role: "status" }, `${namespace}/${name} is gone.`));
    say(`${namespace}/${name} is gone`);
    refill(refused);
    runs.load();
    try {
      const known = await all("/api/v1/applications", APPLICATIONS_MAX, abort.signal);
      if (isGone) refill(steps, endOf(told, namespace, new Set(known.filter((one) => one.namespace === namespace).map((one) => one.name)), path));
    } catch (problem) {
      if (problem.name !== "AbortError") refill(steps, h("p.problem", null, problem.words ?? String(problem)));
    }
  }

  // What is being deleted may be gone, which is no error.
  async function isThere() {
    if (!set?.metadata.deletionTimestamp && !told?.teardown) return true;
    const found = await look(query("/api/v1/applicationsets", { name: `${namespace}/${name}`, limit: 500 }), abort.signal);
    return found.items.some((one) => one.namespace === namespace && one.name === name);
  }

  async function load() {
    if (isGone) return undefined;
    try {
      if (!await isThere()) return gone();
      [set, told] = await Promise.all([look(path, abort.signal), look(`${path}/explain`, abort.signal)]);
      const before = said;
      said = told.line;
      refill(head, headOf(set, told, path));
      refill(steps, stepsOf(told, namespace, path));
      refill(refused, refusedOf(told, namespace));
      runs.load();
      if (isNews || before !== said) decided.load(idOf(told));
      isNews = false;
      if (before && before !== said) say(said);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      if (problem.status === 404 && set) return gone();
      if (set) return say(problem.words ?? String(problem));
      // One that is gone has left what was recorded of it.
      await runs.load();
      const words = problem.status === 404 && !runs.isEmpty ? h("p.lead", { role: "status" }, `${namespace}/${name} is gone.`)
        : h("p.problem", { role: "alert" }, problem.words ?? String(problem));
      fill(view, h("h1", null, name), words, runs.isEmpty ? null : runs.element);
    }
    return undefined;
  }

  const again = soon(250, load);
  const isMember = (one) => one?.namespace === namespace && (told?.rollout?.members ?? told?.teardown?.members ?? []).some((member) => member.application === one.name);
  const end = follow((kind, data) => {
    const isIt = data?.namespace === namespace && data?.name === name;
    if (kind === "applicationSetGone" && isIt) return gone();
    // Another one of its name is there now.
    if (kind === "applicationSet" && isIt) isGone = preview.hidden = false;
    const isOwn = (data?.namespace === namespace && data?.name === name && kind !== "application" && kind !== "gone") || kind === "reset";
    if (isOwn) isNews = true;
    if (isOwn || ((kind === "application" || kind === "gone") && isMember(data))) again();
    return undefined;
  });
  again.now();
  // Waits grow older, and deadlines come nearer.
  const ticking = setInterval(() => {
    if (told?.explanation && !isGone && !document.hidden) again();
  }, 2000);
  return () => {
    end();
    again.stop();
    clearInterval(ticking);
    abort.abort();
  };
}

// What is shown of the two: the deletion, as soon as there is one.
function shownOf({ rollout, teardown }) {
  const isDeleting = Boolean(teardown && (!teardown.finishedAt || !rollout || teardown.startedAt > rollout.startedAt));
  return { isDeleting, shown: isDeleting ? teardown : rollout };
}

const idOf = (told) => (shownOf(told).isDeleting ? told.teardownId : told.rolloutId);

function headOf(set, told, path) {
  const { isDeleting, shown } = shownOf(told);
  const explanation = told.explanation;
  return [
    h("div.title", null, h("h1", null, set.metadata.name), badge(set.status?.health?.status ?? "Unknown", "health"),
      shown?.paused && !shown.finishedAt ? badge("Held") : null, shown?.end ? badge(shown.end, isDeleting ? "deletion" : "rollout") : null),
    h("div.lead", null, folded(told.line)),
    setActions(told, set, path) ?? h("div"),
    conditionsOf(set.status?.conditions ?? []),
    shown ? terms([
      [isDeleting ? "Deletion began" : "Rollout began", time(shown.startedAt)], ["Ended", shown.finishedAt ? time(shown.finishedAt) : null],
      ["Took", between(shown.startedAt, shown.finishedAt)], ["Asked for by", shown.by], ["Why", folded(shown.reason)], ["Order", orderOf(shown)], ["Held", folded(shown.paused)],
      ["Deadline", explanation?.deadlineInSeconds ? `${long(explanation.deadlineInSeconds * 1000)} left` : null], ["Next", explanation?.next],
    ]) : h("p.quiet", null, set.spec?.strategy?.type === "RollingSync" ? "Its Applications are to be synced step by step (RollingSync), and no rollout was begun yet."
      : "Its Applications are synced each by its own policy: there is no progressive sync."),
    approvedDeletionsOf(set),
    explanation && explanation.awaited.length > 0 ? h("section", { "aria-labelledby": "awaited" }, h("h2", { id: "awaited" }, "What it waits for"),
      h("ul.awaited", null, explanation.awaited.map((one) => h("li", null, h("strong", null, one.what), ": ", folded(one.why), " ", h("small", null, `for ${between(one.since)}`)))),
      explanation.warnings.map((one) => h("p.problem", null, one))) : h("div"),
  ];
}

// Who has approved deletions that were held because they were too many.
function approvedDeletionsOf(set) {
  try {
    const approval = JSON.parse(set.metadata.annotations?.["tidegate.dev/deletions-approval"] ?? "null");
    return approval ? terms([["Deletions approved by", approvalOf(approval)]]) : h("div");
  } catch {
    return h("div");
  }
}

// What is wrong with it, and how else it stands, each with its message.
function conditionsOf(all) {
  const isBad = (one) => one.status === "True" && (one.type === "ErrorOccurred" || one.type.endsWith("Warning"));
  const line = (one) => h("li", { "data-key": one.type }, h("strong", null, one.type), one.status === "True" ? "" : ` (${one.status})`, `: ${one.message || one.reason} `, time(one.lastTransitionTime));
  const [bad, good] = [all.filter(isBad), all.filter((one) => !isBad(one))];
  return [
    bad.length > 0 ? h("section.problem", null, h("h2", null, "What is wrong"), h("ul", null, bad.map(line))) : h("div"),
    good.length > 0 ? h("details", null, h("summary", null, "Conditions"), h("ul", null, good.map(line))) : h("div"),
  ];
}

// The steps from left to right, in the order in which they come. Without a `path` nothing can be done about them.
export function stepsOf(told, namespace, path) {
  const { isDeleting, shown } = shownOf(told);
  if (!shown) return [];
  const of = (number) => shown.members.filter((one) => one.step === String(number));
  const inSteps = isDeleting
    ? shown.steps.map((step) => ({ ...step, number: step.step ?? -1, status: teardownStatus(shown, step) })).filter((step) => step.number > 0 || of(step.number).length > 0)
    : shown.steps.map((step, index) => ({ ...step, number: index + 1 }));
  const outside = isDeleting ? [] : of(-1);
  return [
    h("h2", { id: "steps" }, isDeleting ? "Deletion, step by step" : "Steps"),
    h("ol.steps", { tabindex: "0", "aria-label": isDeleting ? "Steps, in the order of the deletion" : "Steps" },
      inSteps.map((step) => stepOf(step, of(step.number), told, namespace, path, shown))),
    isDeleting ? null : leftOf(shown.left ?? [], namespace),
    outside.length > 0 ? h("section.outside", { "aria-labelledby": "outside" }, h("h3", { id: "outside" }, "In no step"),
      h("p.quiet", null, "No step selects these: the rollout leaves them alone."), tiles(outside, told, namespace, path)) : null,
  ];
}

// Those that are no Applications of the set any more, and how far they were.
function leftOf(left, namespace) {
  return left.length > 0 ? h("section", { "aria-labelledby": "left" }, h("h3", { id: "left" }, "Left the set"),
    h("p.quiet", null, "The set had these Applications when the rollout began, or while it went on, and has them no more."),
    h("ul", null, left.map((one) => h("li", { "data-key": one.application }, h("strong", null, one.application), one.step === "-1" ? ": " : ` (step ${one.step}): `,
      one.message, " ", time(one.at), one.operation ? [" ", link(paths.operation(one.operation), "operation", h("span.unseen", null, ` of ${one.application}`))] : null)))) : null;
}

// How all has ended with the set, of whose Applications these are still there.
function endOf(told, namespace, there, path) {
  const { rollout, teardown } = told;
  const members = (teardown ?? rollout)?.members ?? [];
  const left = members.filter((one) => there.has(one.application));
  const stays = left.length > 0 ? h("p", null, "Its Applications that are still there: ", left.map((one) => [link(paths.application(namespace, one.application), one.application), " "])) : null;
  if (!teardown) return [stays];
  const as = teardown.order === "Orphan" ? { status: "Released", message: "" } : isAtOnce(teardown) ? {} : { status: "Left" };
  const ended = members.map((one) => (there.has(one.application) ? { ...one, ...as } : { ...one, status: "Gone", message: "" }));
  const over = { ...teardown, members: ended, finishedAt: teardown.finishedAt ?? new Date().toISOString(), paused: null };
  return [stepsOf({ rollout: null, teardown: over }, namespace, path), stays];
}

function teardownStatus(shown, step) {
  const members = shown.members.filter((one) => one.step === String(step.step ?? -1));
  if (members.length === 0) return "Empty";
  if (members.every(isDone)) return "Passed";
  if (shown.finishedAt) return "Unfinished";
  return members.some((one) => one.status === "Deleting") || (shown.step ?? -1) === (step.step ?? -1) ? "Rolling" : "Waiting";
}

function stepOf(step, members, told, namespace, path, shown) {
  const inFlight = members.filter((one) => IN_FLIGHT.has(standing(one))).length;
  const isNow = ["Held", "Rolling", "RollingBack", "Failed"].includes(step.status);
  return h("li.step", { "data-key": step.number, "aria-current": isNow && !shown.finishedAt ? "step" : null },
    h("h3", null, step.number > 0 ? `Step ${step.number} ` : "No step ", badge(step.status)),
    h("p.quiet", null, step.selects),
    h("p", null, doneOf(members)),
    slots(step, inFlight, members.length),
    terms([
      ["Gates", (step.gates ?? []).length > 0 ? step.gates.join(", ") : null],
      ["May fail", step.maxFailures ?? null], ["May take", step.deadlineSeconds ? long(step.deadlineSeconds * 1000) : null],
      ["Opened", step.openedAt ? time(step.openedAt) : null], ["Took", step.openedAt && step.passedAt ? between(step.openedAt, step.passedAt) : null],
    ]),
    tiles(members, told, namespace, path));
}

// How many are done, and how many are not because they were gone on without, or have failed.
function doneOf(members) {
  const of = (...words) => members.filter((one) => words.includes(standing(one))).length;
  const apart = [[of("Skipped", "Left"), "skipped"], [of("Failed"), "failed"], [of("RolledBack"), "rolled back"]].filter(([number]) => number > 0);
  const done = members.filter(isDone).length - of("Skipped", "Left", "RolledBack");
  return [`${done} of ${count(members.length, "Application")} done`, ...apart.map(([number, word]) => `${number} ${word}`)].join(", ");
}

// How many may be on their way at once, and how many are.
function slots(step, inFlight, members) {
  if (step.maxUpdate === null || step.maxUpdate === undefined) return h("p.quiet", null, inFlight > 0 ? `${inFlight} on the way, as many as there are` : "all at once");
  const words = step.maxUpdate === 0 ? "none by itself: somebody has to sync each" : `${inFlight} of ${step.maxUpdate} on the way at once`;
  const shown = Math.min(step.maxUpdate, members, 20);
  return h("p.slots", null, h("span", { "aria-hidden": "true" },
    Array.from({ length: shown }, (_, index) => h(index < inFlight ? "span.slot.busy" : "span.slot"))), h("span", null, words));
}

function tiles(members, told, namespace, path) {
  const order = [...members].sort((one, other) => isDone(one) - isDone(other) || one.application.localeCompare(other.application));
  const shown = new Set(order.slice(0, TILES_MAX));
  return [
    h("ul.tiles", null, members.filter((one) => shown.has(one)).map((member) => h(`li.tile.${tone(standing(member))}`, { "data-key": member.application },
      h("div", null, link(paths.application(namespace, member.application), member.application), " ", badge(standing(member))),
      h("div.words", null, folded(member.message, MESSAGE)),
      member.targetRevisions?.length > 0 ? h("small", null, `to ${member.targetRevisions.map(short).join(", ")}`) : null,
      member.operation ? h("small", null, " ", link(paths.operation(member.operation), "operation", h("span.unseen", null, ` of ${member.application}`))) : null,
      path ? memberActions(told, member, path) : null))),
    members.length > TILES_MAX ? h("p.quiet", null, `and ${count(members.length - TILES_MAX, "other")}`) : null,
  ];
}

function refusedOf(told, namespace) {
  const refused = Object.entries(told.refused ?? {});
  return refused.length > 0 ? h("section.problem", null, h("h2", null, "Not made or not changed"),
    h("ul", null, refused.map(([name, why]) => h("li", null, link(paths.application(namespace, name), name), `: ${why}`)))) : null;
}
