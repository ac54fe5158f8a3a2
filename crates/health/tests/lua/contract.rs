use serde_json::json;
use tidegate_health::{HealthRules, Script, ScriptError};
use tidegate_model::annotations::HOOK_FINALIZER;
use tidegate_model::{Health, HealthStatus, ObservedState};

use crate::{NOW, run, script_message, verdict, widget};

#[test]
fn status_and_message_come_out() {
    use HealthStatus::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
    for (word, status) in [
        ("Healthy", Healthy),
        ("Suspended", Suspended),
        ("Progressing", Progressing),
        ("Missing", Missing),
        ("Degraded", Degraded),
        ("Unknown", Unknown),
    ] {
        let script = format!("hs = {{}}\nhs.status = \"{word}\"\nhs.message = obj.spec.why\nreturn hs");
        assert_eq!(run(&script, json!({"spec": {"why": "so"}})), verdict(status, "so"));
    }
    assert_eq!(run("return { status = 'Healthy' }", json!({})), verdict(Healthy, ""));
    assert_eq!(run("return { status = 'Healthy', more = {1, 2} }", json!({})), verdict(Healthy, ""));
}

#[test]
fn an_invalid_status_is_unknown() {
    let invalid = verdict(HealthStatus::Unknown, "Lua returned an invalid health status");
    for script in [
        "return { status = 'Fine', message = 'yes' }",
        "return { status = 'healthy' }",
        "return { status = '', message = 'yes' }",
        "return { message = 'yes' }",
    ] {
        assert_eq!(run(script, json!({})), invalid, "{script}");
    }
}

#[test]
fn no_result_or_an_empty_table_is_no_status() {
    for script in ["", "return", "return nil", "return {}", "hs = {} return hs", "local x = 1"] {
        let error = run(script, json!({})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "health script widget.lua returned no status; return a table with the string fields status and \
             message",
            "{script}"
        );
        assert_eq!(Health::from(error).status, HealthStatus::Missing, "{script}");
    }
}

#[test]
fn anything_else_is_an_error() {
    for (script, found) in [
        ("return 'Healthy'", "a string"),
        ("return true", "a boolean"),
        ("return 7", "a number"),
        ("return { 'Healthy' }", "a list"),
        ("return { status = {} }", "a table whose status is a table"),
        ("return { status = 'Healthy', message = true }", "a table whose message is a boolean"),
    ] {
        let error = run(script, json!({})).unwrap_err();
        let expected = format!(
            "health script widget.lua must return a table with the string fields status and message, found \
             {found}"
        );
        assert_eq!(error.to_string(), expected, "{script}");
        assert_eq!(Health::from(error).status, HealthStatus::Unknown);
    }
}

#[test]
fn an_error_names_file_and_line() {
    for (script, expected) in [
        ("\nlocal x = obj.status.phase", "widget.lua:2: attempt to index field 'status' (a nil value)"),
        ("error('no idea')", "widget.lua:1: no idea"),
        ("error('no idea', 0)", "no idea"),
        ("local f = nil; f()", "widget.lua:1: attempt to call local 'f' (a nil value)"),
        (
            "return string.rep(nil)",
            "bad argument #1: error converting Lua nil to string (expected string or number)",
        ),
    ] {
        let error = run(script, json!({})).unwrap_err().to_string();
        assert_eq!(error, format!("health script failed: {expected}"), "{script}");
    }
    let refused = Script::new("Widget", "a/b/health.lua", "local x = 1\nif x then\nreturn x").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a/b/health.lua:3: 'end' expected (to close 'if' at line 2) near <eof>; fix the script"
    );
    assert!(matches!(refused, ScriptError::Syntax { .. }));
}

