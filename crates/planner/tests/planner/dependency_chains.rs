//! Dependencies through objects that a sync skips or keeps.

use tidegate_model::{Cascade, SyncOptions};
use tidegate_planner::PlanResult;

use crate::dependencies::{depends_on, edges, messages};
use crate::support::{case, codes, manifest_text, manifest_texts};

/// The objects `a` to `d`, each of which depends on the next one.
fn chain() -> String {
    manifest_texts(&[
        ("v1 ConfigMap a", &depends_on(":ConfigMap:b")),
        ("v1 ConfigMap b", &depends_on(":ConfigMap:c")),
        ("v1 ConfigMap c", &depends_on(":ConfigMap:d, nonsense, :ConfigMap:unknown")),
        ("v1 ConfigMap d", ""),
    ])
}

#[test]
fn a_skipped_object_stands_for_its_dependencies() {
    let planned = case(&chain()).select(&[":ConfigMap:a", ":ConfigMap:d"]).plan();
    assert_eq!(edges(&planned), ["ConfigMap shop/a < ConfigMap shop/d"]);
    assert_eq!(codes(&planned), Vec::<String>::new(), "the skipped objects aren't reviewed");
    let hooks = manifest_texts(&[
        ("v1 ConfigMap a", &depends_on("batch:Job:b")),
        ("batch/v1 Job b", &format!("hook=Skip; {}", depends_on(":ConfigMap:c"))),
        ("v1 ConfigMap c", ""),
    ]);
    assert_eq!(edges(&case(&hooks).plan()), ["ConfigMap shop/a < ConfigMap shop/c"]);
}

#[test]
fn a_dependency_through_a_skipped_object_must_not_be_applied_later() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", &depends_on(":ConfigMap:b")),
        ("v1 ConfigMap b", &format!("hook=Skip; {}", depends_on(":ConfigMap:c"))),
        ("v1 ConfigMap c", "sync-wave=3"),
    ]);
    let found = messages(&case(&yaml));
    assert!(
        found[0].starts_with(
            "dependency-in-later-wave: ConfigMap shop/a depends on ConfigMap shop/c (through ConfigMap \
             shop/b), which is applied later, in wave 3 of Sync"
        ),
        "{found:?}"
    );
}

#[test]
fn skipped_objects_can_form_a_cycle() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", &depends_on(":ConfigMap:b")),
        ("v1 ConfigMap b", &depends_on(":ConfigMap:c")),
        ("v1 ConfigMap c", &depends_on(":ConfigMap:b")),
    ]);
    assert_eq!(edges(&case(&yaml).select(&[":ConfigMap:a"]).plan()), Vec::<String>::new());
    assert_eq!(codes(&case(&yaml).select(&[":ConfigMap:b"]).plan()), ["!dependency-cycle"]);
}

#[test]
fn a_long_chain_of_skipped_objects_is_followed() {
    let mut yaml = manifest_text("v1 ConfigMap c0", &depends_on(":ConfigMap:c1"));
    for number in 1..3000 {
        let settings = format!("hook=Skip; {}", depends_on(&format!(":ConfigMap:c{}", number + 1)));
        yaml += &manifest_text(&format!("v1 ConfigMap c{number}"), &settings);
    }
    yaml += &manifest_text("v1 ConfigMap c3000", "");
    assert_eq!(edges(&case(&yaml).plan()), ["ConfigMap shop/c0 < ConfigMap shop/c3000"]);
}

fn live_text(all: &[(&str, &str)]) -> String {
    let tracked: Vec<(&str, String)> =
        all.iter().map(|(object, settings)| (*object, format!("tracked; {settings}"))).collect();
    tracked.iter().map(|(object, settings)| manifest_text(object, settings)).collect()
}

/// Returns the prunes as text, such as `1 Secret shop/password: no longer in the manifests`.
fn prunes(planned: &PlanResult) -> Vec<String> {
    let tasks = planned.plan.tasks.iter().filter(|task| task.action.is_prune());
    tasks.map(|task| format!("{} {}: {}", task.wave, task.key(), task.reason)).collect()
}

