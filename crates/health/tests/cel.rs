//! User rules as expressions: their results, and their safety with arbitrary text.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

#[path = "lua/widget.rs"]
mod widget;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_health::{Condition, Expressions, HealthRules, Layer, Script, UserRule};
use tidegate_model::Object;
use tidegate_model::annotations::{HEALTH_CURRENT, HEALTH_FAILED};

use crate::widget::{NOW, widget};

fn assess(source: Value, object: &Object) -> String {
    let rule = UserRule::Expressions(Expressions::load("example.org/Widget", "rules.yaml", source));
    let rules = HealthRules::with_rules([rule]).unwrap();
    match rules.assess(object, NOW) {
        None => "None".to_owned(),
        Some(Ok(health)) => format!("{:?} {}", health.status, health.message),
        Some(Err(error)) => format!("error {error}"),
    }
}

/// Returns the result of a rule with only `current`.
fn evaluate_current(expression: &str) -> String {
    let object = widget(json!({
        "metadata": {"generation": 2, "labels": {"app.kubernetes.io/name": "x"}},
        "spec": {"replicas": 3, "ratio": 0.5, "name": "Web", "tags": ["a", "b"]},
        "status": {"phase": "Ready", "readyReplicas": 3, "conditions": [
            {"type": "Ready", "status": "True", "observedGeneration": 2}, {"type": "Synced", "status": "False"}]},
    }));
    match assess(json!({"current": expression}), &object) {
        said if said.starts_with("Healthy") => "true".to_owned(),
        said if said.starts_with("Progressing") => "false".to_owned(),
        said => said,
    }
}

/// The expected results follow the language definition:
/// https://github.com/google/cel-spec/blob/master/doc/langdef.md
#[test]
fn expressions_follow_the_language() {
    for expression in [
        "true",
        "status.phase == 'Ready'",
        "status['phase'] == \"Ready\"",
        "self.status.phase == kind.replace('Widget', 'Ready')",
        "metadata.labels['app.kubernetes.io/name'] == 'x'",
        "status.readyReplicas >= spec.replicas && status.phase != 'Failed'",
        "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True' && e.observedGeneration == metadata.generation)",
        "status.conditions.exists(c, c.type == 'Synced' && c.status == 'False')",
        "status.conditions.exists_one(c, c.status == 'True')",
        "status.conditions.map(c, c.type) == ['Ready', 'Synced']",
        "status.conditions.map(c, c.status == 'True', c.type) == ['Ready']",
        "spec.tags.all(t, size(t) == 1) && spec.tags.size() == 2",
        "'a' in spec.tags && !('c' in spec.tags) && 'phase' in status",
        "has(status.phase) && !has(status.error)",
        "!has(status.error) || status.error == ''",
        // Either operand can determine the result, whatever the other one is.
        "status.error == 'x' || true",
        "!(status.error == 'x' && false)",
        "status.conditions.exists(c, c.observedGeneration == 2)",
        "status.?error.orValue('none') == 'none'",
        "status.?conditions.orValue([]).exists(c, c.type == 'Ready')",
        "status.?a.?b.c.orValue(7) == 7 && !status.?error.hasValue() && status.?phase.value() == 'Ready'",
        "status.conditions[0].type == 'Ready' && spec.tags[?5].orValue('z') == 'z'",
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 / 2 == 3 && -7 / 2 == -3 && 7 % 3 == 1 && 2 - 3 == -1",
        "1 < 2 && 2 <= 2 && 3 > 2 && 1.5 >= 1 && 1 == 1.0 && 0x10 == 16 && 3u == 3 && 1e3 == 1000",
        "spec.ratio * 2.0 == 1.0 && 'a' < 'b' && 'a' + 'b' == 'ab' && [1] + [2] == [1, 2]",
        "true ? status.phase == 'Ready' : status.error",
        "spec.name.startsWith('W') && spec.name.endsWith('b') && spec.name.contains('e') && spec.name.matches('^W.b$')",
        "spec.name.lowerAscii() == 'web' && ' a '.trim() == 'a' && 'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'",
        "int('7') == 7 && string(7) == '7' && double('0.5') == 0.5 && bool('true') && dyn(1) == 1",
        "{'a': 1}.a == 1 && {'a': 1} == {'a': 1} && null == null && 'x\\n\\u0041' == \"x\\nA\" && r'\\d' == '\\\\d'",
        "'''a 'b' c''' == \"a 'b' c\" // with a note",
        "b'ab' == 'ab' && rb'\\d' == r'\\d' && B'\\x41' == 'A' && 0x1Fu == 31",
        "optional.of(1).orValue(2) == 1 && optional.none().orValue(2) == 2",
    ] {
        assert_eq!(evaluate_current(expression), "true", "{expression}");
    }
    for expression in
        ["false", "status.error == 'x'", "nothing.at.all", "spec.tags[9] == 'a'", "status.phase.size() > 9"]
    {
        assert_eq!(evaluate_current(expression), "false", "{expression}");
    }
}

