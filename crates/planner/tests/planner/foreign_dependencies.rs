//! Dependencies in the annotations of cli-utils, kapp and Nelm.

use tidegate_model::Cascade;

use crate::dependencies::{edges, messages};
use crate::support::{case, codes, manifest_texts};

const CLI_UTILS: &str = "config.kubernetes.io/depends-on";
const GROUP: &str = "kapp.k14s.io/change-group";
const RULE: &str = "kapp.k14s.io/change-rule";
const NELM: &str = "werf.io/deploy-dependency";

#[test]
fn dependencies_of_cli_utils_are_read() {
    let on = format!(
        "{CLI_UTILS}=apps/namespaces/shop/Deployment/database, /namespaces/shop/Secret/password,/Namespace/inner"
    );
    let yaml = manifest_texts(&[
        ("apps/v1 Deployment api", &on),
        ("apps/v1 Deployment database", ""),
        ("v1 Secret password", ""),
        ("v1 Namespace inner", ""),
    ]);
    let planned = case(&yaml).plan();
    assert_eq!(codes(&planned), Vec::<String>::new());
    assert_eq!(
        edges(&planned),
        [
            "Deployment shop/api < Namespace inner",
            "Deployment shop/api < Secret shop/password",
            "Deployment shop/api < Deployment shop/database",
        ]
    );
    // The manifests are valid without the annotation, so only a warning is necessary.
    let outside =
        manifest_texts(&[("v1 ConfigMap a", &format!("{CLI_UTILS}=apps/namespaces/shop/Deployment/far"))]);
    assert_eq!(codes(&case(&outside).plan()), ["untranslated-dependency"]);
    let later = manifest_texts(&[
        ("v1 ConfigMap a", &format!("{CLI_UTILS}=/namespaces/shop/ConfigMap/b")),
        ("v1 ConfigMap b", "sync-wave=1"),
    ]);
    let planned = case(&later).plan();
    assert_eq!(codes(&planned), ["untranslated-dependency"]);
    assert_eq!(edges(&planned), Vec::<String>::new());
    let wrong = manifest_texts(&[("v1 ConfigMap a", &format!("{CLI_UTILS}=apps/Deployment"))]);
    assert_eq!(
        messages(&case(&wrong)),
        [
            "untranslated-dependency: \"apps/Deployment\" in the config.kubernetes.io/depends-on annotation has no \
             effect on the order: use GROUP/namespaces/NAMESPACE/KIND/NAME, or GROUP/KIND/NAME"
        ]
    );
}

#[test]
fn groups_of_kapp_order_their_members() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", &format!("{GROUP}=db; {GROUP}.more=of-{{name}}")),
        ("v1 ConfigMap b", &format!("{GROUP}=db; {RULE}=upsert after upserting db")),
        ("v1 ConfigMap c", &format!("{RULE}.1=upsert after upserting of-a")),
        ("v1 ConfigMap d", &format!("{RULE}=upsert before upserting db")),
        ("v1 ConfigMap e", &format!("sync-wave=1; {RULE}=upsert after upserting db")),
    ]);
    let planned = case(&yaml).plan();
    assert_eq!(codes(&planned), Vec::<String>::new());
    assert_eq!(
        edges(&planned),
        [
            "ConfigMap shop/a < ConfigMap shop/d",
            "ConfigMap shop/b < ConfigMap shop/a",
            "ConfigMap shop/b < ConfigMap shop/d",
            "ConfigMap shop/c < ConfigMap shop/a",
        ]
    );
}

#[test]
fn rules_of_kapp_that_cannot_be_translated_are_reported() {
    for (settings, part) in [
        (format!("{RULE}=upsert after deleting db"), "all prunes come before all writes"),
        (format!("{RULE}=upsert after upserting"), "use ACTION ORDER ACTION GROUP"),
        (format!("{RULE}=update after upserting db"), "the rule isn't valid"),
        (format!("{RULE}=upsert after upserting db-{{crd-kind}}"), "the placeholder isn't supported"),
        (format!("{RULE}=upsert after upserting other"), "no other object in the kapp group \"other\""),
    ] {
        let found = messages(&case(&manifest_texts(&[("v1 ConfigMap a", &settings)])));
        assert!(
            found.len() == 1 && found[0].starts_with("untranslated-dependency") && found[0].contains(part),
            "{settings}: {found:?}"
        );
    }
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", &format!("{RULE}=upsert after upserting db")),
        ("v1 ConfigMap b", &format!("sync-wave=1; {GROUP}=db")),
    ]);
    assert_eq!(codes(&case(&yaml).plan()), ["untranslated-dependency"]);
}

