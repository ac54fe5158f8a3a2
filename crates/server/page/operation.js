// One operation: its waves, its timeline, and everything that was recorded about it.

import { at, look, query } from "./ask.js";
import { fill, h, link, refill, say, soon } from "./draw.js";
import { follow } from "./news.js";
import { applicationLink } from "./operations.js";
import { followOutput } from "./output.js";
import { saveButton } from "./picture.js";
import { isBeyond, isTouched, operationActions, taskActions, waveActions } from "./steer.js";
import { Story } from "./story.js";
import { KEPT_WIDTH, drawTimeline, keepDrawn, legend, timelineTable } from "./timeline.js";
import { objectsOf, wavesPicture } from "./waves.js";
import { approvalOf, badge, between, clock, count, findingOf, folded, inZone, long, objectKey, objectName, objectState, resultOf, short, shortHash, terms, time, tone, waveState } from "./words.js";

// So many facts, and so many objects, are listed at once.
const FACTS = 200;
const OBJECTS = 300;
// An operation of thousands of objects takes its time: it is asked for again after so many times as long as it took.
const REST = 4;
// After so long, what is there already is shown, in milliseconds.
const SHOW_AFTER = 1000;

export function showOperation(view, id) {
  const path = at.operation(id);
  const abort = new AbortController();
  const story = new Story();
  const facts = [];
  let [operation, explanation] = [null, null];
  let [listed, objects] = [FACTS, OBJECTS];
  let [took, endedAt] = [0, 0];
  const head = h("div");
  const waves = h("section", { "aria-labelledby": "waves" });
  const picture = h("div.picture");
  const table = h("details", null, h("summary", null, "The timeline as a table"), h("div"));
  const left = h("p.quiet");
  const timeline = h("section", { "aria-labelledby": "timeline" }, h("div.title", null, h("h2", { id: "timeline" }, "Timeline"),
    saveButton("the timeline", `operation-${id}`, () => drawTimeline(story, KEPT_WIDTH, Date.now(), titleOf(operation)).picture)), legend(), picture, left, table);
  const log = h("section", { "aria-labelledby": "facts" });
  const results = h("section", { "aria-labelledby": "results" });
  const written = h("section");
  fill(view, head, waves, written, timeline, results, log);
  const output = followOutput(id, written);
  const drawing = keepDrawn(picture, (width) => draw(width));

  function draw(width) {
    if (story.last === 0 || !width) return null;
    const drawn = drawTimeline(story, width, Date.now());
    left.textContent = drawn.left > 0 ? `${count(drawn.left, "object")} that took less time and met with nothing are not drawn.` : "";
    return drawn.picture;
  }

  function redraw() {
    fill(picture, draw(Math.floor(picture.clientWidth)));
    if (table.open) refill(table.lastElementChild, timelineTable(story, Date.now()));
  }
  table.addEventListener("toggle", redraw);

  function showAll() {
    const before = head.querySelector(".badge")?.textContent;
    refill(head, headOf(operation, explanation, story));
    refill(waves, h("div.title", null, h("h2", { id: "waves" }, "Waves"),
      operation.waves.length > 0 ? saveButton("the waves", `operation-${id}-waves`, () => pictureOf(operation, explanation, story)) : null), columns(operation, story));
    refill(results, resultsOf(operation, story, objects, () => {
      objects = Infinity;
      showAll();
    }));
    refill(log, logOf(facts, listed, () => {
      listed += 2000;
      showAll();
    }));
    redraw();
    const now = head.querySelector(".badge")?.textContent;
    if (before && before !== now) say(`The operation of ${operation.app}: ${now}`);
  }

  async function load() {
    const began = performance.now();
    let shownAt = began;
    try {
      [operation, explanation] = await Promise.all([look(path, abort.signal), look(`${path}/explain`, abort.signal)]);
      if (operation.kept) return showKept();
      let next = story.last;
      do {
        const answer = await look(query(`${path}/log`, { after: next, limit: 500 }), abort.signal);
        const fresh = answer.items.filter((fact) => fact.sequence > story.last);
        facts.push(...fresh);
        story.take(fresh);
        next = answer.next;
        if (next !== null && performance.now() - shownAt > SHOW_AFTER) {
          showAll();
          shownAt = performance.now();
        }
      } while (next !== null);
      showAll();
      output.run(!operation.finishedAt && operation.resources.some((one) => one.hookType && one.hookPhase === "Running"));
      [took, endedAt] = [performance.now() - began, performance.now()];
    } catch (problem) {
      if (problem.name === "AbortError") return;
      if (operation) return say(problem.words ?? String(problem));
      const words = problem.status === 404 ? [`There is no operation ${id}. `, link("/operations", "All operations")] : problem.words ?? String(problem);
      fill(view, h("h1", null, `Operation ${id}`), h("p.problem", { role: "alert" }, words));
    }
  }

  // Of an operation whose facts are not kept any more there is a line.
  function showKept() {
    drawing();
    fill(view, headOf(operation, explanation, { request: operation.kept }), h("p", { role: "status" },
      "Its details were compacted: waves, objects, timeline and what was recorded are not kept any more. As many of the newest operations of an application keep them as ",
      h("code", null, "--history"), " says, ten if it is not said."));
  }

  const again = soon(200, load);
  const end = follow((kind, data) => {
    const isOwn = (kind === "operation" && data.operation === id) || kind === "reset";
    if (isOwn && (performance.now() - endedAt > REST * took || data?.kind === "finished")) again();
  });
  again.now();
  // What takes time is seen to take it; and small things are recorded of which nobody is told.
  const ticking = setInterval(() => {
    if (!operation || operation.finishedAt || document.hidden) return;
    redraw();
    if (performance.now() - endedAt > REST * took) again();
  }, 1000);
  return () => {
    end();
    output.end();
    drawing();
    again.stop();
    clearInterval(ticking);
    abort.abort();
  };
}