#[test]
fn non_boolean_and_failing_expressions_are_errors() {
    for (expression, expected) in [
        ("status.phase", "the result is a string, not a boolean"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 == 0", "number too large"),
        ("'a' < 1", "cannot compare a string with a number"),
        ("status.phase.wrong == 1", "cannot read field wrong of a string"),
        ("frob(1)", "no matching overload of frob(a number)"),
        ("'a'.matches('(')", "invalid regular expression \"(\""),
    ] {
        let said = evaluate_current(expression);
        assert!(
            said.starts_with("error health expression current of rules.yaml failed: ")
                && said.contains(expected),
            "{said}"
        );
    }
}

#[test]
fn expressions_are_evaluated_in_order_and_an_old_status_does_not_count() {
    let source = json!({
        "current": "status.phase == 'Ready'", "failed": "status.phase in ['Ready', 'Failed'] && has(status.error)",
        "inProgress": "has(status.busy) && status.busy",
    });
    for (status, expected) in [
        (json!({"phase": "Ready"}), "Healthy The `current` expression is true"),
        (json!({"phase": "Ready", "error": "x"}), "Degraded The `failed` expression is true"),
        (
            json!({"phase": "Ready", "error": "x", "busy": true}),
            "Progressing The `inProgress` expression is true",
        ),
        (
            json!({"phase": "Failed", "error": "x", "conditions": [{"type": "Ready", "message": "no disk"}]}),
            "Degraded no disk",
        ),
        (json!({"phase": "New"}), "Progressing Waiting for the `current` expression to be true"),
        (
            json!({"phase": "Ready", "observedGeneration": 1}),
            "Progressing Waiting for the controller to observe generation 2",
        ),
        (json!(null), "Progressing Waiting for the `current` expression to be true"),
    ] {
        let object = widget(json!({"metadata": {"generation": 2}, "status": status}));
        assert_eq!(assess(source.clone(), &object), expected, "{status}");
    }
}

#[test]
fn annotations_take_precedence_over_all_other_rules() {
    let script =
        Script::new("example.org/Widget", "w.lua", "return { status = 'Healthy', message = 'lua' }").unwrap();
    let rules = HealthRules::with_scripts([script]).unwrap();
    let mut object = widget(json!({"status": {"phase": "Failed"}}));
    assert_eq!(rules.assess(&object, NOW).unwrap().unwrap().message, "lua");
    object.set_annotation(HEALTH_CURRENT, "status.phase == 'Ready'");
    object.set_annotation(HEALTH_FAILED, "status.phase == 'Failed'");
    assert_eq!(rules.assess(&object, NOW).unwrap().unwrap().message, "The `failed` expression is true");
    assert_eq!(rules.layer(&object), Some(Layer::User));
    object.remove_annotation(HEALTH_CURRENT);
    let error = rules.assess(&object, NOW).unwrap().unwrap_err().to_string();
    assert!(
        error.ends_with("annotation: the `current` expression is missing; fix the expression"),
        "{error}"
    );
}

#[test]
fn invalid_rules_are_reported_and_affect_only_their_kind() {
    for (source, reason) in [
        (json!({}), "the `current` expression is missing"),
        (json!([1]), "the `current` expression is missing"),
        (json!({"current": 1}), "current is not a string"),
        (json!({"current": ""}), "current: expected a value at the end of the expression (character 1)"),
        (json!({"current": "a ="}), "current: unexpected '=' at character 3"),
        (json!({"current": "a &&"}), "current: expected a value at the end of the expression (character 5)"),
        (json!({"current": "(a"}), "current: expected \")\" at the end of the expression (character 3)"),
        (json!({"current": "a b"}), "current: unexpected text after the expression at character 3"),
        (json!({"current": "'a"}), "current: unterminated string at character 1"),
        (json!({"current": "a.1"}), "current: expected a name at character 3"),
        (json!({"current": "99999999999999999999"}), "current: invalid or too large number at character 1"),
        (
            json!({"current": "true", "failed": "["}),
            "failed: expected a value at the end of the expression (character 2)",
        ),
    ] {
        let rule = Expressions::load("example.org/Widget", "rules.yaml", source.clone());
        assert_eq!(rule.error().unwrap(), format!("rules.yaml: {reason}; fix the expression"), "{source}");
        let said = assess(source, &widget(json!({})));
        assert!(said.starts_with("error invalid health expressions for this object: rules.yaml"), "{said}");
    }
}

#[test]
fn evaluation_always_ends_within_its_limits() {
    let many = vec![0; 400];
    let object = widget(json!({"spec": {"many": many}}));
    let stopped = "spec.many.all(a, spec.many.all(b, spec.many.all(c, a + b + c >= 0)))";
    let said = assess(json!({"current": stopped}), &object);
    assert!(said.ends_with("evaluation stopped after 200000 steps"), "{said}");
    for hostile in [
        "(".repeat(10_000),
        "!".repeat(10_000),
        "[".repeat(1_900),
        "-".repeat(1_900) + "1",
        "1".to_owned() + &"+1".repeat(900),
        "a".to_owned() + &".a".repeat(900),
        "a?".repeat(600),
        "1 ".repeat(3_000),
        "x".repeat(20_000),
    ] {
        let said = assess(json!({"current": hostile}), &object);
        assert!(said.starts_with("error ") || said.starts_with("Progressing"), "{said}");
    }
}

proptest! {
    /// Loading and evaluating any rule terminates, always with the same result.
    #[test]
    fn any_rule_can_be_loaded(text in "[a-c0-2'\"\\[\\](){}.,?:!&|=<>+*/% -]{0,60}", other in any::<String>()) {
        let object = widget(json!({"a": {"b": [1, "c", null]}, "status": {"b": true}}));
        for source in [json!({"current": text}), json!({"current": "true", "failed": other}), json!(other)] {
            prop_assert_eq!(assess(source.clone(), &object), assess(source, &object));
        }
    }

    /// Expressions built from parts that fit together.
    #[test]
    fn any_expression_that_fits_gives_an_answer(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a.b", "status.b", "1", "'c'", "true", "[1, 2]", "has(a.b)", "a.b.exists(x, x == 1)", "size(a.b)", "a.?z.orValue(3)",
        ]), 1..12),
        signs in prop::collection::vec(prop::sample::select(vec!["&&", "||", "==", "!=", "+", "-", "<", "in", "? a :"]), 12),
    ) {
        let mut text = String::new();
        for (part, sign) in parts.iter().zip(&signs) {
            text = if text.is_empty() { (*part).to_owned() } else { format!("({text}) {sign} {part}") };
        }
        let object = widget(json!({"a": {"b": [1, "c", null]}, "status": {"b": true}}));
        let said = assess(json!({"current": text}), &object);
        prop_assert!(!said.contains("invalid health expressions"), "{}: {}", text, said);
    }

    /// Any script at any path in a folder or ConfigMap either loads or fails with a reason.
    #[test]
    fn any_script_and_any_place_can_be_loaded(place in "[a-zA-Z_/.]{0,30}", text in "[a-z =(){}'\"\\n0-9.:]{0,80}", any in any::<String>()) {
        let lua = format!("{place}/health.lua");
        for loaded in [Script::from_path(&lua, &lua, &text), Script::from_key(&place, &place, &any), Script::from_path(&any, "x", &text)] {
            let Ok(script) = loaded else { continue };
            let fault = script.error().map(ToString::to_string);
            let rules = HealthRules::with_scripts([script]).unwrap();
            prop_assert_eq!(rules.rule_errors().next(), fault);
            let _ = rules.assess(&widget(json!({})), NOW);
        }
    }
}

