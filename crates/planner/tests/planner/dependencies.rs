//! Dependencies between objects: resolution to tasks, and errors.

use proptest::prelude::*;
use tidegate_model::{Cascade, SyncOptions, TaskDependency};
use tidegate_planner::PlanResult;

use crate::support::{Case, case, codes, crd, manifest_text, manifest_texts};

const ON: &str = "tidegate.dev/depends-on";

pub fn depends_on(entries: &str) -> String {
    format!("{ON}={entries}")
}

/// Returns the dependencies as text, such as `Deployment shop/api < ConfigMap shop/settings`.
pub fn edges(planned: &PlanResult) -> Vec<String> {
    let name = |id| planned.plan.task(id).unwrap().key();
    let line = |one: &TaskDependency| format!("{} < {}", name(one.dependent), name(one.dependency));
    planned.plan.dependencies.iter().map(line).collect()
}

pub fn messages(case: &Case) -> Vec<String> {
    case.plan()
        .plan
        .warnings
        .into_iter()
        .map(|warning| format!("{}: {}", warning.code, warning.message))
        .collect()
}

#[test]
fn dependencies_in_the_same_wave_become_edges() {
    let yaml = manifest_texts(&[
        ("apps/v1 Deployment api", &depends_on("apps:Deployment:shop/database, :ConfigMap:shop/settings")),
        ("apps/v1 Deployment database", ""),
        ("v1 ConfigMap settings", &depends_on("apps:Deployment:database,apps:Deployment:shop/database")),
        ("v1 ConfigMap early", "sync-wave=-1"),
        ("v1 ConfigMap other", &depends_on(":ConfigMap:early")),
        ("batch/v1 Job before", "hook=PreSync"),
        ("batch/v1 Job with", &format!("hook=Sync; {}", depends_on("batch:Job:before, apps:Deployment:api"))),
        ("batch/v1 Job after", &format!("hook=PostSync; {}", depends_on("apps:Deployment:api"))),
        (
            "batch/v1 Job rescue",
            &format!("hook=SyncFail; {}", depends_on("apps:Deployment:api, batch:Job:alarm")),
        ),
        ("batch/v1 Job alarm", "hook=SyncFail"),
        (
            "argoproj.io/v1alpha1 Application child",
            &format!("sync-options=SkipDryRunOnMissingResource=true; {}", depends_on("other, ns/another")),
        ),
    ]);
    let planned = case(&yaml).plan();
    assert_eq!(codes(&planned), Vec::<String>::new());
    assert_eq!(
        edges(&planned),
        [
            "ConfigMap shop/settings < Deployment shop/database",
            "Deployment shop/api < ConfigMap shop/settings",
            "Deployment shop/api < Deployment shop/database",
            "Job shop/with < Deployment shop/api",
            "Job shop/rescue < Job shop/alarm",
        ]
    );
}

#[test]
fn a_hook_in_several_phases_satisfies_a_dependency_in_the_first_possible_phase() {
    let yaml = manifest_texts(&[
        ("batch/v1 Job both", "hook=PreSync,PostSync"),
        ("v1 ConfigMap a", &depends_on("batch:Job:both")),
        ("batch/v1 Job before", &format!("hook=PreSync; {}", depends_on("batch:Job:both"))),
    ]);
    assert_eq!(edges(&case(&yaml).plan()), ["Job shop/before < Job shop/both"]);
}

