// Model of an operation's timeline: states, waits and their reasons, derived from the recorded events. The
// events of running and finished operations have the same format.

import { TimelineRow } from "./timeline-row.js";

// States in which the operation is waiting.
const WAITS = new Set(["Held", "AwaitingHealth", "AwaitingGone", "Settling", "AwaitingRetry"]);
// Maximum number of a wave's objects that are listed as the reason for waiting.
const NAMES_MAX = 3;
const HEALTH = { Healthy: "good", Progressing: "wait", Degraded: "bad", Missing: "warn", Suspended: "wait", Unknown: "dull" };
const getKey = (object) => `${object.group ?? ""}/${object.kind}/${object.namespace}/${object.name}`;
const getWaveKey = ({ phase, wave }) => `${phase} ${wave}`;
const DELETION_WAIT = "waiting for deletion";
const CALL_FAILED = "Call failed";
const joinLabels = (rows) => [...rows.slice(0, NAMES_MAX).map((row) => row.label), ...(rows.length > NAMES_MAX ? [`${rows.length - NAMES_MAX} more`] : [])].join(", ");
// Describes the operation that holds the claim, and the process that runs it. A successor has no ID until the operation that
// it supersedes has ended.
const formatHolder = (holder) => [holder?.operation ? `operation ${holder.operation}` : "another sync", holder?.identity].filter(Boolean).join(" of ");
const withReason = (what, reason) => (reason ? `${what}: ${reason}` : what);

// Methods that apply the events, by kind. Events of other kinds have no visible effect.
const HANDLERS = {
  accepted: "onAccepted", planned: "onPlanned", "stage-changed": "onStageChanged", "gate-evaluated": "onGateEvaluated",
  applied: "onApplied", "runner-started": "onRunnerStarted", "health-changed": "onHealthChanged", "reason-changed": "onReasonChanged",
  "call-failed": "onCallFailed", "hook-name-in-use": "onHookNameInUse", "deletion-started": "onDeletionStarted",
  "recreation-started": "onRecreationStarted", "object-deleted": "onObjectDeleted", "deletion-completed": "onDeletionCompleted",
  "task-completed": "onTaskEnded", "task-failed": "onTaskEnded", "hook-stopped": "onHookStopped", "dry-run-failed": "onDryRunFailed",
  "deadline-exceeded": "onDeadlineExceeded", "claim-changed": "onClaimChanged", paused: "onPaused", unpaused: "onUnpaused",
  approved: "onApproved", overridden: "onOverridden", "prune-confirmed": "onPruneConfirmed",
  "termination-requested": "onTerminationRequested", "attempt-failed": "onAttemptFailed", "retry-started": "onRetryStarted",
  "replan-started": "onRetryStarted", "stored-plan-used": "onStoredPlanUsed", finished: "onFinished", "logs-stored": "onLogsStored",
};

export class TimelineModel {
  constructor() {
    Object.assign(this, { lastSequence: 0, at: null, attempt: 1, wave: null, plan: [], isFinished: false, request: null });
    this.operation = new TimelineRow("Operation", "operation");
    this.waves = new Map();
    this.objects = new Map();
    this.applied = new Map();
    // Logs of failed hooks, by attempt and hook.
    this.logs = new Map();
    // State and reason before the operation was paused; null unless the operation is paused.
    this.stateBeforePause = null;
  }

  get from() {
    return this.operation.from;
  }

  addEvents(events) {
    for (const event of events) {
      if (event.sequence <= this.lastSequence) continue;
      this.lastSequence = event.sequence;
      if (event.at) this.at = Math.max(new Date(event.at).getTime(), this.at ?? 0);
      this.applyEvent(event, event.details ?? {}, this.at ?? 0);
    }
  }

  applyEvent(event, details, at) {
    const handler = HANDLERS[event.kind];
    // An override contains its wave, which may differ from the current wave.
    const wave = event.kind === "overridden" && details.phase ? details : this.wave;
    if (handler) this[handler](details, at, event.object ? this.findRow(event.object, wave) : null, event);
  }

  // Returns the row of an object, preferably in the given wave, because a hook can run in several waves.
  findRow(object, wave) {
    const rowKey = getKey(object);
    const waveObjectKey = wave ? `${getWaveKey(wave)} ${rowKey}` : null;
    if (waveObjectKey && this.objects.has(waveObjectKey)) return this.objects.get(waveObjectKey);
    return [...this.objects].find(([name]) => name.endsWith(` ${rowKey}`))?.[1] ?? null;
  }