function headOf(operation, explanation, story) {
  const isOver = Boolean(operation.finishedAt);
  const request = story.request ?? {};
  const deadline = explanation.deadlineInSeconds !== null ? `${long(explanation.deadlineInSeconds * 1000)} left`
    : explanation.deadlinePassedSeconds !== null ? `passed ${long(explanation.deadlinePassedSeconds * 1000)} ago` : null;
  return [
    h("div.title", null, h("h1", null, operation.deletion ? "Deletion of " : "Operation of ", applicationLink(operation.app)),
      badge(operation.phase, "result"), operation.dryRun ? h("small", null, " dry run: nothing was written") : null,
      operation.pausedBy ? badge("Held") : null),
    h("div.lead", null, folded(inZone(isOver ? operation.message : explanation.summary))),
    operationActions(operation, explanation) ?? h("div"),
    h("p.quiet", null, "All of it as one file: ", file(operation.id, ".html", "for people"), ", ", file(operation.id, "", "for programs")),
    isOver || explanation.awaited.length === 0 ? h("div") : h("section", { "aria-labelledby": "awaited" },
      h("h2", { id: "awaited" }, "What it waits for"),
      h("ul.awaited", null, explanation.awaited.map((one) => h("li", null, h("strong", null, one.what), ": ", folded(one.why), " ", h("small", null, `for ${between(one.since)}`))))),
    terms([
      ["Began", time(operation.startedAt)], ["Ended", isOver ? time(operation.finishedAt) : null],
      ["Took", between(operation.startedAt, operation.finishedAt)], ["Deadline", isOver ? null : deadline],
      ["Asked for by", operation.initiatedBy ?? request.initiatedBy], ["Why", folded(operation.reason ?? request.reason)],
      ["Plan", planOf(operation.plan) ?? explanation.plan], ["Approved by", operation.plan?.approvals.map(approvalOf)], ["Revision", request.revision ? short(request.revision) : null],
      ["Cluster", request.destination], ["Attempts", operation.retryCount > 0 ? String(operation.retryCount + 1) : null],
      ["Options", [request.prune && "prune", request.dryRun && "dry run", request.force && "force", request.skipHooks && "without hooks", ...(request.syncOptions ?? [])].filter(Boolean).join(", ")],
      ["Position", isOver ? null : explanation.position], ["Next", isOver ? null : explanation.next], ["Waiting", isOver ? null : folded(explanation.waiting)],
      ["Overruled", isOver ? null : folded((explanation.overridden ?? []).join("; ")) || null], ["Held", folded(explanation.paused)], ["Trouble", explanation.trouble], ["Health rules", explanation.rulesChanged],
      ["At work", !isOver && operation.atWork === false ? "no process is at work on it" : null], ["Id", h("code", null, operation.id)],
    ]),
  ];
}

// The kept plan that it carries out.
function planOf(plan) {
  return plan ? h("span", null, h("code", { title: plan.hash }, shortHash(plan.hash)), " made ", time(plan.madeAt)) : null;
}

// A link to the operation as a file that needs nothing else.
function file(id, ending, words) {
  return h("a", { href: `${at.operation(id)}/export${ending}`, download: "" }, words);
}