#[test]
fn objects_that_a_kept_object_needs_are_kept() {
    let live = |keep: &str| {
        live_text(&[
            (
                "apps/v1 Deployment shop/database",
                &format!("sync-options={keep}; {}", depends_on(":ConfigMap:shop/settings")),
            ),
            ("v1 ConfigMap shop/settings", &format!("sync-wave=-1; {}", depends_on(":Secret:shop/password"))),
            ("v1 Secret shop/password", "sync-options=Prune=confirm"),
            ("v1 Secret shop/unused", ""),
        ])
    };
    let kept = |planned: &PlanResult| -> Vec<String> {
        let all = planned.plan.tasks.iter().filter(|task| task.reason.contains("needed by"));
        all.map(|task| format!("{}: {}", task.key(), task.reason)).collect()
    };
    let expected = [
        "ConfigMap shop/settings: ignored (needed by Deployment shop/database, which is kept)",
        "Secret shop/password: ignored (needed by ConfigMap shop/settings, which is kept)",
    ];
    let pruning = case("").with_live(&live("Prune=false")).plan();
    assert_eq!(sorted(kept(&pruning)), expected);
    assert!(prunes(&pruning).contains(&"-1 Secret shop/unused: no longer in the manifests".to_owned()));
    let password = pruning.plan.tasks.iter().find(|task| task.name == "password").unwrap();
    assert!(!password.options.confirm_prune, "a skipped prune needs no confirmation");
    let deletion = case("").with_live(&live("Delete=false")).for_deletion(Cascade::Foreground).plan();
    assert_eq!(sorted(kept(&deletion)), expected);
    let none =
        case("").with_live(&live("Prune=false")).options(|options: &mut SyncOptions| options.prune = false);
    assert_eq!(kept(&none.plan()), Vec::<String>::new());
    let nothing_kept = case("").with_live(&live("Replace=true")).plan();
    assert_eq!(kept(&nothing_kept), Vec::<String>::new());
}

fn sorted(mut all: Vec<String>) -> Vec<String> {
    all.sort();
    all
}

#[test]
fn objects_that_an_unselected_object_needs_are_kept() {
    let live = live_text(&[
        ("apps/v1 Deployment shop/database", &depends_on(":Secret:shop/password")),
        ("v1 Secret shop/password", ""),
    ]);
    let planned = case("").with_live(&live).select(&[":Secret:password"]).plan();
    assert_eq!(
        prunes(&planned),
        ["0 Secret shop/password: ignored (needed by Deployment shop/database, which is kept)"]
    );
}

/// The order of dependencies overrides the waves and `PruneLast`, in cycles too.
#[test]
fn objects_are_pruned_after_the_objects_that_depend_on_them() {
    let live = live_text(&[
        (
            "apps/v1 Deployment shop/api",
            &format!("sync-options=PruneLast=true; {}", depends_on("apps:Deployment:shop/database")),
        ),
        ("apps/v1 Deployment shop/database", &depends_on(":Secret:shop/password")),
        ("v1 Secret shop/password", ""),
        ("v1 Secret shop/other", ""),
        ("v1 ConfigMap shop/x", &depends_on(":ConfigMap:shop/y")),
        ("v1 ConfigMap shop/y", &format!("sync-wave=2; {}", depends_on(":ConfigMap:shop/x"))),
    ]);
    let planned = case("").with_live(&live).plan();
    let moved = "; moved after the objects that depend on it";
    assert_eq!(
        sorted(prunes(&planned)),
        [
            "2 ConfigMap shop/x: no longer in the manifests".to_owned(),
            format!("2 ConfigMap shop/y: no longer in the manifests{moved}"),
            "2 Secret shop/other: no longer in the manifests".to_owned(),
            "3 Deployment shop/api: no longer in the manifests".to_owned(),
            format!("3 Deployment shop/database: no longer in the manifests{moved}"),
            format!("3 Secret shop/password: no longer in the manifests{moved}"),
        ]
    );
    assert_eq!(
        edges(&planned),
        ["Secret shop/password < Deployment shop/database", "Deployment shop/database < Deployment shop/api"]
    );
}

/// Otherwise, the deletion of the namespace would delete the object early.
#[test]
fn a_namespace_is_pruned_after_the_objects_moved_in_it() {
    let live = live_text(&[
        (
            "v1 ConfigMap shop/last",
            &format!("sync-options=PruneLast=true; {}", depends_on(":ConfigMap:other/needed")),
        ),
        ("v1 ConfigMap other/needed", ""),
        ("v1 Namespace other", ""),
    ]);
    let planned = case("").with_live(&live).options(|options: &mut SyncOptions| options.adopt = true).plan();
    let waves: Vec<i64> = planned.plan.tasks.iter().map(|task| task.wave).collect();
    assert_eq!(waves, [1, 1, 1]);
    assert!(
        edges(&planned).contains(&"Namespace other < ConfigMap other/needed".to_owned()),
        "{:?}",
        edges(&planned)
    );
}
