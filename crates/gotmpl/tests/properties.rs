//! Properties that hold for arbitrary text: parsing and rendering terminate without a panic.
#![allow(clippy::unwrap_used, reason = "test code")]

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_gotmpl::{Engine, Limits, MissingKey};

const LIMITS: Limits = Limits { steps: 20_000, output_bytes: 64 << 10, depth: 20 };

/// Pieces of templates. Random combinations of them are often valid.
const PIECES: [&str; 60] = [
    "{{",
    "}}",
    "{{- ",
    " -}}",
    "/*",
    "*/",
    " ",
    "\n",
    ".",
    ".name",
    ".l",
    ".m",
    ".m.y.z",
    "$",
    "$x",
    ":=",
    "=",
    "|",
    ",",
    "(",
    ")",
    "\"a\"",
    "`r`",
    "'c'",
    "1",
    "-3",
    "2.5",
    "true",
    "nil",
    "if ",
    "else",
    "else if ",
    "end",
    "range ",
    "with ",
    "define \"t\"",
    "template \"t\" .",
    "block \"b\" .",
    "break",
    "continue",
    "printf \"%v%d%*s\" ",
    "index ",
    "len ",
    "eq ",
    "lt ",
    "and ",
    "or ",
    "not ",
    "until ",
    "repeat ",
    "splitList ",
    "dict ",
    "set ",
    "list ",
    "toJson ",
    "default ",
    "substr ",
    "regexReplaceAll ",
    "merge ",
    "dateModify ",
];

fn data() -> Value {
    json!({ "name": "web", "n": 3, "l": ["a", "b", null], "m": { "y": { "z": "deep" } }, "nil": null })
}