// How much of a wave is written, passed over, failed and well, in numbers and words; without what nothing is done about.
function progressOf(operation, story, wave) {
  const results = operation.resources.filter((one) => one.syncPhase === wave.phase && one.wave === wave.wave);
  const states = results.map((one) => objectState(one, wave));
  const untouched = story.tasksOf(wave).filter((task) => !isTouched(task)).length;
  const leftAlone = wave.passedAt ? untouched : Math.min(untouched, results.filter((one) => one.status === "PruneSkipped").length);
  const { skipped } = wave;
  const [tasks, well] = [wave.tasks - untouched, Math.max(0, wave.done - leftAlone)];
  const failed = states.filter((one) => tone(one) === "bad").length;
  const ended = well + skipped + failed;
  const applied = Math.max(ended, story.appliedOf(wave));
  const words = tasks === 0 ? "nothing to do" : [`${well} of ${tasks} done`, skipped > 0 ? `${skipped} skipped` : "", failed > 0 ? `${failed} failed` : "",
    applied > ended ? `${applied} written` : ""].filter(Boolean).join(", ");
  return { tasks, applied, ended, skipped, failed, well, words };
}

// The same as a picture that can be kept, with the names of the objects.
function pictureOf(operation, explanation, story) {
  const known = new Map(operation.resources.map((one) => [`${one.syncPhase} ${one.wave} ${one.group ?? ""} ${objectName(one)}`, one]));
  const waves = operation.waves.map((wave) => {
    const { tasks: number, applied, ended, failed, well, words } = progressOf(operation, story, wave);
    const share = (part) => (number > 0 ? part / number : 0);
    const tasks = story.tasksOf(wave);
    const stateOf = (task) => {
      const one = known.get(`${wave.phase} ${wave.wave} ${task.group ?? ""} ${objectName(task)}`);
      return one ? objectState(one, wave) : "Pending";
    };
    return {
      phase: wave.phase, wave: wave.wave, state: waveState(wave), words, objects: objectsOf(tasks, stateOf),
      shares: [["busy", share(applied)], ["dull", share(ended)], ["bad", share(well + failed)], ["good", share(well)]],
    };
  });
  return wavesPicture({ title: titleOf(operation), words: `${operation.phase}: ${operation.finishedAt ? operation.message : explanation.summary}`, waves });
}

// What a picture that is kept is called.
function titleOf(operation) {
  return `${operation.deletion ? "Deletion" : "Operation"} of ${operation.app}`;
}

// The waves as columns that fill: first with what is applied, then with what is well.
function columns(operation, story) {
  if (operation.waves.length === 0) return h("p.empty", null, "There is no plan yet.");
  return h("ol.waves", { tabindex: "0", "aria-label": "Waves" }, operation.waves.map((wave) => {
    const { tasks, applied, ended, skipped, failed, well, words } = progressOf(operation, story, wave);
    const share = (number) => `${tasks > 0 ? Math.round((number / tasks) * 100) : 0}%`;
    // In all attempts, as the timeline has it.
    const took = story.tookOf(wave, Date.now());
    return h("li.wave", { "data-key": `${wave.phase} ${wave.wave}` },
      h("div.column", { "aria-hidden": "true" }, h("div.applied", { look: { height: share(applied) } }),
        skipped > 0 ? h("div.done.dull", { look: { height: share(ended) } }) : null,
        failed > 0 ? h("div.done.bad", { look: { height: share(well + failed) } }) : null,
        h("div.done.good", { look: { height: share(well) } })),
      h("strong", null, wave.phase), h("span", null, `wave ${wave.wave}`), badge(waveState(wave)), h("small", null, words), h("small", null, took === null ? "" : long(took)), waveActions(operation, wave, story.tasksOf(wave)));
  }));
}

// What failed hooks wrote, in each attempt.
function logsOf(operation, story) {
  const ofAttempts = [...story.logs.values()].flatMap(({ attempt, object, logs }) => logs.map((log) => ({ ...log, attempt, name: objectName(object) })));
  const all = ofAttempts.length > 0 ? ofAttempts : operation.hookLogs.map((log) => ({ ...log, attempt: 0, name: objectName(log) }));
  return all.map((log) => h("details.log", { "data-key": `${log.attempt} ${log.name} ${log.pod} ${log.container}` },
    h("summary", null, `Log of hook ${log.name}${story.attempt > 1 && log.attempt > 0 ? `, attempt ${log.attempt}` : ""}: ${log.pod}, ${log.container}`),
    h("pre", { tabindex: "0" }, log.text)));
}