  // Returns true if a call for an object has failed and will be retried soon.
  isAwaitingCall({ syncPhase, wave, ...object }) {
    return this.objects.get(`${getWaveKey({ phase: syncPhase, wave })} ${getKey(object)}`)?.openSpan?.state === CALL_FAILED;
  }

  getWaveRow(wave) {
    const rowKey = getWaveKey(wave);
    if (!this.waves.has(rowKey)) {
      const row = new TimelineRow(`${wave.phase}, wave ${wave.wave}`, "wave");
      Object.assign(row, { phase: wave.phase, wave: wave.wave });
      this.waves.set(rowKey, row);
    }
    return this.waves.get(rowKey);
  }

  onAccepted(details, at) {
    this.request = details;
    this.operation.beginSpan(at, "Planning", "busy", "", 1);
    if (details.reason) this.operation.addMark(at, withReason(`requested by ${details.initiatedBy}`, details.reason), "busy");
  }

  onPlanned(details) {
    this.plan = details.waves ?? [];
    for (const wave of this.plan) {
      const row = this.getWaveRow(wave);
      row.gates = wave.gates ?? [];
      for (const task of wave.tasks) {
        const rowKey = `${getWaveKey(wave)} ${getKey(task)}`;
        if (this.objects.has(rowKey)) continue;
        const name = `${task.hook ? "hook " : ""}${task.kind} ${task.namespace ? `${task.namespace}/` : ""}${task.name}`;
        const child = Object.assign(new TimelineRow(name, "object"), { wave: row, action: task.action, isHook: Boolean(task.hook) });
        this.objects.set(rowKey, child);
        row.children.push(child);
      }
    }
  }

  // Returns the planned tasks of a wave.
  getTasks({ phase, wave }) {
    return this.plan.find((planned) => planned.phase === phase && planned.wave === wave)?.tasks ?? [];
  }

  onStageChanged(details, at) {
    const isWait = WAITS.has(details.state);
    let reason = details.state === "AwaitingRetry" ? this.failure ?? "" : "";
    const previousWave = this.wave;
    this.wave = details.phase ? { phase: details.phase, wave: details.wave } : null;
    if (previousWave) this.getWaveRow(previousWave).endSpan(at);
    if (this.wave && details.state === "Passed") {
      this.getWaveRow(this.wave).addMark(at, "passed", "good");
      this.getWaveRow(this.wave).outcome = "Passed";
      // There is no event for the completion of objects whose health is not awaited.
      this.getWaveRow(this.wave).children.filter((child) => child.openSpan && child.state === "Applied").forEach((child) => {
        child.endSpan(at);
        child.outcome = "Succeeded";
      });
    } else if (this.wave) {
      const row = this.getWaveRow(this.wave);
      reason = this.describeWait(details.state, row);
      row.beginSpan(at, details.state, isWait ? "wait" : "busy", reason, this.attempt);
    }
    // The operation remains paused until it is resumed.
    if (this.stateBeforePause !== null) this.stateBeforePause = { state: details.state, reason };
    else this.operation.beginSpan(at, details.state, isWait ? "wait" : "busy", reason, this.attempt);
  }

  // Describes why a wave in the given state is waiting.
  describeWait(state, row) {
    if (state === "Held" && row.gates?.length > 0) return `waiting for gate ${row.gates.join(", ")}`;
    if (state === "Held") return row.children.some((child) => child.action === "prune") ? "waiting for pruning to be confirmed" : "";
    if (state === "Settling") return "all objects are healthy, and must stay healthy for the soak time";
    if (state !== "AwaitingHealth" && state !== "AwaitingGone") return "";
    const openRows = row.children.filter((child) => child.openSpan && child.openSpan.tone !== "good");
    const deleting = openRows.filter((child) => child.openSpan.state === "Deleting");
    const hooks = openRows.filter((child) => child.isHook && !deleting.includes(child));
    // In a plan with a single wave, the operation waits only for hooks.
    const resources = this.plan.length > 1 ? openRows.filter((child) => !child.isHook && !deleting.includes(child)) : [];
    const parts = [["the health of", resources], ["the completion of", hooks], ["the deletion of", deleting]].filter(([, rows]) => rows.length > 0);
    if (parts.length === 0) return state === "AwaitingGone" ? "waiting for the deletion of older objects" : "";
    return `waiting for ${parts.map(([what, rows]) => `${what} ${joinLabels(rows)}`).join(" and ")}`;
  }

