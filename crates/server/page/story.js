// What the recorded facts of an operation tell: who was at work when, what was waited for, and why. It is the same for an
// operation that runs and for one that ended long ago, as both are read from the log.

import { Line } from "./line.js";

// Nothing is done in these states: something else has to happen first.
const WAITS = new Set(["Held", "AwaitingHealth", "AwaitingGone", "Settling", "AwaitingRetry"]);
// So many objects that a wave waits for are named.
const NAMED = 3;
const HEALTH = { Healthy: "good", Progressing: "wait", Degraded: "bad", Missing: "warn", Suspended: "wait", Unknown: "dull" };
const key = (object) => `${object.group ?? ""}/${object.kind}/${object.namespace}/${object.name}`;
const waveKey = ({ phase, wave }) => `${phase} ${wave}`;
const GOING = "waits until it is gone";
const CALL_FAILED = "A call failed";
const named = (lines) => [...lines.slice(0, NAMED).map((line) => line.label), ...(lines.length > NAMED ? [`${lines.length - NAMED} more`] : [])].join(", ");
const because = (what, reason) => (reason ? `${what}: ${reason}` : what);

// Which facts are told, and by what; the others change nothing that is shown here.
const KINDS = {
  accepted: "begun", planned: "planned", moved: "moved", "gate-answered": "gateAnswered", applied: "wasApplied",
  "runner-started": "runnerStarted", "health-seen": "healthSeen", "reason-seen": "reasonSeen", "call-failed": "callFailed",
  "place-taken": "placeTaken", "deletion-begun": "deletionBegun", "recreation-begun": "recreationBegun", "prune-sent": "pruneSent",
  "object-gone": "objectGone", "task-completed": "ended", "task-failed": "ended", "hook-stopped": "hookStopped",
  "check-failed": "checkFailed", "deadline-passed": "deadlinePassed", claim: "claimTold", paused: "held", unpaused: "unpaused",
  approved: "approved", overridden: "overridden", "prune-confirmed": "pruneConfirmed", "terminate-requested": "terminateRequested",
  "attempt-failed": "attemptFailed", "retry-started": "retryStarted", "retry-plans-anew": "retryStarted", "plan-taken": "planTaken", finished: "finished",
  "logs-kept": "logsKept",
};

export class Story {
  constructor() {
    Object.assign(this, { last: 0, at: null, attempt: 1, wave: null, plan: [], isOver: false, request: null });
    this.operation = new Line("Operation", "operation");
    this.waves = new Map();
    this.objects = new Map();
    this.applied = new Map();
    // What failed hooks wrote, by attempt and hook.
    this.logs = new Map();
    // What was under way before somebody held it, and why.
    this.paused = null;
  }

  get from() {
    return this.operation.from;
  }

  take(facts) {
    for (const fact of facts) {
      if (fact.sequence <= this.last) continue;
      this.last = fact.sequence;
      if (fact.at) this.at = Math.max(new Date(fact.at).getTime(), this.at ?? 0);
      this.one(fact, fact.details ?? {}, this.at ?? 0);
    }
  }

  one(fact, details, at) {
    const told = KINDS[fact.kind];
    // Of what people decide it is said in which wave it is.
    const place = fact.kind === "overridden" && details.phase ? details : this.wave;
    if (told) this[told](details, at, fact.object ? this.object(fact.object, place) : null, fact);
  }

  // The line of an object, in this wave where it is in several.
  object(object, wave) {
    const own = key(object);
    const here = wave ? `${waveKey(wave)} ${own}` : null;
    if (here && this.objects.has(here)) return this.objects.get(here);
    return [...this.objects].find(([name]) => name.endsWith(` ${own}`))?.[1] ?? null;
  }

  // Whether a call about an object of a result is made again soon.
  awaitsCall({ syncPhase, wave, ...object }) {
    return this.objects.get(`${waveKey({ phase: syncPhase, wave })} ${key(object)}`)?.open?.state === CALL_FAILED;
  }