fn render(text: &str) {
    for missing_key in [MissingKey::Default, MissingKey::Zero, MissingKey::Error] {
        let engine = Engine::with_sprig().missing_key(missing_key).limits(LIMITS).now(1_700_000_000);
        if let Ok(template) = engine.parse("base", text)
            && let Ok(output) = template.render(&data())
        {
            assert!(output.len() <= LIMITS.output_bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_rendered_or_refused(text in "(\\PC|[{}|$.\"`\n -]){0,60}") {
        render(&text);
    }

    #[test]
    fn any_pieces_are_rendered_or_refused(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24)) {
        render(&pieces.concat());
    }

    #[test]
    fn any_call_is_answered(
        name in prop::sample::select(vec![
            "trunc", "substr", "abbrev", "abbrevboth", "indent", "nindent", "repeat", "until", "untilStep", "seq", "round", "add", "div",
            "mod", "mul", "addf", "divf", "slice", "chunk", "index", "wrap", "wrapWith", "splitn", "printf", "toDate", "date", "duration",
            "durationRound", "b64dec", "b32dec", "semver", "semverCompare", "urlParse", "regexFind", "regexSplit", "fromJson", "initials",
            "snakecase", "camelcase", "kebabcase", "title", "toDecimal", "int", "float64", "atoi", "first", "rest", "plural", "replace",
        ]),
        arguments in prop::collection::vec(
            prop_oneof![
                any::<i64>().prop_map(|number| number.to_string()),
                (-20_i64..20).prop_map(|number| number.to_string()),
                any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(|number| format!("{number:e}")),
                "\\PC{0,12}".prop_map(|text| serde_json::to_string(&text).unwrap()),
                Just(".l".to_owned()), Just(".m".to_owned()), Just(".nil".to_owned()), Just(".name".to_owned()),
            ],
            0..4,
        ),
    ) {
        render(&format!("{{{{ {name} {} }}}}", arguments.join(" ")));
    }
}

#[test]
fn an_endless_template_is_stopped() {
    let engine = Engine::with_sprig().limits(LIMITS);
    for (text, reason) in [
        ("{{define \"r\"}}{{template \"r\"}}{{end}}{{template \"r\"}}", "maximum template depth"),
        ("{{range until 5000}}{{range until 5000}}{{end}}{{end}}", "more than 20000 steps"),
        ("{{range 9223372036854775807}}{{end}}", "more than 20000 steps"),
        ("{{range until 5000}}{{repeat 100 \"0123456789\"}}{{end}}", "more than 65536 bytes"),
        ("{{repeat 1000000000 \"x\"}}", "longer than 65536 bytes"),
        ("{{untilStep 0 9223372036854775807 1}}", "longer than 65536 bytes"),
        ("{{$d := dict \"a\" 1}}{{$_ := set $d \"self\" $d}}{{toJson $d}}{{mustToJson $d}}", "cycle"),
    ] {
        let error = engine.parse("base", text).unwrap().render(&data()).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    // Doubling a value is cheap because both copies share their parts, until a function reads the whole
    // value.
    let doubled = "{{$d := dict}}{{range until 60}}{{$d = dict \"a\" $d \"b\" $d}}{{end}}";
    for call in [
        "$d",
        "print $d",
        "toJson $d",
        "deepCopy $d",
        "eq $d $d",
        "printf \"%#v\" $d",
        "quote $d",
        "merge $d $d",
    ] {
        let text = format!("{doubled}{{{{{call}}}}}");
        let error = engine.parse("base", &text).unwrap().render(&data()).unwrap_err().to_string();
        assert!(error.contains("more than 20000 steps"), "{call}: {error}");
    }
    let nested = format!("{}x{}", "{{if true}}".repeat(100_000), "{{end}}".repeat(100_000));
    assert!(engine.parse("base", &nested).unwrap_err().to_string().contains("nested deeper"));
}

/// Checks that deep values don't overflow the stack. Templates can nest values to any depth, so the stack
/// usage must not depend on the depth.
#[test]
fn a_deeply_nested_value_terminates() {
    let engine = Engine::with_sprig().limits(Limits { steps: 1_000_000, ..LIMITS });
    for make in ["dict \"a\" $d", "list $d", "dict \"a\" (list $d)"] {
        let deep = format!("{{{{$d := list}}}}{{{{range 50000}}}}{{{{$d = {make}}}}}{{{{end}}}}");
        assert_eq!(engine.parse("base", &format!("{deep}x")).unwrap().render(&data()).unwrap(), "x");
        for call in ["deepCopy $d", "eq $d $d", "printf \"%#v\" $d", "printf \"%d\" $d"] {
            let text = format!("{deep}{{{{{call}}}}}");
            let error = engine.parse("base", &text).unwrap().render(&data()).unwrap_err().to_string();
            assert!(error.contains("nested too deep"), "{make}, {call}: {error}");
        }
    }
    let inside = "{{$d := dict}}{{$_ := set $d \"self\" $d}}{{deepCopy $d}}";
    let error = engine.parse("base", inside).unwrap().render(&data()).unwrap_err().to_string();
    assert!(error.contains("contains itself"), "{error}");
}

#[test]
fn nondeterministic_functions_are_forbidden() {
    let engine = Engine::with_sprig();
    for call in ["randAlphaNum 5", "uuidv4", "genCA \"a\" 1", "env \"HOME\"", "now", "ago 5"] {
        let error = engine.parse("base", &format!("{{{{ {call} }}}}")).unwrap().render(&data()).unwrap_err();
        assert!(error.to_string().contains("not available"), "{call}: {error}");
    }
    let fixed = Engine::with_sprig().now(0);
    assert_eq!(fixed.parse("base", "{{ now | date \"2006\" }}").unwrap().render(&data()).unwrap(), "1970");
    let hidden = Engine::with_sprig().without(&["env"]);
    let error = hidden.parse("base", "{{ env \"HOME\" }}").unwrap_err();
    assert_eq!(error.to_string(), "template: base:1: function \"env\" not defined");
}

#[test]
fn a_custom_function_is_called() {
    let engine = Engine::new().function("shout", |arguments| match arguments {
        [Value::String(text)] => Ok(json!(format!("{text}!"))),
        _ => Err("one text, please".to_owned()),
    });
    let render = |text: &str| engine.parse("base", text).unwrap().render(&data());
    assert_eq!(render("{{ shout .name }}").unwrap(), "web!");
    let error = render("{{ shout }}").unwrap_err().to_string();
    assert_eq!(
        error,
        "template: base:1:3: executing \"base\" at <shout>: error calling shout: one text, please"
    );
}
