//! A long list.

use crate::service::{Different, READER, Service, folder};

const MANY: usize = 3000;

pub fn thousands_of_rows_are_fetched_as_they_are_seen() {
    let bench = folder(&Different { has_no_set: true, ..Different::default() });
    // Nobody syncs them, and their manifests are nowhere: they are there to be listed.
    let one = |number: usize| {
        format!(
            "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: many-{number:05}
spec:
  project: default
  source: {{repoURL: ./nowhere, targetRevision: main, path: .}}
  destination: {{name: in-cluster, namespace: many}}
"
        )
    };
    let all: Vec<String> = (0..MANY).map(one).collect();
    bench.write("fleet/many.yaml", all.join("---\n"));
    let service = Service::in_folder(bench);
    service.until("/api/v1/applications?limit=1", |found| found["matching"] == MANY + 3);
    let mut browser = service.browser(READER);
    browser.await_text("3,003 Applications");
    let seen = "[...document.querySelectorAll('.rows .row[data-key]')].filter((row) => { const box = row.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; })";
    browser.until(&format!("{seen}.length > 5"));
    // Only what can be seen is there, wherever somebody goes.
    browser.run("scrollTo(0, document.body.scrollHeight)");
    browser.until(&format!("{seen}.some((row) => row.dataset.key === 'argocd/many-{:05}')", MANY - 1));
    browser.run("scrollTo(0, document.body.scrollHeight / 2)");
    browser.until(&format!("{seen}.some((row) => /many-01[45]/.test(row.dataset.key))"));
    assert!(browser.run("return document.querySelectorAll('.rows .row').length").as_u64().unwrap() < 80);
    // Parts that nobody looked at were not asked for.
    let lists = browser.requested().iter().filter(|url| url.contains("/api/v1/applications?")).count();
    assert!(lists < 20, "{lists}");
    browser.write("#search", "many-02999");
    browser.await_text("1 Application");
    browser.until(&format!("{seen}.length === 1"));
    browser.is_clean();
    service.end();
}