  waveLine(wave) {
    const own = waveKey(wave);
    if (!this.waves.has(own)) {
      const line = new Line(`${wave.phase}, wave ${wave.wave}`, "wave");
      Object.assign(line, { phase: wave.phase, wave: wave.wave });
      this.waves.set(own, line);
    }
    return this.waves.get(own);
  }

  begun(details, at) {
    this.request = details;
    this.operation.begin(at, "Planning", "busy", "", 1);
    if (details.reason) this.operation.mark(at, because(`${details.initiatedBy} asks for it`, details.reason), "busy");
  }

  planned(details) {
    this.plan = details.waves ?? [];
    for (const wave of this.plan) {
      const line = this.waveLine(wave);
      line.gates = wave.gates ?? [];
      for (const task of wave.tasks) {
        const own = `${waveKey(wave)} ${key(task)}`;
        if (this.objects.has(own)) continue;
        const name = `${task.hook ? "hook " : ""}${task.kind} ${task.namespace ? `${task.namespace}/` : ""}${task.name}`;
        const child = Object.assign(new Line(name, "object"), { wave: line, action: task.action, isHook: Boolean(task.hook) });
        this.objects.set(own, child);
        line.children.push(child);
      }
    }
  }

  // What the plan has in a wave.
  tasksOf({ phase, wave }) {
    return this.plan.find((one) => one.phase === phase && one.wave === wave)?.tasks ?? [];
  }

  moved(details, at) {
    const isWait = WAITS.has(details.state);
    let why = details.state === "AwaitingRetry" ? this.failure ?? "" : "";
    const before = this.wave;
    this.wave = details.phase ? { phase: details.phase, wave: details.wave } : null;
    if (before) this.waveLine(before).end(at);
    if (this.wave && details.state === "Passed") {
      this.waveLine(this.wave).mark(at, "passed", "good");
      this.waveLine(this.wave).outcome = "Passed";
      // Nothing says of what nobody has to wait for that it is done.
      this.waveLine(this.wave).children.filter((child) => child.open && child.state === "Applied").forEach((child) => {
        child.end(at);
        child.outcome = "Succeeded";
      });
    } else if (this.wave) {
      const line = this.waveLine(this.wave);
      why = this.whyOf(details.state, line);
      line.begin(at, details.state, isWait ? "wait" : "busy", why, this.attempt);
    }
    // Whoever holds it does so until they let it go on.
    if (this.paused !== null) this.paused = { state: details.state, why };
    else this.operation.begin(at, details.state, isWait ? "wait" : "busy", why, this.attempt);
  }

  // For what a wave waits in a state.
  whyOf(state, line) {
    if (state === "Held" && line.gates?.length > 0) return `waits for gate ${line.gates.join(", ")}`;
    if (state === "Held") return line.children.some((child) => child.action === "prune") ? "waits for the confirmation of what is deleted" : "";
    if (state === "Settling") return "all is well, and has to stay so for a while";
    if (state !== "AwaitingHealth" && state !== "AwaitingGone") return "";
    const open = line.children.filter((child) => child.open && child.open.tone !== "good");
    const going = open.filter((child) => child.open.state === "Deleting");
    const hooks = open.filter((child) => child.isHook && !going.includes(child));
    // Of a plan of one wave nobody waits for more than its hooks.
    const others = this.plan.length > 1 ? open.filter((child) => !child.isHook && !going.includes(child)) : [];
    const parts = [["the health of", others], ["the end of", hooks], ["the deletion of", going]].filter(([, all]) => all.length > 0);
    if (parts.length === 0) return state === "AwaitingGone" ? "waits until older objects are gone" : "";
    return `waits for ${parts.map(([what, all]) => `${what} ${named(all)}`).join(" and ")}`;
  }

  gateAnswered(details, at) {
    const line = this.wave ? this.waveLine(this.wave) : null;
    for (const held of [line?.open, this.operation.open]) {
      if (held?.state === "Held" && !details.open) held.why = `gate ${details.gate}: ${details.reason}`;
    }
    line?.mark(at, details.open ? `gate ${details.gate} is open` : `gate ${details.gate} is closed: ${details.reason}`, details.open ? "good" : "wait");
  }

