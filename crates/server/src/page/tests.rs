#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;

fn text(file: &File) -> &str {
    std::str::from_utf8(file.bytes).unwrap()
}

#[test]
fn every_file_of_the_folder_is_part_of_the_page_and_every_import_leads_to_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let there: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| format!("/page/{}", entry.unwrap().file_name().into_string().unwrap()))
        .filter(|path| path != "/page/index.html")
        .collect();
    let paths: BTreeSet<String> = OTHERS.iter().map(|file| file.path.to_owned()).collect();
    assert_eq!(paths, there);
    assert_eq!(paths.len(), OTHERS.len(), "each once");
    for file in OTHERS.iter().filter(|file| file.path.ends_with(".js")) {
        let imports =
            text(file).lines().filter_map(|line| line.strip_suffix("\";")?.split_once(" from \"./"));
        for (_, imported) in imports {
            assert!(paths.contains(&format!("/page/{imported}")), "{}: {imported}", file.path);
        }
    }
    for named in text(&INDEX).split('"').filter(|part| part.starts_with("/page/")) {
        assert!(paths.contains(named), "{named}");
    }
}

#[test]
fn nothing_of_the_page_makes_code_or_markup_from_text_or_asks_elsewhere() {
    for file in OTHERS.iter().chain([&INDEX]) {
        let text = text(file);
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
            "createContextualFragment",
            "srcdoc",
            "style=\"",
            "javascript:",
            "onclick=",
            "localStorage",
            "import(",
        ] {
            assert!(!text.contains(forbidden), "{}: {forbidden}", file.path);
        }
        // Names of markup languages are no addresses that anybody asks.
        let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{}", file.path);
        assert!(text.lines().count() <= 400, "{} is too long", file.path);
    }
    let index = text(&INDEX);
    for line in index.lines().filter(|line| line.contains("<script")) {
        assert!(line.contains("src=\"/page/") && line.contains("></script>"), "{line}");
    }
    assert!(!index.contains("<style"));
}

#[test]
fn the_policy_lets_nothing_in_from_elsewhere_and_runs_no_text() {
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(POLICY.contains(part), "{part}");
    }
    for forbidden in ["unsafe", "*", "http", "blob:"] {
        assert!(!POLICY.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn a_file_that_is_known_is_not_sent_again() {
    let tag = tag(INDEX.bytes);
    let asked = |known: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, known.parse().unwrap());
        shown(&INDEX, &tag, &headers)
    };
    let first = shown(&INDEX, &tag, &HeaderMap::new());
    assert_eq!(
        (first.status(), first.headers().get(header::ETAG).unwrap().to_str().unwrap()),
        (StatusCode::OK, tag.as_str())
    );
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}")] {
        let answer = asked(&known);
        assert_eq!(answer.status(), StatusCode::NOT_MODIFIED, "{known}");
        assert!(answer.headers().contains_key(header::CONTENT_SECURITY_POLICY));
    }
    assert_eq!(asked("\"x\"").status(), StatusCode::OK);
    assert_ne!(tag, super::tag(b"another"));
}