/// Parsing detects unknown names and functions.
#[test]
fn unknown_names_are_reported_when_parsed() {
    for (expression, expected) in [
        ("objct.data.startswith('x')", "unknown name objct, unknown function startswith"),
        ("foo(object.a)", "unknown function foo"),
        ("object.tags.size(1)", "wrong number of arguments for size"),
        ("object.tags.exists(t, t == 'a' && u == 'b')", "unknown name u"),
        ("has(object)", "`has` needs a field"),
        ("object.a.now() > object.b", "unknown function now"),
    ] {
        let refused = Condition::parse(expression).unwrap_err();
        assert!(refused.starts_with(expected), "{expression}: {refused}");
    }
    for expression in [
        "object.tags.exists(t, t == 'a') && object.map(k, k != '', object[k])[0] == b'x'",
        "optional.of(object).orValue(optional.none()) == rb'\\d' && has(object.a.b) && 1u == uint('1')",
    ] {
        assert!(Condition::parse(expression).is_ok(), "{expression}: {:?}", Condition::parse(expression));
    }
    let doubts =
        |source: Value| Expressions::load("example.org/Widget", "rules.yaml", source).suspicious_parts();
    let source =
        json!({"current": "status.ready && now() > metadata.creationTimestamp", "failed": "stats.bad"});
    assert_eq!(doubts(source), ["current: unknown function now", "failed: unknown name stats"]);
    assert!(doubts(json!({"current": "self.spec.a == data.b && kind == 'Widget'"})).is_empty());
}