#[test]
fn wrong_dependencies_are_errors_that_name_both_objects() {
    let table: [(&str, &str, &str); 9] = [
        (
            ":ConfigMap:later",
            "dependency-in-later-wave",
            "ConfigMap shop/a depends on ConfigMap shop/later, which is applied later, in wave 1 of Sync; move",
        ),
        (
            "batch:Job:post",
            "dependency-in-later-wave",
            "depends on Job shop/post, which is applied later, in wave 0 of PostSync",
        ),
        (
            ":ConfigMap:old",
            "dependency-is-pruned",
            "ConfigMap shop/a depends on ConfigMap shop/old, which this operation prunes",
        ),
        (
            ":ConfigMap:shop/latr",
            "unknown-dependency",
            "depends on :ConfigMap:shop/latr, which is not in the manifests; did you mean :ConfigMap:shop/later?",
        ),
        (":configmap:other/later", "unknown-dependency", "did you mean :ConfigMap:shop/later?"),
        (
            "apps:Deployment:shop/database",
            "external-dependency",
            "apps:Deployment:shop/database, which is not in the manifests, and Tidegate cannot wait for other objects yet",
        ),
        (
            "later",
            "invalid-dependency",
            "invalid entry \"later\" in the tidegate.dev/depends-on annotation: use GROUP:KIND:NAMESPACE/NAME",
        ),
        (":ConfigMap:later?", "invalid-dependency", "is optional"),
        (
            ":ConfigMap:a",
            "dependency-cycle",
            "dependencies form a cycle: ConfigMap shop/a → ConfigMap shop/a; remove",
        ),
    ];
    for (entry, code, part) in table {
        let yaml = manifest_texts(&[
            ("v1 ConfigMap a", &depends_on(entry)),
            ("v1 ConfigMap later", "sync-wave=1"),
            ("batch/v1 Job post", "hook=PostSync"),
        ]);
        let case = case(&yaml).with_live(&manifest_text("v1 ConfigMap shop/old", "tracked"));
        let found = messages(&case);
        assert!(
            found.len() == 1 && found[0].starts_with(code) && found[0].contains(part),
            "{entry}: {found:?}"
        );
        let planned = case.plan();
        assert_eq!(planned.plan.dependencies, [], "{entry}");
        assert!(planned.plan.tasks.iter().any(|task| task.name == "a" && task.error.is_some()), "{entry}");
    }
}

/// SyncFail hooks run after a failure. Nothing else can satisfy a wrong dependency of theirs either.
#[test]
fn dependencies_of_syncfail_hooks_are_reviewed() {
    for (entry, codes_expected) in [
        ("apps:Deployment:api", &[][..]),
        ("batch:Job:alrm", &["!unknown-dependency"]),
        ("batch:Job:alarm", &["!dependency-in-later-wave"]),
    ] {
        let yaml = manifest_texts(&[
            ("apps/v1 Deployment api", ""),
            ("batch/v1 Job rescue", &format!("hook=SyncFail; {}", depends_on(entry))),
            ("batch/v1 Job alarm", "hook=SyncFail; sync-wave=1"),
        ]);
        assert_eq!(codes(&case(&yaml).plan()), codes_expected, "{entry}");
    }
}

/// The namespace of `CreateNamespace=true` is part of the manifests, whether or not it exists already.
#[test]
fn an_object_can_depend_on_the_created_namespace() {
    let yaml = manifest_text("v1 ConfigMap a", &depends_on(":Namespace:shop"));
    let case = case(&yaml)
        .options(|options: &mut SyncOptions| options.flags.push("CreateNamespace=true".to_owned()));
    assert_eq!(codes(&case.plan()), Vec::<String>::new());
    let existing = case.with_live(&manifest_text("v1 Namespace shop", ""));
    assert_eq!(codes(&existing.plan()), Vec::<String>::new());
}

/// The annotation has no effect on an ApplicationSet or a project.
#[test]
fn other_kinds_of_argo_cd_have_no_dependencies() {
    for kind in ["ApplicationSet", "AppProject"] {
        let settings = format!("sync-options=SkipDryRunOnMissingResource=true; {}", depends_on("platform"));
        let yaml = manifest_text(&format!("argoproj.io/v1alpha1 {kind} one"), &settings);
        let planned = case(&yaml).plan();
        assert!(planned.plan.errors().is_empty(), "{kind}: {:?}", codes(&planned));
    }
}

/// Cycles of pruned objects don't affect the order of writes.
#[test]
fn cycles_of_prunes_keep_the_order_of_writes() {
    let yaml = manifest_texts(&[("v1 ConfigMap a", &depends_on(":ConfigMap:b")), ("v1 ConfigMap b", "")]);
    let pair = |number: usize| {
        let [one, other] = [number * 2, number * 2 + 1];
        let tracked = |on: usize| format!("tracked; {}", depends_on(&format!(":ConfigMap:c{on}")));
        manifest_texts(&[
            (&format!("v1 ConfigMap shop/c{one}"), &tracked(other)),
            (&format!("v1 ConfigMap shop/c{other}"), &tracked(one)),
        ])
    };
    let planned = case(&yaml).with_live(&(0..30).map(pair).collect::<String>()).plan();
    assert_eq!(edges(&planned), ["ConfigMap shop/a < ConfigMap shop/b"]);
}