// What an operation has not come to yet, as its plan has it: of that, too, single objects can be gone on without.
function comingOf(operation, story) {
  if (operation.finishedAt) return [];
  const own = (one, { phase, wave }) => `${phase} ${wave} ${objectKey(one)}`;
  const known = new Set(operation.resources.map((one) => own(one, { phase: one.syncPhase, wave: one.wave })));
  const isComing = (task, wave) => isTouched(task) && !known.has(own(task, wave));
  return operation.waves.filter((wave) => !isBeyond(wave)).flatMap((wave) => story.tasksOf(wave).filter((task) => isComing(task, wave))
    .map((task) => ({ ...task, syncPhase: wave.phase, wave: wave.wave, hookType: task.hook ? wave.phase : null, message: task.reason, isComing: true })));
}

// What people call an object: with its phase, where a hook runs in several.
function namer(operation, story) {
  const phases = new Map();
  const add = (one, phase) => phases.set(objectKey(one), (phases.get(objectKey(one)) ?? new Set()).add(phase));
  story.plan.forEach((wave) => wave.tasks.forEach((task) => add(task, wave.phase)));
  operation.resources.forEach((one) => add(one, one.syncPhase));
  return (one) => (phases.get(objectKey(one))?.size > 1 ? `${objectName(one)} of ${one.syncPhase}` : objectName(one));
}

function resultsOf(operation, story, most, more) {
  const logs = logsOf(operation, story);
  const rows = [...operation.resources, ...comingOf(operation, story)];
  const nameOf = namer(operation, story);
  const waveOf = (one) => operation.waves.find((wave) => wave.phase === one.syncPhase && wave.wave === one.wave);
  return [
    h("h2", { id: "results" }, "Objects"),
    operation.resources.length === 0 ? h("p.empty", null, "Nothing was written yet.") : null,
    rows.length === 0 ? null
      : h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Objects as a table" }, h("table", null,
        h("thead", null, h("tr", null, ["Phase", "Wave", "Object", "Result", "State", "Message"].map((one) => h("th", { scope: "col" }, one)))),
        h("tbody", null, rows.slice(0, most).map((one) => h("tr", null, h("td", null, one.syncPhase), h("td", null, String(one.wave)),
          h("td", null, one.hookType ? "hook " : "", objectName(one)), h("td", null, resultOf(one, waveOf(one))),
          h("td", null, badge(one.isComing ? "Pending" : objectState(one, waveOf(one)))), h("td.words", null, folded(wordsOf(one)), taskActions(operation, one, nameOf(one), story.awaitsCall(one)))))))),
    rows.length > most ? h("button", { type: "button", onclick: more, "data-do": "objects" }, `Show all ${count(rows.length, "object")}`) : null,
    logs.length > 0 ? [h("h2", null, "Logs of failed hooks"), logs] : [],
    operation.warnings.length > 0 ? [h("h2", null, "Findings of the plan"), h("ul", null, operation.warnings.map(findingOf))] : [],
  ];
}

// What is said of an object, and nothing of it twice.
function wordsOf(one) {
  // What is to be tried again has that as its message until it is.
  const message = one.overridden?.what === "Retry" && one.message?.startsWith("retried by ") ? null : one.message;
  const said = [message, retried(one)].filter(Boolean);
  const more = [one.reason, ...(one.warnings ?? [])].filter((words) => words && !said.some((known) => known.includes(words)));
  return [...said, ...more].join("; ");
}

// Who has had it tried again; who skipped it is in its message.
function retried({ overridden }) {
  // Once it is skipped or marked as done, the rest names whoever has done that.
  if (!overridden?.retries || overridden.what !== "Retry") return null;
  return `tried again ${overridden.retries === 1 ? "" : `${overridden.retries} times, `}as ${overridden.by} asked for${overridden.reason ? ` (${overridden.reason})` : ""}`;
}

// Everything that was recorded, the newest first.
function logOf(facts, listed, more) {
  const shown = facts.slice(-listed).reverse();
  return [
    h("h2", { id: "facts" }, "What was recorded"),
    h("div.scroll", { tabindex: "0", role: "region", "aria-label": "What was recorded, as a table" }, h("table.facts", null,
      h("thead", null, h("tr", null, ["Number", "Time", "What"].map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", null, shown.map((fact) => h("tr", { "data-key": fact.sequence }, h("td", null, String(fact.sequence)),
        h("td", null, fact.at ? h("time", { datetime: fact.at, title: fact.at }, clock(fact.at)) : ""), h("td.words", null, fact.text)))))),
    facts.length > shown.length ? h("button", { type: "button", onclick: more, "data-do": "facts" }, `Show more of ${count(facts.length, "fact")}`) : null,
  ];
}
