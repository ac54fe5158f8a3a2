// One rollout or deletion of an ApplicationSet as it was recorded: it looks the same while it goes on and long after.

import { at, look, query } from "./ask.js";
import { decisionsOf, tableOf } from "./decided.js";
import { fill, h, link, paths, refill, say, soon } from "./draw.js";
import { follow } from "./news.js";
import { stepsOf } from "./rollout.js";
import { KINDS, skippedOf } from "./runs.js";
import { badge, between, clock, count, folded, moment, orderOf, short, terms, time } from "./words.js";

// So many facts are listed at once.
const FACTS = 200;

export function showRun(view, namespace, name, id) {
  const path = at.run(id);
  const abort = new AbortController();
  const facts = [];
  let [run, listed] = [null, FACTS];
  const head = h("div");
  const steps = h("section", { "aria-labelledby": "steps" });
  const people = h("section");
  const log = h("section", { "aria-labelledby": "facts" });
  fill(view, head, steps, people, log);

  function showAll() {
    const before = head.querySelector(".badge")?.textContent;
    refill(head, headOf(run, namespace, name));
    const isThere = run.rollout || run.deletion;
    refill(steps, isThere ? stepsOf({ rollout: run.rollout, teardown: run.deletion }, namespace, null) : compacted(run));
    refill(people, decisionsOf(run), waitsOf(run));
    refill(log, isThere ? logOf(facts, listed, run.compacted, () => {
      listed += 2000;
      showAll();
    }) : null);
    const now = head.querySelector(".badge")?.textContent;
    if (before && before !== now) say(`${KINDS[run.kind]} of ${name}: ${now}`);
  }

  async function load() {
    try {
      const found = await look(path, abort.signal);
      if (found.set && found.set !== `${namespace}/${name}`) return nowhere();
      run = found;
      let next = facts.at(-1)?.sequence ?? 0;
      while (next !== null && (run.rollout || run.deletion)) {
        const answer = await look(query(`${path}/log`, { after: next, limit: 500 }), abort.signal);
        facts.push(...answer.items.filter((fact) => fact.sequence > (facts.at(-1)?.sequence ?? 0)));
        next = answer.next;
      }
      showAll();
    } catch (problem) {
      if (problem.name === "AbortError") return undefined;
      if (problem.status === 404) return nowhere();
      if (run) return say(problem.words ?? String(problem));
      fill(view, h("h1", null, name), h("p.problem", { role: "alert" }, problem.words ?? String(problem)));
    }
    return undefined;
  }

  function nowhere() {
    fill(view, h("h1", null, name), h("p.problem", { role: "alert" }, `There is no rollout and no deletion ${id} of ${namespace}/${name}, or it is not kept any more: `,
      "the oldest are forgotten, as ", h("code", null, "--summaries"), " says. ", link(paths.set(namespace, name), `${namespace}/${name}`)));
  }

  const again = soon(250, load);
  const isOpen = () => run && !run.finishedAt;
  const end = follow((kind, data) => {
    const isOwn = data?.namespace === namespace && data?.name === name && (kind === "applicationSet" || kind === "applicationSetGone");
    if ((isOwn || kind === "reset") && (isOpen() || !run)) again();
  });
  again.now();
  // What is recorded of single Applications changes nothing of their set.
  const ticking = setInterval(() => {
    if (isOpen() && !document.hidden) again();
  }, 2000);
  return () => {
    end();
    again.stop();
    clearInterval(ticking);
    abort.abort();
  };
}

function headOf(run, namespace, name) {
  const isRollout = run.kind === "rollout";
  const passed = run.steps === null ? null : `${run.stepsPassed} of ${run.steps} passed`;
  return [
    h("div.title", null, h("h1", null, `${KINDS[run.kind]} of `, link(paths.set(namespace, name), name)), badge(run.end ?? "Running", "result"), run.paused ? badge("Held") : null),
    h("div.lead", null, folded(run.finishedAt ? run.message : explained(run))),
    run.damage ? h("p.problem", null, run.damage) : null,
    h("p.quiet", null, "All of it as one file: ", file(run.id, ".html", "for people"), ", ", file(run.id, "", "for programs")),
    terms([
      ["Began", time(run.startedAt)], ["Ended", run.finishedAt ? time(run.finishedAt) : null], ["Took", between(run.startedAt, run.finishedAt)],
      ["Asked for by", run.by], ["Why", folded(run.reason)], ["Order", orderOf(run.deletion ?? {})], ["Revisions", run.revisions.map(short).join(", ")], ["Steps", passed],
      ["Applications", `${run.done} of ${run.applications} ${isRollout ? "Healthy" : run.deletion?.order === "Orphan" ? "let go" : "gone"}${skippedOf(run)}`], ["Id", h("code", null, run.id)],
    ]),
  ];
}

// Where it stands while it goes on, and who blocks.
function explained(run) {
  const { explanation } = run;
  if (!explanation) return run.message;
  const first = explanation.awaited[0];
  return [explanation.position, explanation.progress, first ? `waits for ${first.what}: ${first.why}` : null, explanation.paused].filter(Boolean).join("; ");
}

// A link to all of it as a file that needs nothing else.
function file(id, ending, words) {
  return h("a", { href: `${at.run(id)}/export${ending}`, download: "" }, words);
}

function compacted(run) {
  if (run.damage) return null;
  return h("p", { id: "steps", role: "status" }, "Its details were compacted: steps, Applications and what was recorded are not kept any more. As many of the newest rollouts, and of the newest deletions, of an ApplicationSet keep them as ",
    h("code", null, "--history"), " says, ten if it is not said.");
}

function waitsOf(run) {
  if (run.waits.length === 0) return null;
  return tableOf("waits", "What it waited for", ["From", "Until", "How long", "Who", "For what"], run.waits.map((wait) => h("tr", null,
    h("td", null, time(wait.since)), h("td", null, wait.until ? time(wait.until) : "still"), h("td", null, between(wait.since, wait.until)),
    h("td", null, wait.what), h("td.words", null, wait.why))));
}

// Everything that was recorded, the newest first.
function logOf(facts, listed, older, more) {
  const shown = facts.slice(-listed).reverse();
  return [
    h("h2", { id: "facts" }, "What was recorded"),
    older > 0 ? h("p.quiet", null, `${count(older, "older fact")} not kept any more.`) : null,
    h("div.scroll", { tabindex: "0", role: "region", "aria-label": "What was recorded, as a table" }, h("table.facts", null,
      h("thead", null, h("tr", null, ["Number", "Time", "What"].map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", null, shown.map((fact) => h("tr", { "data-key": fact.sequence }, h("td", null, String(fact.sequence)),
        h("td", null, fact.at ? h("time", { datetime: fact.at, title: moment(fact.at) }, clock(fact.at)) : ""), h("td.words", null, fact.text)))))),
    facts.length > shown.length ? h("button", { type: "button", onclick: more, "data-do": "facts" }, `Show more of ${count(facts.length, "fact")}`) : null,
  ];
}