#[test]
fn a_cycle_is_shown_completely() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", &depends_on(":ConfigMap:b")),
        ("v1 ConfigMap b", &depends_on(":ConfigMap:d, :ConfigMap:c")),
        ("v1 ConfigMap c", &depends_on(":ConfigMap:a")),
        ("v1 ConfigMap d", ""),
        ("v1 ConfigMap e", &depends_on(":ConfigMap:a")),
        ("v1 Secret x", &depends_on(":Secret:y")),
        ("v1 Secret y", &depends_on(":Secret:x")),
    ]);
    let case = case(&yaml);
    assert_eq!(
        messages(&case),
        [
            "dependency-cycle: dependencies form a cycle: ConfigMap shop/a → ConfigMap shop/b → ConfigMap shop/c → ConfigMap shop/a; remove one of these dependencies",
            "dependency-cycle: dependencies form a cycle: Secret shop/x → Secret shop/y → Secret shop/x; remove one of these dependencies",
        ]
    );
    assert_eq!(
        edges(&case.plan()),
        ["ConfigMap shop/b < ConfigMap shop/d", "ConfigMap shop/e < ConfigMap shop/a"]
    );
}

/// An operation must be able to delete objects with any number of cycles.
#[test]
fn many_cycles_of_pruned_objects_are_ignored() {
    let pair = |number: usize| {
        let [one, other] = [number * 2, number * 2 + 1];
        manifest_texts(&[
            (
                &format!("v1 ConfigMap shop/c{one}"),
                &format!("tracked; {}", depends_on(&format!(":ConfigMap:c{other}"))),
            ),
            (
                &format!("v1 ConfigMap shop/c{other}"),
                &format!("tracked; {}", depends_on(&format!(":ConfigMap:c{one}"))),
            ),
        ])
    };
    for count in [19, 20, 30] {
        let planned = case("").with_live(&(0..count).map(pair).collect::<String>()).plan();
        assert_eq!((codes(&planned).len(), edges(&planned).len()), (count.min(20), 0));
        assert!(planned.plan.errors().is_empty());
    }
}

#[test]
fn prunes_follow_the_reverse_order() {
    let live = manifest_texts(&[
        (
            "apps/v1 Deployment shop/api",
            &format!(
                "tracked; {}",
                depends_on("apps:Deployment:shop/database, :ConfigMap:shop/kept, nonsense")
            ),
        ),
        ("apps/v1 Deployment shop/database", &format!("tracked; {}", depends_on(":Secret:shop/password"))),
        ("v1 Secret shop/password", "tracked"),
        ("v1 ConfigMap shop/kept", "tracked; sync-options=Prune=false,Delete=false"),
        ("v1 ConfigMap shop/x", &format!("tracked; {}", depends_on(":ConfigMap:shop/y"))),
        ("v1 ConfigMap shop/y", &format!("tracked; {}", depends_on(":ConfigMap:shop/x"))),
    ]);
    let expected =
        ["Secret shop/password < Deployment shop/database", "Deployment shop/database < Deployment shop/api"];
    let pruning = case("").with_live(&live);
    assert_eq!(edges(&pruning.plan()), expected);
    assert_eq!(codes(&pruning.plan()), ["dependency-cycle"], "only a warning");
    assert_eq!(edges(&case("").with_live(&live).for_deletion(Cascade::Foreground).plan()), expected);
    let skipped = case("").with_live(&live).options(|options: &mut SyncOptions| options.prune = false);
    assert_eq!(edges(&skipped.plan()), Vec::<String>::new());
}

#[test]
fn skipped_objects_have_no_effect_as_dependencies() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", &depends_on(":ConfigMap:b, :ConfigMap:skipped")),
        ("v1 ConfigMap b", ""),
        ("v1 ConfigMap skipped", "hook=Skip"),
    ]);
    let planned = case(&yaml).plan();
    assert_eq!(
        (codes(&planned), edges(&planned)),
        (vec!["skipped".to_owned()], vec!["ConfigMap shop/a < ConfigMap shop/b".to_owned()])
    );
    let planned = case(&yaml).select(&[":ConfigMap:a"]).plan();
    assert_eq!(edges(&planned), Vec::<String>::new());
    assert!(!codes(&planned).iter().any(|code| code.starts_with('!')), "{:?}", codes(&planned));
}