#[test]
fn deletions_follow_the_rules_of_kapp() {
    let live = manifest_texts(&[
        ("v1 ConfigMap shop/a", &format!("tracked; {GROUP}=db")),
        ("v1 ConfigMap shop/b", &format!("tracked; {RULE}=delete before deleting db")),
        ("v1 ConfigMap shop/c", &format!("tracked; {RULE}=delete after deleting db")),
    ]);
    let expected = ["ConfigMap shop/a < ConfigMap shop/b", "ConfigMap shop/c < ConfigMap shop/a"];
    assert_eq!(edges(&case("").with_live(&live).plan()), expected);
    assert_eq!(edges(&case("").with_live(&live).for_deletion(Cascade::Foreground).plan()), expected);
}

#[test]
fn dependencies_of_nelm_are_read() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", &format!("{NELM}-db=state=ready,kind=Deployment,name=database")),
        ("v1 ConfigMap b", &format!("{NELM}-all=state=ready,group=apps,version=v1,namespace=shop")),
        ("v1 ConfigMap c", &format!("{NELM}-x=state=present,name=a")),
        ("v1 ConfigMap d", &format!("{NELM}-x=state=ready")),
        ("v1 ConfigMap e", &format!("{NELM}-x=state=ready,nme=a")),
        ("v1 ConfigMap f", &format!("{NELM}-x=state=ready,name=unknown")),
        ("apps/v1 Deployment database", ""),
        ("apps/v1 Deployment other", ""),
    ]);
    let case = case(&yaml);
    assert_eq!(
        edges(&case.plan()),
        [
            "ConfigMap shop/a < Deployment shop/database",
            "ConfigMap shop/b < Deployment shop/database",
            "ConfigMap shop/b < Deployment shop/other",
        ]
    );
    let found = messages(&case);
    let parts =
        ["use state=ready", "must name a property", "unknown key", "that its Nelm dependency matches"];
    assert_eq!(found.len(), parts.len(), "{found:?}");
    assert!(found.iter().zip(parts).all(|(message, part)| message.contains(part)), "{found:?}");
}

/// Two groups of 1,000 objects would have a million dependencies.
#[test]
fn large_groups_have_no_effect() {
    let object = |number: usize| {
        let settings =
            if number < 1000 { format!("{GROUP}=db") } else { format!("{RULE}=upsert after upserting db") };
        manifest_texts(&[(&format!("v1 ConfigMap c{number}"), &settings)])
    };
    let yaml: String = (0..2000).map(object).collect();
    assert_eq!(codes(&case(&yaml).plan()), ["untranslated-dependency"]);
    assert_eq!(edges(&case(&yaml).plan()), Vec::<String>::new());
}

/// Other tools accept dependencies that Tidegate can't honor together, for example with its own.
#[test]
fn cycles_of_foreign_dependencies_have_no_effect() {
    let yaml = manifest_texts(&[
        ("v1 ConfigMap a", &format!("{CLI_UTILS}=/namespaces/shop/ConfigMap/b")),
        ("v1 ConfigMap b", "tidegate.dev/depends-on=:ConfigMap:shop/a"),
        ("v1 ConfigMap c", &format!("{CLI_UTILS}=/namespaces/shop/ConfigMap/a")),
    ]);
    let planned = case(&yaml).plan();
    assert_eq!(codes(&planned), ["untranslated-dependency"]);
    assert_eq!(
        edges(&planned),
        ["ConfigMap shop/b < ConfigMap shop/a", "ConfigMap shop/c < ConfigMap shop/a"]
    );
    let group = format!("{GROUP}=all; {RULE}=upsert after upserting all");
    let planned = case(&manifest_texts(&[("v1 ConfigMap a", &group), ("v1 ConfigMap b", &group)])).plan();
    assert_eq!((codes(&planned), edges(&planned).len()), (vec!["untranslated-dependency".to_owned()], 0));
}
