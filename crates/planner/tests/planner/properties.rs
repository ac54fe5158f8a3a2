//! Properties that every plan has.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidegate_model::{Action, Cascade, Object, ObjectKey, Phase};

use crate::support::{Case, case, crd, manifest_text, targets};

const KINDS: [&str; 9] = [
    "v1 ConfigMap",
    "v1 Secret",
    "v1 Service",
    "apps/v1 Deployment",
    "batch/v1 Job",
    "v1 Namespace",
    "rbac.authorization.k8s.io/v1 ClusterRole",
    "example.com/v1 Widget",
    "example.com/v1 Gadget",
];
const NAMES: [&str; 5] = ["a", "b", "shop", "other", "third"];
const NAMESPACES: [&str; 4] = ["", "shop/", "other/", "third/"];
const HOOKS: [&str; 11] =
    ["", "", "", "", "PreSync", "PostSync", "Sync,SyncFail", "PreSync,PostSync", "Skip", "Foo", "PreDelete"];
const OPTIONS: [&str; 6] = ["", "", "Prune=false", "Prune=confirm", "PruneLast=true", "Replace=true"];

fn any_object(tracked: bool) -> impl Strategy<Value = String> {
    let pick = |all: &'static [&'static str]| prop::sample::select(all);
    (pick(&KINDS), pick(&NAMESPACES), pick(&NAMES), -2_i64..3, pick(&HOOKS), pick(&OPTIONS)).prop_map(
        move |(kind, namespace, name, wave, hook, option)| {
            let mut annotations = format!("sync-wave={wave}");
            if !hook.is_empty() {
                annotations.push_str(&format!("; hook={hook}"));
            }
            if !option.is_empty() {
                annotations.push_str(&format!("; sync-options={option}"));
            }
            if tracked {
                annotations.push_str("; tracked");
            }
            let cluster = ["Namespace", "ClusterRole"].iter().any(|cluster| kind.ends_with(cluster));
            let namespace = match (cluster, tracked, namespace) {
                (true, _, _) => "",
                (false, true, "") => "shop/",
                (false, _, namespace) => namespace,
            };
            manifest_text(&format!("{kind} {namespace}{name}"), &annotations)
        },
    )
}

/// Generates cases whose objects have distinct keys, because only the last of several duplicates counts.
fn any_case() -> impl Strategy<Value = Case> {
    let targets = prop::collection::vec(any_object(false), 0..24);
    let live = prop::collection::vec(any_object(true), 0..12);
    let crds = prop::sample::subsequence(vec!["Widget", "Gadget"], 0..=2);
    let flags = prop::sample::subsequence(
        vec!["CreateNamespace=true", "PruneLast=true", "ApplyOutOfSyncOnly=true"],
        0..=3,
    );
    (targets, live, crds, flags, any::<bool>(), -2_i64..3).prop_map(
        |(targets, live, crds, flags, prune, wave)| {
            let mut yaml: String = targets.concat();
            for kind in crds {
                yaml.push_str(&crd(kind, &format!("sync-wave={wave}")));
            }
            let mut case =
                case(&yaml).with_live(&live.concat()).flags(&flags).options(|options| options.prune = prune);
            let mut seen = BTreeSet::new();
            case.targets.retain(|target| {
                let mut key = target.object.key();
                let cluster =
                    ["Namespace", "ClusterRole", "CustomResourceDefinition"].contains(&key.kind.as_str());
                if key.namespace.is_empty() && !cluster {
                    key.namespace = "shop".to_owned();
                }
                seen.insert(key)
            });
            let mut seen = BTreeSet::new();
            case.live.retain(|object| seen.insert(object.key()));
            case
        },
    )
}

fn hook_of(object: &Object) -> Option<&str> {
    object.annotation("argocd.argoproj.io/hook")
}