  wrote(line, at) {
    if (line) this.applied.set(line, at);
  }

  wasApplied(details, at, line) {
    this.wrote(line, at);
    line?.begin(at, details.done ? "Succeeded" : "Applied", details.done ? "good" : "wait",
      [details.message, details.done ? null : line.awaits].filter(Boolean).join("; "), this.attempt);
    if (details.done) line?.end(at);
  }

  runnerStarted(details, at, line) {
    this.wrote(line, at);
    line?.begin(at, "Running", "wait", "handed to its runner, whose end it waits for", this.attempt);
  }

  healthSeen(details, at, line) {
    if (!line) return;
    const message = details.message || (HEALTH[details.status] === "wait" ? line.awaits : "");
    const why = details.current === false ? `${message || details.status} (perhaps of an older spec)` : message;
    if (line.open?.state === details.status) line.open.why = why || line.open.why;
    else line.begin(at, details.status, HEALTH[details.status] ?? "dull", why, this.attempt);
  }

  reasonSeen(details, at, line) {
    if (line?.open && details.reason) line.open.why = details.reason;
  }

  callFailed(details, at, line) {
    (line ?? this.operation).begin(at, CALL_FAILED, "wait", details.message, this.attempt);
  }

  placeTaken(details, at, line) {
    if (details.byOperation) line?.begin(at, "Place taken", "wait", `operation ${details.byOperation} runs it`, this.attempt);
    else line?.end(at);
  }

  deletionBegun(details, at, line) {
    this.wrote(line, at);
    line?.begin(at, "Deleting", "wait", GOING, this.attempt);
  }

  recreationBegun(details, at, line) {
    line?.begin(at, "Deleting", "wait", `to be created again; ${GOING}`, this.attempt);
  }

  pruneSent(details, at, line) {
    this.wrote(line, at);
    line?.begin(at, details.gone ? "Gone" : "Deleting", details.gone ? "good" : "wait", details.gone ? "" : GOING, this.attempt);
    if (details.gone) line?.end(at);
  }

  objectGone(details, at, line) {
    if (line?.open) line.outcome = "Gone";
    line?.end(at);
    line?.mark(at, "gone", "good");
  }

  ended(details, at, line) {
    if (!line) return;
    const isGood = details.phase === "Succeeded";
    if (line.spans.length === 0) line.begin(at, details.phase, isGood ? "good" : "bad", details.message, this.attempt);
    line.end(at);
    // What it was waited for until then stays told, and how long: its end is a moment.
    if (isGood) line.spans.at(-1).why ||= details.message;
    line.outcome = details.phase;
    line.mark(at, because(details.phase, details.message), isGood ? "good" : "bad");
  }

  hookStopped(details, at, line) {
    this.ended({ ...details, message: details.message || "stopped" }, at, line);
  }

  checkFailed(details, at, line) {
    line?.begin(at, "Refused", "bad", details.message, this.attempt);
    line?.end(at);
  }

  deadlinePassed(details, at, line) {
    (line ?? (details.of === "wave" && this.wave ? this.waveLine(this.wave) : this.operation)).mark(at, `deadline passed: ${details.message}`, "bad");
  }

  claimTold(details, at) {
    const isWait = details.what === "taken" || details.what === "perhaps-taken";
    if (isWait) this.operation.begin(at, "Waiting for the claim", "wait", `${details.holder ?? "another operation"} has it`, this.attempt);
    else if (this.operation.open?.state === "Waiting for the claim") this.operation.begin(at, "Planning", "busy", "", this.attempt);
  }

  held(details, at) {
    const { state, why = "" } = this.operation.spans.at(-1) ?? { state: "" };
    this.paused = { state, why };
    this.operation.mark(at, because(`${details.by} holds it`, details.reason), "wait");
    this.operation.begin(at, "Paused", "wait", because(`held by ${details.by}`, details.reason), this.attempt);
  }