#[test]
fn the_object_is_passed_unchanged_without_nulls() {
    let fields = json!({
        "spec": {"count": 3, "half": 0.5, "big": 1_795_253_400_000_i64, "on": true, "off": null, "list": [1, null, "c"],
            "empty": {}, "none": []},
    });
    let script = r#"
        local spec = obj.spec
        local parts = {
            obj.apiVersion, obj.kind, obj.metadata.name, tostring(spec.count), tostring(spec.half),
            string.format("%d", spec.big), tostring(spec.on), tostring(spec.off == nil), tostring(spec.list[1]),
            tostring(spec.list[2] == nil), spec.list[3], tostring(next(spec.empty) == nil), tostring(#spec.none),
            type(spec.off), tostring(spec.count == 3)
        }
        return { status = "Healthy", message = table.concat(parts, " ") }"#;
    let message = "example.org/v1 Widget x 3 0.5 1795253400000 true true 1 true c true 0 nil true";
    assert_eq!(run(script, fields), verdict(HealthStatus::Healthy, message));
}

#[test]
fn a_script_cannot_change_the_object() {
    let script = Script::new(
        "example.org/Widget",
        "w",
        "obj.spec.n = 2 string.format = nil return {status='Healthy'}",
    );
    let rules = HealthRules::with_scripts([script.unwrap()]).unwrap();
    let object = widget(json!({"spec": {"n": 1}}));
    let before = object.clone();
    assert_eq!(rules.assess(&object, NOW), rules.assess(&object, NOW));
    assert_eq!(object, before);
    assert_eq!(script_message("string.format('%d', 7)"), "7");
}

#[test]
fn deletion_comes_first_except_for_hooks() {
    let script =
        Script::new("example.org/Widget", "w", "return {status='Healthy', message='from the script'}")
            .unwrap();
    let rules = HealthRules::with_scripts([script]).unwrap();
    let mut object = widget(json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}}));
    let pending = Health::new(HealthStatus::Progressing, "Pending deletion");
    assert_eq!(rules.assess(&object, NOW), Some(Ok(pending)));
    object.add_finalizer(HOOK_FINALIZER);
    assert_eq!(rules.assess(&object, NOW), Some(verdict(HealthStatus::Healthy, "from the script")));
}

#[test]
fn an_observation_has_the_result_of_the_script() {
    let failing = Script::new("example.org/Widget", "w", "error('broken', 0)").unwrap();
    let rules = HealthRules::with_scripts([failing]).unwrap();
    match rules.observe(&widget(json!({})), NOW).seen {
        ObservedState::Present { health, unjudged, .. } => {
            assert!(unjudged);
            assert_eq!(health, Some(Health::new(HealthStatus::Unknown, "health script failed: broken")));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn time_is_the_time_of_the_observation() {
    assert_eq!(script_message("require('os').time()"), "1795253400");
    assert_eq!(script_message("require('os').date('!%Y-%m-%dT%XZ')"), "2026-11-21T09:30:00Z");
    assert_eq!(script_message("require('os').date('*t').yday"), "325");
    assert_eq!(
        script_message("require('os').time({year=2026, month=11, day=21, hour=9, min=30, sec=0})"),
        "1795253400",
        "times are in UTC"
    );
    assert_eq!(script_message("os.time()"), "1795253400");
    assert_eq!(script_message("os.difftime(os.time(), 1795253390)"), "10");
}

#[test]
fn parts_of_a_time_may_be_texts() {
    let script = r#"
        local year, month, day, hour, min, sec = ("2026-11-21T09:08:05Z"):match("(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)Z")
        local at = os.time({ year = year, month = month, day = day, hour = hour, min = min, sec = sec })
        return { status = "Healthy", message = os.date("!%Y-%m-%d %H:%M:%S", at) }"#;
    assert_eq!(run(script, json!({})), verdict(HealthStatus::Healthy, "2026-11-21 09:08:05"));
    for (parts, expected) in [
        (
            "{ year = 'soon', month = 1, day = 1 }",
            "field 'year' in a date table must be a number, found a string",
        ),
        (
            "{ year = 2026, month = {}, day = 1 }",
            "field 'month' in a date table must be a number, found a table",
        ),
        ("{ year = 2026, month = 1 }", "field 'day' missing in date table"),
    ] {
        let said = script_message(&format!("os.time({parts})"));
        assert!(said.ends_with(expected), "{parts}: {said}");
    }
}

#[test]
fn a_formatted_text_takes_any_value() {
    assert_eq!(
        script_message("string.format('%s %s %s %5.1f %d %q', nil, true, 'a', 2.25, 7, 'b')"),
        "nil true a   2.2 7 \"b\""
    );
    assert_eq!(script_message("('%s'):format({})"), "table");
    assert_eq!(script_message("{}"), "table");
    assert_eq!(script_message("print"), "function");
}