  onGateEvaluated(details, at) {
    const row = this.wave ? this.getWaveRow(this.wave) : null;
    for (const span of [row?.openSpan, this.operation.openSpan]) {
      if (span?.state === "Held" && !details.open) span.reason = `gate ${details.gate}: ${details.reason}`;
    }
    row?.addMark(at, details.open ? `gate ${details.gate} is open` : `gate ${details.gate} is closed: ${details.reason}`, details.open ? "good" : "wait");
  }

  recordWrite(row, at) {
    if (row) this.applied.set(row, at);
  }

  onApplied(details, at, row) {
    this.recordWrite(row, at);
    row?.beginSpan(at, details.done ? "Succeeded" : "Applied", details.done ? "good" : "wait",
      [details.message, details.done ? null : row.awaitedText].filter(Boolean).join("; "), this.attempt);
    if (details.done) row?.endSpan(at);
  }

  onRunnerStarted(details, at, row) {
    this.recordWrite(row, at);
    row?.beginSpan(at, "Running", "wait", "started by its runner; waiting for completion", this.attempt);
  }

  onHealthChanged(details, at, row) {
    if (!row) return;
    const message = details.message || (HEALTH[details.status] === "wait" ? row.awaitedText : "");
    const reason = details.current === false ? `${message || details.status} (may reflect an older spec)` : message;
    if (row.openSpan?.state === details.status) row.openSpan.reason = reason || row.openSpan.reason;
    else row.beginSpan(at, details.status, HEALTH[details.status] ?? "dull", reason, this.attempt);
  }

  onReasonChanged(details, at, row) {
    if (row?.openSpan && details.reason) row.openSpan.reason = details.reason;
  }

  onCallFailed(details, at, row) {
    (row ?? this.operation).beginSpan(at, CALL_FAILED, "wait", details.message, this.attempt);
  }

  onHookNameInUse(details, at, row) {
    if (details.operation) row?.beginSpan(at, "Name in use", "wait", `operation ${details.operation} uses this name`, this.attempt);
    else row?.endSpan(at);
  }

  onDeletionStarted(details, at, row) {
    this.recordWrite(row, at);
    row?.beginSpan(at, "Deleting", "wait", DELETION_WAIT, this.attempt);
  }

  onRecreationStarted(details, at, row) {
    row?.beginSpan(at, "Deleting", "wait", `will be recreated; ${DELETION_WAIT}`, this.attempt);
  }

  onObjectDeleted(details, at, row) {
    this.recordWrite(row, at);
    row?.beginSpan(at, "Deleted", "good", "", this.attempt);
    row?.endSpan(at);
  }

  onDeletionCompleted(details, at, row) {
    if (row?.openSpan) row.outcome = "Deleted";
    row?.endSpan(at);
    row?.addMark(at, "deleted", "good");
  }

  onTaskEnded(details, at, row) {
    if (!row) return;
    const isGood = details.phase === "Succeeded";
    if (row.spans.length === 0) row.beginSpan(at, details.phase, isGood ? "good" : "bad", details.message, this.attempt);
    row.endSpan(at);
    // The wait keeps its reason. The message is used only if the wait has no reason.
    if (isGood) row.spans.at(-1).reason ||= details.message;
    row.outcome = details.phase;
    row.addMark(at, withReason(details.phase, details.message), isGood ? "good" : "bad");
  }

  onHookStopped(details, at, row) {
    this.onTaskEnded({ ...details, message: details.message || "stopped" }, at, row);
  }

  onDryRunFailed(details, at, row) {
    row?.beginSpan(at, "Rejected", "bad", details.message, this.attempt);
    row?.endSpan(at);
  }

  onDeadlineExceeded(details, at, row) {
    (row ?? (details.scope === "wave" && this.wave ? this.getWaveRow(this.wave) : this.operation)).addMark(at, `deadline passed: ${details.message}`, "bad");
  }

  onClaimChanged(details, at) {
    const isWait = details.change === "held-by-other" || details.change === "possibly-held-by-other";
    if (isWait) this.operation.beginSpan(at, "Waiting for the claim", "wait", `held by ${formatHolder(details.holder)}`, this.attempt);
    else if (this.operation.openSpan?.state === "Waiting for the claim") this.operation.beginSpan(at, "Planning", "busy", "", this.attempt);
  }

  onPaused(details, at) {
    const { state, reason = "" } = this.operation.spans.at(-1) ?? { state: "" };
    this.stateBeforePause = { state, reason };
    this.operation.addMark(at, withReason(`paused by ${details.by}`, details.reason), "wait");
    this.operation.beginSpan(at, "Paused", "wait", withReason(`paused by ${details.by}`, details.reason), this.attempt);
  }

