//! Which extensions a plan names, and which of them the engine does not have.

use std::collections::BTreeSet;

use tidegate_health::review_annotations;
use tidegate_lifecycle::operation::{gate_problem, is_known_gate};
use tidegate_model::{Plan, Severity, Warning, annotations};
use tidegate_planner::Planned;

use crate::gates::is_defined_by_name;

/// The names of the extensions an engine has. The `tidegate` command has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtensionNames {
    /// Names that `tidegate.dev/gate` may give, besides those that every engine has.
    pub gates: BTreeSet<String>,
    /// Names that `tidegate.dev/hook-runner` may give.
    pub hook_runners: BTreeSet<String>,
    /// Names that `tidegate.dev/health-judge` may give.
    pub health_judges: BTreeSet<String>,
}

impl ExtensionNames {
    /// Why a gate never opens: nobody has it. `None` for one that may open.
    pub fn why_never(&self, gate: &str) -> Option<String> {
        if is_known_gate(gate) || self.gates.contains(gate) {
            return None;
        }
        Some(match gate_problem(gate) {
            Some(problem) => format!("names {gate:?}: {problem}"),
            None if is_defined_by_name(gate) => {
                format!("names {gate:?}, which nobody has defined; name a file that does with --gates")
            }
            None => format!("names {gate:?}, which this engine does not have"),
        })
    }
}

/// Adds a warning to the plan for every extension it names and the engine does not have: a gate or judge that nobody
/// has never lets its wave pass, and a hook nobody can run fails.
pub fn warn_of_missing_extensions(plan: &mut Plan, known: &ExtensionNames) {
    let mut found = Vec::new();
    let mut note = |code: &str, object: Option<String>, annotation: &str, problem: &str, effect: &str| {
        found.push(Warning {
            severity: Severity::Warning,
            code: code.to_owned(),
            object,
            origin: None,
            message: format!("{annotation} {problem}: {effect}"),
        });
    };
    for wave in &plan.waves {
        for problem in wave.gates.iter().filter_map(|gate| known.why_never(gate)) {
            let effect = format!("wave {} of {} stays closed", wave.wave, wave.phase);
            note("missing-gate", None, annotations::GATE, &problem, &effect);
        }
    }
    let missing = |name: &str| format!("names {name:?}, which this engine does not have");
    for task in &plan.tasks {
        let object = || Some(task.key().to_string());
        if let Some(runner) = task.hook.as_ref().and_then(|hook| hook.runner.as_ref())
            && !known.hook_runners.contains(runner)
        {
            note(
                "missing-hook-runner",
                object(),
                annotations::HOOK_RUNNER,
                &missing(runner),
                "the hook will fail",
            );
        }
        if let Some(judge) = task.health_judge.as_ref().filter(|judge| !known.health_judges.contains(*judge))
        {
            note(
                "missing-health-judge",
                object(),
                annotations::HEALTH_JUDGE,
                &missing(judge),
                "it never counts as healthy",
            );
        }
    }
    plan.warnings.append(&mut found);
}

/// Adds a warning to the plan for every object whose annotations about its health cannot be used: it would be judged in
/// another way than it asks for, or never.
pub fn review_health(planned: &mut Planned) {
    let Planned { plan, manifests, .. } = planned;
    let problems = plan.tasks.iter().flat_map(|task| {
        let manifest = task.manifest.and_then(|manifest| manifests.get(manifest.index()));
        let problems = manifest.map(review_annotations).unwrap_or_default();
        problems.into_iter().map(|(code, message)| Warning {
            severity: Severity::Warning,
            code: code.to_owned(),
            object: Some(task.key().to_string()),
            origin: None,
            message,
        })
    });
    let mut found: Vec<Warning> = problems.collect();
    plan.warnings.append(&mut found);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_model::{Action, DeletePolicy, Gvk, Hook, Phase, PlannedWave, Task, TaskOptions};

    use super::*;

    fn plan() -> Plan {
        let hook = Hook {
            delete_policies: vec![DeletePolicy::BeforeHookCreation],
            timeout: Some(Duration::from_secs(1)),
            runner: Some("runner".into()),
        };
        let task = Task {
            phase: Phase::Sync,
            wave: 0,
            gvk: Gvk::new("batch", "v1", "Job"),
            namespace: "shop".into(),
            name: "migrate".into(),
            action: Action::Create,
            hook: Some(hook),
            reason: String::new(),
            manifest: None,
            live: None,
            options: TaskOptions::default(),
            health_judge: Some("judge".into()),
            images: Vec::new(),
            error: None,
        };
        let gates = vec!["gate".into()];
        let wave = PlannedWave { phase: Phase::Sync, wave: 0, first: 0, count: 1, timeout: None, gates };
        Plan { tasks: vec![task], waves: vec![wave], ..Plan::default() }
    }

    #[test]
    fn what_nobody_has_is_named_and_what_somebody_has_is_not() {
        let mut missing = plan();
        warn_of_missing_extensions(&mut missing, &ExtensionNames::default());
        let codes: Vec<&str> = missing.warnings.iter().map(|warning| warning.code.as_str()).collect();
        assert_eq!(codes, ["missing-gate", "missing-hook-runner", "missing-health-judge"]);
        let mut complete = plan();
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        let known =
            ExtensionNames { gates: set("gate"), hook_runners: set("runner"), health_judges: set("judge") };
        warn_of_missing_extensions(&mut complete, &known);
        assert_eq!(complete.warnings, []);
    }
}