#[test]
fn objects_wait_for_a_definition_or_namespace_that_has_dependencies() {
    let yaml = crd("Widget", &depends_on(":ConfigMap:shop/a"))
        + &manifest_texts(&[
            ("v1 ConfigMap a", ""),
            ("example.com/v1 Widget w", ""),
            ("v1 Namespace inner", &depends_on(":ConfigMap:shop/a")),
            ("v1 Secret inner/s", ""),
        ]);
    assert_eq!(
        edges(&case(&yaml).plan()),
        [
            "Namespace inner < ConfigMap shop/a",
            "Secret inner/s < Namespace inner",
            "CustomResourceDefinition widgets.example.com < ConfigMap shop/a",
            "Widget shop/w < CustomResourceDefinition widgets.example.com",
        ]
    );
}

#[test]
fn an_operation_reuses_the_dependencies_of_the_comparison() {
    let yaml =
        manifest_texts(&[("v1 ConfigMap a", &depends_on(":ConfigMap:b")), ("v1 ConfigMap b", "tracked")]);
    let case = case(&yaml).with_live(&manifest_text("v1 ConfigMap shop/b", "tracked"));
    let compared = case.compared_plan();
    assert_eq!(edges(&compared.planned), ["ConfigMap shop/a < ConfigMap shop/b"]);
    assert_eq!(case.reuse(compared), Some(case.plan()));
}

#[test]
fn a_plan_without_dependencies_keeps_its_document() {
    let plain = case(&manifest_text("v1 ConfigMap a", "")).plan().plan;
    let document = serde_json::to_value(&plain).unwrap();
    assert_eq!(document.get("dependencies"), None);
    assert_eq!(serde_json::from_value::<tidegate_model::Plan>(document).unwrap(), plain);
    let yaml = manifest_texts(&[("v1 ConfigMap a", &depends_on(":ConfigMap:b")), ("v1 ConfigMap b", "")]);
    let plan = case(&yaml).plan().plan;
    let document = serde_json::to_value(&plan).unwrap();
    assert_eq!(document["dependencies"], serde_json::json!([{"dependent": 0, "dependency": 1}]));
    assert_eq!(serde_json::from_value::<tidegate_model::Plan>(document).unwrap(), plan);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares the plan with the declared pairs. A pair contradicts the waves, or is satisfied by them, or
    /// becomes an edge.
    #[test]
    fn each_declared_dependency_is_an_edge_an_error_or_satisfied_by_the_waves(
        pairs in proptest::collection::vec((0_usize..12, 0_usize..12), 0..24),
        waves in proptest::collection::vec(0_i64..3, 12),
    ) {
        // Dependencies on lower numbers can't form a cycle.
        let pairs: Vec<(usize, usize)> = pairs.into_iter().filter(|(a, b)| a > b).collect();
        let mut yaml = String::new();
        for (number, wave) in waves.iter().enumerate() {
            let entries: Vec<String> =
                pairs.iter().filter(|(a, _)| *a == number).map(|(_, b)| format!(":ConfigMap:shop/c{b}")).collect();
            let on = if entries.is_empty() { String::new() } else { format!("; {}", depends_on(&entries.join(","))) };
            yaml += &manifest_text(&format!("v1 ConfigMap c{number}"), &format!("sync-wave={wave}{on}"));
        }
        let planned = case(&yaml).plan();
        let mut expected: Vec<String> = pairs
            .iter()
            .filter(|(a, b)| waves[*a] == waves[*b])
            .map(|(a, b)| format!("ConfigMap shop/c{a} < ConfigMap shop/c{b}"))
            .collect();
        expected.sort();
        expected.dedup();
        let mut found = edges(&planned);
        found.sort();
        prop_assert_eq!(found, expected);
        let later = pairs.iter().any(|(a, b)| waves[*a] < waves[*b]);
        prop_assert_eq!(codes(&planned).contains(&"!dependency-in-later-wave".to_owned()), later);
    }
}