fn as_target(object: Object) -> tidegate_planner::Target {
    targets(&object.as_value().to_string()).remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_input_gives_the_same_plan(case in any_case()) {
        prop_assert_eq!(case.plan(), case.plan());
    }

    /// Operations get exactly the plan that they would make themselves, or none.
    #[test]
    fn a_comparison_gives_the_same_plan_as_planning_again(case in any_case(), shared: bool, in_sync: bool) {
        let mut case = case;
        if shared {
            case.request.options.flags.push("FailOnSharedResource=true".to_owned());
        }
        if in_sync {
            // The objects in the cluster, as a sync leaves them.
            let mut synced = case.plan().manifests;
            synced.retain(|object| case.live.iter().all(|live| live.key() != object.key()));
            case.live.extend(synced);
        }
        let has_prunes = case.compared_plan().planned.plan.tasks.iter().any(|task| task.action.is_prune());
        let reused = case.reuse(case.compared_plan());
        if !has_prunes && !shared {
            prop_assert!(reused.is_some());
        }
        if let Some(reused) = reused {
            prop_assert_eq!(reused, case.plan());
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(case in any_case(), shift in 0_usize..24, flip: bool) {
        let before = case.plan();
        let mut shuffled = case;
        let length = shuffled.targets.len().max(1);
        shuffled.targets.rotate_left(shift % length);
        let length = shuffled.live.len().max(1);
        shuffled.live.rotate_left(shift % length);
        if flip {
            shuffled.targets.reverse();
            shuffled.live.reverse();
        }
        let after = shuffled.plan();
        prop_assert_eq!(before.plan.tasks, after.plan.tasks);
        prop_assert_eq!(before.plan.waves, after.plan.waves);
        prop_assert_eq!(before.manifests, after.manifests);
        let codes = |warnings: Vec<tidegate_model::Warning>| {
            let mut codes: Vec<_> = warnings.into_iter().map(|warning| (warning.code, warning.object)).collect();
            codes.sort();
            codes
        };
        prop_assert_eq!(codes(before.plan.warnings), codes(after.plan.warnings));
    }

    #[test]
    fn every_target_is_a_task_or_left_out_with_a_reason(case in any_case()) {
        let planned = case.plan();
        let mut seen: BTreeMap<(ObjectKey, Phase), usize> = BTreeMap::new();
        for task in &planned.plan.tasks {
            *seen.entry((task.key(), task.phase)).or_default() += 1;
        }
        prop_assert!(seen.values().all(|count| *count == 1), "{seen:?}");
        let written: BTreeSet<ObjectKey> = planned
            .plan
            .tasks
            .iter()
            .filter(|task| !task.action.is_prune() && task.reason.as_str() != "required by CreateNamespace=true")
            .filter(|task| !task.reason.starts_with("required by CreateNamespace=true"))
            .map(tidegate_model::Task::key)
            .collect();
        prop_assert_eq!(written.len() + planned.excluded.len(), case.targets.len());
        prop_assert!(planned.excluded.iter().all(|left| !left.reason.is_empty() && !left.origin.is_empty()));
    }

    #[test]
    fn waves_cover_all_tasks_in_order(case in any_case()) {
        let plan = case.plan().plan;
        let mut next = 0;
        let mut last = None;
        for wave in &plan.waves {
            prop_assert_eq!(wave.first, next);
            prop_assert!(wave.count > 0);
            next += wave.count;
            let tasks = plan.tasks_of(wave);
            prop_assert!(tasks.iter().all(|task| (task.phase, task.wave) == (wave.phase, wave.wave)));
            prop_assert!(last < Some((wave.phase, wave.wave)));
            last = Some((wave.phase, wave.wave));
        }
        prop_assert_eq!(usize::try_from(next).unwrap(), plan.tasks.len());
    }

    #[test]
    fn nothing_comes_before_its_namespace_or_crd(case in any_case()) {
        let planned = case.plan();
        let position = |kind: &str, name: &str| {
            planned.plan.tasks.iter().position(|task| {
                task.manifest.is_some() && task.gvk.kind == kind && task.name == name
            })
        };
        for (index, task) in planned.plan.tasks.iter().enumerate().filter(|(_, task)| task.manifest.is_some()) {
            if let Some(namespace) = position("Namespace", &task.namespace) {
                prop_assert!(namespace < index, "{} before its namespace", task.key());
            }
            let crd = format!("{}s.example.com", task.gvk.kind.to_lowercase());
            if let Some(crd) = position("CustomResourceDefinition", &crd) {
                prop_assert!(crd < index, "{} before its CRD", task.key());
            }
        }
    }

    #[test]
    fn prunes_run_in_the_reverse_of_creation(case in any_case()) {
        let mut case = case;
        case.request.options.flags.clear();
        let planned = case.plan();
        let own_wave: BTreeMap<ObjectKey, i64> = case
            .live
            .iter()
            .filter(|object| object.annotation("argocd.argoproj.io/sync-options") != Some("PruneLast=true"))
            .map(|object| {
                let wave = object.annotation("argocd.argoproj.io/sync-wave").unwrap();
                (object.key(), wave.parse().unwrap())
            })
            .collect();
        let prunes = planned.plan.tasks.iter().filter(|task| task.action.is_prune());
        let pairs: Vec<(i64, i64)> =
            prunes.filter_map(|task| Some((task.wave, *own_wave.get(&task.key())?))).collect();
        for (wave, own) in &pairs {
            for (other_wave, other_own) in &pairs {
                prop_assert_eq!(own.cmp(other_own), other_wave.cmp(wave));
            }
        }
    }

    /// The object that is applied first is deleted last. This also holds for namespaces and the objects in
    /// them.
    #[test]
    fn a_deletion_goes_in_the_reverse_of_the_sync(case in any_case()) {
        let mut case = case;
        // The same objects, as stored after a sync.
        case.live.retain(|object| hook_of(object).is_none());
        for (number, object) in case.live.iter_mut().enumerate() {
            object.metadata_mut().insert("uid".to_owned(), format!("uid-{number}").into());
        }
        case.targets.clear();
        let synced = case.live.iter().map(|object| {
            let mut wanted = object.clone();
            wanted.metadata_mut().remove("uid");
            wanted.set_annotation("argocd.argoproj.io/sync-options", "");
            wanted
        });
        case.targets = synced.map(as_target).collect();
        let mut fresh = crate::support::case("");
        fresh.targets.clone_from(&case.targets);
        let place = |planned: &tidegate_planner::PlanResult| -> BTreeMap<ObjectKey, i64> {
            planned.plan.tasks.iter().map(|task| (task.key(), task.wave)).collect()
        };
        let (applied, deleted) = (place(&fresh.plan()), place(&case.with_inventory().for_deletion(Cascade::Foreground).plan()));
        prop_assert_eq!(applied.keys().collect::<Vec<_>>(), deleted.keys().collect::<Vec<_>>());
        for (one, wave) in &applied {
            for (other, later) in applied.iter().filter(|(_, later)| wave < *later) {
                prop_assert!(deleted[other] < deleted[one], "{other} ({later}) must be deleted before {one} ({wave})");
            }
        }
    }

    /// A deletion writes only its hooks, before and after all object deletions. If the objects are kept, it
    /// doesn't write anything.
    #[test]
    fn a_deletion_writes_hooks_alone(case in any_case(), orphan: bool) {
        let cascade = if orphan { Cascade::Orphan } else { Cascade::Background };
        let planned = case.with_inventory().for_deletion(cascade).plan();
        for task in &planned.plan.tasks {
            match task.phase {
                Phase::PreDelete | Phase::PostDelete => prop_assert!(task.is_hook() && task.action.writes_manifest()),
                phase => prop_assert!(phase == Phase::Sync && task.action.is_prune()),
            }
            prop_assert!(!orphan || task.action == Action::PruneSkipped, "{task:?}");
        }
        prop_assert!(planned.plan.waves.is_sorted_by_key(|wave| wave.phase));
    }

    #[test]
    fn only_tracked_objects_without_a_target_are_pruned(case in any_case()) {
        let planned = case.plan();
        for task in planned.plan.tasks.iter().filter(|task| task.action.is_prune()) {
            prop_assert!(task.live.is_some() && task.manifest.is_none());
            prop_assert_eq!(task.phase, Phase::Sync);
            prop_assert_eq!(task.action == Action::Prune && !case.request.options.prune, false);
        }
    }

    #[test]
    fn reading_never_panics(content in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = tidegate_planner::manifests::parse("f", &content, &tidegate_planner::Limits::default());
    }

    #[test]
    fn errors_are_safe_to_print_and_have_a_line(text in "[a-c:{}\\[\\],&*\\-?|>'\"#%@!~ \n\t\u{1b}\u{7}\u{202e}]{0,80}") {
        let errors = tidegate_planner::manifests::parse("f", text.as_bytes(), &tidegate_planner::Limits::default());
        for error in errors.err().into_iter().flatten() {
            let shown = error.to_string();
            prop_assert!(!shown.contains(|c: char| c.is_control() || c == '\u{202e}'), "{shown:?}");
            let lines = u64::try_from(text.matches('\n').count()).unwrap() + 1;
            prop_assert!((1..=lines).contains(&error.line), "{shown} of {lines} lines");
        }
    }
}