  unpaused(details, at) {
    const { state, why } = this.paused ?? { state: "", why: "" };
    this.operation.begin(at, state, WAITS.has(state) || state === "Waiting for the claim" ? "wait" : "busy", why, this.attempt);
    this.operation.mark(at, because(`${details.by} lets it go on`, details.reason), "good");
    this.paused = null;
  }

  approved(details, at) {
    this.operation.mark(at, because(`${details.by} approves wave ${details.number}`, details.reason), "good");
  }

  planTaken(details, at) {
    const approvals = details.approvals.map(({ by, reason }) => `, approved by ${by}${reason ? ` (${reason})` : ""}`);
    this.operation.mark(at, `carries out plan ${details.hash.slice(0, 12)}${approvals.join("")}`, "good");
  }

  overridden(details, at, line) {
    const why = `${details.what} by ${details.by}${details.reason ? ` (${details.reason})` : ""}`;
    const isRetry = details.what === "retried";
    (line ?? this.operation).mark(at, why, isRetry ? "busy" : "warn");
    if (!line || isRetry) return;
    if (line.spans.length === 0) line.begin(at, details.what, "dull", why, this.attempt);
    line.end(at);
    line.outcome = details.what;
  }

  logsKept(details, at, line, { object }) {
    if (object && details.logs?.length > 0) this.logs.set(`${this.attempt} ${key(object)}`, { attempt: this.attempt, object, logs: details.logs });
  }

  pruneConfirmed(details, at) {
    this.operation.mark(at, because(`${details.by} confirms prunes`, details.reason), "good");
  }

  terminateRequested(details, at) {
    this.operation.mark(at, because(`${details.by} ends it`, details.reason), "warn");
  }

  attemptFailed(details, at) {
    this.failure = details.message;
    this.operation.mark(at, `attempt ${this.attempt} failed: ${details.message}`, "bad");
    this.leaveWave("Failed");
    this.endAll(at);
  }

  retryStarted(details, at) {
    this.attempt = details.attempt;
    this.operation.begin(at, `Attempt ${details.attempt}`, "busy", "", this.attempt);
    this.operation.mark(at, `attempt ${details.attempt} begins`, "busy");
  }

  finished(details, at) {
    this.isOver = true;
    this.leaveWave(details.phase === "Succeeded" ? "Passed" : "Stopped");
    this.endAll(at);
    this.operation.end(at);
    this.operation.outcome = details.phase;
    this.operation.mark(at, `${details.phase}: ${details.message}`, details.phase === "Succeeded" ? "good" : "bad");
  }

  // The wave that is at work ends like this.
  leaveWave(outcome) {
    for (const line of this.waves.values()) {
      if (line.open) line.outcome = outcome;
    }
  }

  endAll(at) {
    [...this.waves.values(), ...this.objects.values()].forEach((line) => line.end(at));
  }

  // How long a wave took in all attempts, in milliseconds; nothing where no fact tells of it.
  tookOf(wave, now) {
    const line = this.waves.get(waveKey(wave));
    return line?.spans.length > 0 ? line.took(now) : null;
  }

  // How many objects of a wave were written in the newest attempt that did so.
  appliedOf(wave) {
    return (this.waves.get(waveKey(wave))?.children ?? []).filter((child) => this.applied.has(child)).length;
  }

  // The lines in their order: the operation, each phase, its waves, their objects.
  lines() {
    const lines = [this.operation];
    let phase = null;
    for (const wave of this.waves.values()) {
      if (wave.phase !== phase?.phase) {
        phase = Object.assign(new Line(wave.phase, "phase"), { phase: wave.phase });
        lines.push(phase);
      }
      if (wave.spans.length > 0) {
        phase.spans = [{
          from: Math.min(wave.from, ...phase.spans.map((span) => span.from)), state: "", tone: "frame", why: "", attempt: 1,
          to: [...phase.spans, ...wave.spans].some((span) => span.to === null) ? null : Math.max(...[...phase.spans, ...wave.spans].map((span) => span.to)),
        }];
      }
      lines.push(wave, ...wave.children);
    }
    return lines;
  }
}
