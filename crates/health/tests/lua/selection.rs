use tidegate_health::{HealthRules, SCRIPT_BYTES_MAX, Script};
use tidegate_model::{Gvk, Health, HealthStatus, Object};

use crate::{NOW, widget};

fn from_path(path: &str) -> Script {
    let text = format!("return {{ status = 'Healthy', message = '{path}' }}");
    Script::from_path(path, path, text).unwrap()
}

/// Returns the file that applies to a kind.
fn selected_file(rules: &HealthRules, group: &str, kind: &str) -> Option<String> {
    rules.script(group, kind).map(|script| script.name().to_owned())
}

#[test]
fn the_folder_selects_the_kind() {
    let paths = [
        "example.org/Widget/health.lua",
        "Pod/health.lua",
        "_.example.org/_/health.lua",
        "example.org/_/health.lua",
        "apps/_Set/health.lua",
    ];
    let rules = HealthRules::with_scripts(paths.map(from_path)).unwrap();
    for (group, kind, expected) in [
        ("example.org", "Widget", Some("example.org/Widget/health.lua")),
        ("example.org", "Gadget", Some("example.org/_/health.lua")),
        ("a.example.org", "Widget", Some("_.example.org/_/health.lua")),
        ("apps", "StatefulSet", Some("apps/_Set/health.lua")),
        ("apps", "Deployment", None),
        ("", "Pod", Some("Pod/health.lua")),
        ("example.org", "Pod", Some("example.org/_/health.lua")),
        ("example.com", "Widget", None),
    ] {
        assert_eq!(selected_file(&rules, group, kind).as_deref(), expected, "{group}/{kind}");
    }
    let has_rule = |group, kind| rules.has_rule(&Gvk::new(group, "v1", kind));
    assert!(
        has_rule("example.org", "Widget") && has_rule("apps", "Deployment") && !has_rule("", "ConfigMap")
    );
}

#[test]
fn the_first_of_several_patterns_applies_in_any_input_order() {
    let paths = ["_/_/health.lua", "_.org/_/health.lua", "example.org/_/health.lua"];
    for _ in 0..2 {
        let mut scripts: Vec<_> = paths.iter().copied().map(from_path).collect();
        scripts.reverse();
        let rules = HealthRules::with_scripts(scripts).unwrap();
        assert_eq!(selected_file(&rules, "example.org", "Widget").as_deref(), Some("_.org/_/health.lua"));
    }
}

#[test]
fn a_script_takes_precedence_over_the_built_in_rule() {
    let rules = HealthRules::with_scripts([from_path("Pod/health.lua")]).unwrap();
    let mut pod = Object::try_from(serde_json::json!({"apiVersion": "v1", "kind": "Pod"})).unwrap();
    pod.set_name("x");
    assert_eq!(rules.assess(&pod, NOW), Some(Ok(Health::new(HealthStatus::Healthy, "Pod/health.lua"))));
    let built_in = HealthRules::built_in();
    assert_eq!(built_in.assess(&pod, NOW), tidegate_health::assess(&pod));
    assert_eq!(built_in.assess(&widget(serde_json::json!({})), NOW), None);
}

#[test]
fn the_key_of_a_config_map_selects_the_kind() {
    let script = |key| Script::from_key(key, "cm", "return nil").map(|script| script.target().to_owned());
    assert_eq!(script("cert-manager.io_Certificate").unwrap(), "cert-manager.io/Certificate");
    assert_eq!(script("PersistentVolumeClaim").unwrap(), "PersistentVolumeClaim");
    for bad in ["", "_Kind", "group_", "a_b_c"] {
        assert_eq!(
            script(bad).unwrap_err().to_string(),
            "cm: the key does not contain a kind; use resource.customizations.health.<group>_<Kind>"
        );
    }
}

#[test]
fn unusable_scripts_are_rejected() {
    for bad in ["health.lua", "a/b/c/health.lua", "a/b/other.lua", "/health.lua", "a//health.lua"] {
        let error = Script::from_path(bad, bad, "return nil").unwrap_err().to_string();
        assert!(error.starts_with(&format!("{bad}: the path does not contain a kind")), "{error}");
    }
    let twice = HealthRules::with_scripts([
        Script::new("Pod", "one", "").unwrap(),
        Script::new("Pod", "two", "").unwrap(),
    ]);
    assert_eq!(
        twice.unwrap_err().to_string(),
        "two: duplicate health rule for Pod, already defined in one; remove one of them"
    );
    let long = Script::new("Pod", "long", " ".repeat(SCRIPT_BYTES_MAX + 1)).unwrap_err().to_string();
    assert!(long.starts_with("long: the script is too large: 262145 bytes"), "{long}");
    // Bytecode is not text.
    let compiled = Script::new("Pod", "compiled", "\u{1b}Lua").unwrap_err().to_string();
    assert!(compiled.contains("attempt to load") || compiled.contains("binary"), "{compiled}");
}

#[test]
fn an_invalid_script_affects_only_its_kind() {
    let broken = Script::from_path("example.org/Widget/health.lua", "bad.lua", "if obj then").unwrap();
    let rules = HealthRules::with_scripts([broken, from_path("_/_/health.lua")]).unwrap();
    let faults: Vec<_> = rules.rule_errors().collect();
    assert_eq!(faults, ["bad.lua:1: 'end' expected near <eof>; fix the script"]);
    let verdict = rules.assess(&widget(serde_json::json!({})), NOW).unwrap();
    let unknown = Health::from(verdict.unwrap_err());
    assert_eq!(unknown.status, HealthStatus::Unknown);
    assert_eq!(
        unknown.message,
        "failed to load the health script for this kind: bad.lua:1: 'end' expected near <eof>; fix the script"
    );
    assert_eq!(selected_file(&rules, "example.org", "Gadget").as_deref(), Some("_/_/health.lua"));
}
