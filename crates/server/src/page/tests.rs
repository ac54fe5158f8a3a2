#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::views::VIEW_MAX;
use super::*;

fn file_text(file: &PageFile) -> &str {
    std::str::from_utf8(file.bytes).unwrap()
}

#[test]
fn every_file_is_embedded_and_every_import_resolves() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let there: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| format!("/page/{}", entry.unwrap().file_name().into_string().unwrap()))
        .filter(|path| path != "/page/index.html")
        .collect();
    let paths: BTreeSet<String> = OTHERS.iter().map(|file| file.path.to_owned()).collect();
    assert_eq!(paths, there);
    assert_eq!(paths.len(), OTHERS.len(), "no path occurs twice");
    for file in OTHERS.iter().filter(|file| file.path.ends_with(".js")) {
        let imports =
            file_text(file).lines().filter_map(|line| line.strip_suffix("\";")?.split_once(" from \"./"));
        for (_, imported) in imports {
            assert!(paths.contains(&format!("/page/{imported}")), "{}: {imported}", file.path);
        }
    }
    for named in file_text(&INDEX).split('"').filter(|part| part.starts_with("/page/")) {
        assert!(paths.contains(named), "{named}");
    }
}

#[test]
fn the_page_runs_no_text_as_code_and_calls_no_other_host() {
    for file in OTHERS.iter().chain([&INDEX]) {
        let text = file_text(file);
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
        // XML namespaces look like URLs, but browsers don't load them.
        let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{}", file.path);
        assert!(text.lines().count() <= 400, "{} is too long", file.path);
    }
    let index = file_text(&INDEX);
    for line in index.lines().filter(|line| line.contains("<script")) {
        assert!(line.contains("src=\"/page/") && line.contains("></script>"), "{line}");
    }
    assert!(!index.contains("<style"));
}

#[test]
fn the_policy_forbids_foreign_content_and_inline_code() {
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(CSP.contains(part), "{part}");
    }
    for forbidden in ["unsafe", "*", "http", "blob:"] {
        assert!(!CSP.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn only_paths_of_the_page_are_views() {
    for view in [
        "/",
        "/?name=shop&sort=health",
        "/applicationsets",
        "/operations?by=oidc%3Aann&q=%2F%2Fevil.example",
        "/applications/argocd/shop",
        "/applications/%3Cb%3E/x",
        "/applicationsets/argocd/shops?a=//b",
        "/operations/01a1fdbf-da23-70f8-b7a6-18e4810d225a",
        "/applicationsets/argocd/shops/runs/01a1fdbf-da23-70f8-b7a6-18e4810d225a",
    ] {
        assert!(is_view(view), "{view}");
    }
    for other in [
        "",
        "operations",
        "//evil.example",
        "//evil.example/operations",
        "///operations",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/operations\r\nset-cookie: a=b",
        "/operations/x\u{2028}",
        "/%2fevil.example",
        "/%2F%2Fevil.example",
        "/%5cevil.example",
        "/operations/",
        "/operations//evil.example",
        "/operations/..",
        "/operations/%2e%2E",
        "/applications/../evil.example",
        "/applications/./x",
        "/applications/a/b/c",
        "/applicationsets/a/b/c",
        "/applicationsets/a/b/c/d",
        "/applicationsets/a/b/runs/..",
        "/applications/a",
        "/page/main.js",
        "/api/v1/session/oidc",
        "/operations#//evil.example",
        "https://evil.example/",
        "http:/operations",
        "javascript:alert(1)",
        "/operations ",
        &format!("/operations?q={}", "x".repeat(VIEW_MAX)),
    ] {
        assert!(!is_view(other), "{other}");
    }
}

#[test]
fn unchanged_files_are_not_sent_again() {
    let tag = entity_tag(INDEX.bytes);
    let requested = |known: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, known.parse().unwrap());
        file_response(&INDEX, &tag, &headers)
    };
    let first = file_response(&INDEX, &tag, &HeaderMap::new());
    assert_eq!(
        (first.status(), first.headers().get(header::ETAG).unwrap().to_str().unwrap()),
        (StatusCode::OK, tag.as_str())
    );
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}")] {
        let answer = requested(&known);
        assert_eq!(answer.status(), StatusCode::NOT_MODIFIED, "{known}");
        assert!(answer.headers().contains_key(header::CONTENT_SECURITY_POLICY));
    }
    assert_eq!(requested("\"x\"").status(), StatusCode::OK);
    assert_ne!(tag, super::entity_tag(b"another"));
}
