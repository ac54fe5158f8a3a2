//! Extensions in plans, and warnings about extensions that the engine doesn't have.

use std::collections::BTreeSet;

use tidegate_health::review_annotations;
use tidegate_lifecycle::operation::{gate_error, is_built_in_gate};
use tidegate_model::{Plan, Severity, Warning, annotations};
use tidegate_planner::PlanResult;

use crate::gates::is_defined_by_name;

/// Names of the extensions registered with an engine. The `tidegate` command has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtensionNames {
    /// Valid names for `tidegate.dev/gate`, in addition to the built-in gates.
    pub gates: BTreeSet<String>,
    /// Valid names for `tidegate.dev/hook-runner`.
    pub hook_runners: BTreeSet<String>,
    /// Valid names for `tidegate.dev/health-judge`.
    pub health_judges: BTreeSet<String>,
}

impl ExtensionNames {
    /// Explains why a nonexistent gate never opens, or returns `None` if the gate exists.
    pub fn explain_missing_gate(&self, gate: &str) -> Option<String> {
        if is_built_in_gate(gate) || self.gates.contains(gate) {
            return None;
        }
        Some(match gate_error(gate) {
            Some(problem) => format!("refers to {gate:?}: {problem}"),
            None if is_defined_by_name(gate) => {
                format!(
                    "refers to {gate:?}, which is not defined; define it in the file passed to \
                     `tidegate sync --gates` or `tidegate serve --gates`"
                )
            }
            None => format!("refers to {gate:?}, which is not registered with this engine"),
        })
    }
}

/// Adds a warning to the plan for each extension that the engine lacks. A missing gate or judge blocks its
/// wave forever, and a hook fails if its runner is missing.
pub fn warn_of_missing_extensions(plan: &mut Plan, known: &ExtensionNames) {
    let mut found = Vec::new();
    let mut note = |code: &str, object: Option<String>, annotation: &str, problem: &str, effect: &str| {
        found.push(Warning {
            severity: Severity::Warning,
            code: code.to_owned(),
            object,
            origin: None,
            message: format!("{effect}: {annotation} {problem}"),
        });
    };
    for wave in &plan.waves {
        for problem in wave.gates.iter().filter_map(|gate| known.explain_missing_gate(gate)) {
            let effect = format!("wave {} of {} remains closed", wave.wave, wave.phase);
            note("missing-gate", None, annotations::GATE, &problem, &effect);
        }
    }
    let missing = |name: &str| format!("refers to {name:?}, which is not registered with this engine");
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
                "the object will never become healthy",
            );
        }
    }
    plan.warnings.append(&mut found);
}

/// Adds a warning to the plan for each object with invalid health annotations. Its health would be evaluated
/// differently than requested, or not at all.
pub fn warn_of_invalid_health_annotations(planned: &mut PlanResult) {
    let PlanResult { plan, manifests, .. } = planned;
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

    use tidegate_model::{DeletePolicy, Gvk, Hook, Phase, PlannedWave, Task};

    use super::*;

    fn plan() -> Plan {
        let hook = Hook {
            delete_policies: vec![DeletePolicy::BeforeHookCreation],
            timeout: Some(Duration::from_secs(1)),
            runner: Some("runner".into()),
        };
        let task = Task {
            hook: Some(hook),
            health_judge: Some("judge".into()),
            ..Task::new(Phase::Sync, 0, Gvk::new("batch", "v1", "Job"), "shop", "migrate")
        };
        let gates = vec!["gate".into()];
        let wave = PlannedWave { phase: Phase::Sync, wave: 0, first: 0, count: 1, timeout: None, gates };
        Plan { tasks: vec![task], waves: vec![wave], ..Plan::default() }
    }

    #[test]
    fn only_missing_extensions_are_named() {
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