  onUnpaused(details, at) {
    const { state, reason } = this.stateBeforePause ?? { state: "", reason: "" };
    this.operation.beginSpan(at, state, WAITS.has(state) || state === "Waiting for the claim" ? "wait" : "busy", reason, this.attempt);
    this.operation.addMark(at, withReason(`resumed by ${details.by}`, details.reason), "good");
    this.stateBeforePause = null;
  }

  onApproved(details, at) {
    this.operation.addMark(at, withReason(`wave ${details.number} approved by ${details.by}`, details.reason), "good");
  }

  onStoredPlanUsed(details, at) {
    const approvals = details.approvals.map(({ by, reason }) => `, approved by ${by}${reason ? ` (${reason})` : ""}`);
    this.operation.addMark(at, `executing plan ${details.hash.slice(0, 12)}${approvals.join("")}`, "good");
  }

  onOverridden(details, at, row) {
    const reason = `${details.action} by ${details.by}${details.reason ? ` (${details.reason})` : ""}`;
    const isRetry = details.action === "retried";
    (row ?? this.operation).addMark(at, reason, isRetry ? "busy" : "warn");
    if (!row || isRetry) return;
    if (row.spans.length === 0) row.beginSpan(at, details.action, "dull", reason, this.attempt);
    row.endSpan(at);
    row.outcome = details.action;
  }

  onLogsStored(details, at, row, { object }) {
    if (object && details.logs?.length > 0) this.logs.set(`${this.attempt} ${getKey(object)}`, { attempt: this.attempt, object, logs: details.logs });
  }

  onPruneConfirmed(details, at) {
    this.operation.addMark(at, withReason(`prunes confirmed by ${details.by}`, details.reason), "good");
  }

  onTerminationRequested(details, at) {
    this.operation.addMark(at, withReason(`terminated by ${details.by}`, details.reason), "warn");
  }

  onAttemptFailed(details, at) {
    this.failure = details.message;
    this.operation.addMark(at, `attempt ${this.attempt} failed: ${details.message}`, "bad");
    this.endWave("Failed");
    this.endAll(at);
  }

  onRetryStarted(details, at) {
    this.attempt = details.attempt;
    this.operation.beginSpan(at, `Attempt ${details.attempt}`, "busy", "", this.attempt);
    this.operation.addMark(at, `attempt ${details.attempt} started`, "busy");
  }

  onFinished(details, at) {
    this.isFinished = true;
    this.endWave(details.phase === "Succeeded" ? "Passed" : "Stopped");
    this.endAll(at);
    this.operation.endSpan(at);
    this.operation.outcome = details.phase;
    this.operation.addMark(at, `${details.phase}: ${details.message}`, details.phase === "Succeeded" ? "good" : "bad");
  }

  // Sets the outcome of the running wave.
  endWave(outcome) {
    for (const row of this.waves.values()) {
      if (row.openSpan) row.outcome = outcome;
    }
  }

  endAll(at) {
    [...this.waves.values(), ...this.objects.values()].forEach((row) => row.endSpan(at));
  }

  // Returns a wave's total duration in all attempts, in milliseconds, or null if the wave has not started.
  getWaveDuration(wave, now) {
    const row = this.waves.get(getWaveKey(wave));
    return row?.spans.length > 0 ? row.getDuration(now) : null;
  }

  // Counts the objects of a wave that were written.
  countApplied(wave) {
    return (this.waves.get(getWaveKey(wave))?.children ?? []).filter((child) => this.applied.has(child)).length;
  }

  // Returns the rows in order: the operation, then each phase with its waves and their objects.
  rows() {
    const rows = [this.operation];
    let phase = null;
    for (const wave of this.waves.values()) {
      if (wave.phase !== phase?.phase) {
        phase = Object.assign(new TimelineRow(wave.phase, "phase"), { phase: wave.phase });
        rows.push(phase);
      }
      if (wave.spans.length > 0) {
        phase.spans = [{
          from: Math.min(wave.from, ...phase.spans.map((span) => span.from)), state: "", tone: "frame", reason: "", attempt: 1,
          to: [...phase.spans, ...wave.spans].some((span) => span.to === null) ? null : Math.max(...[...phase.spans, ...wave.spans].map((span) => span.to)),
        }];
      }
      rows.push(wave, ...wave.children);
    }
    return rows;
  }
}
