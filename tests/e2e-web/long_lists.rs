//! A list that is too long to be shown at once.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use crate::service::{ExampleOptions, OPERATOR, READER, Service, example_folder};

const APPLICATIONS: usize = 3000;

/// Returns an Application without manifests that isn't synced and only appears in the list.
fn unsynced_application(name: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: {name}
spec:
  project: default
  source: {{repoURL: ./nowhere, targetRevision: main, path: .}}
  destination: {{name: in-cluster, namespace: many}}
"
    )
}

pub fn long_lists_are_fetched_while_scrolling() {
    let bench = example_folder(&ExampleOptions { has_no_appset: true, ..ExampleOptions::default() });
    let all: Vec<String> =
        (0..APPLICATIONS).map(|number| unsynced_application(&format!("many-{number:05}"))).collect();
    bench.write("fleet/many.yaml", all.join("---\n"));
    let service = Service::in_folder(bench);
    service.wait_until("/api/v1/applications?limit=1", |found| found["total"] == APPLICATIONS + 3);
    let mut browser = service.browser(READER);
    browser.wait_for_text("3,003 Applications");
    let seen = "[...document.querySelectorAll('.rows .row[data-key]')].filter((row) => { const box = row.getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; })";
    browser.wait_until(&format!("{seen}.length > 5"));
    // Only visible rows exist in the page, at any scroll position.
    browser.run("scrollTo(0, document.body.scrollHeight)");
    browser.wait_until(&format!(
        "{seen}.some((row) => row.dataset.key === 'argocd/many-{:05}')",
        APPLICATIONS - 1
    ));
    browser.run("scrollTo(0, document.body.scrollHeight / 2)");
    browser.wait_until(&format!("{seen}.some((row) => /many-01[45]/.test(row.dataset.key))"));
    assert!(browser.run("return document.querySelectorAll('.rows .row').length").as_u64().unwrap() < 80);
    // The page hasn't requested invisible parts of the list.
    let lists = browser.requested().iter().filter(|url| url.contains("/api/v1/applications?")).count();
    assert!(lists < 20, "{lists}");
    browser.type_text("#search", "many-02999");
    browser.wait_for_text("1 Application");
    browser.wait_until(&format!("{seen}.length === 1"));
    browser.assert_clean();
    service.stop();
}

/// Maximum number of concurrent event subscribers.
const MAX_LISTENERS: usize = 64;

pub fn without_a_free_event_stream_the_page_says_so_and_polls() {
    let service = Service::new(&ExampleOptions { has_no_appset: true, ..ExampleOptions::default() });
    service.wait_until_synced(&[]);
    let listen = |_| {
        let mut stream = TcpStream::connect(service.url.trim_start_matches("http://")).unwrap();
        write!(stream, "GET /api/v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {OPERATOR}\r\n\r\n")
            .unwrap();
        let mut lines = BufReader::new(stream);
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert!(first.starts_with("HTTP/1.1 200"), "{first}");
        lines
    };
    let listeners: Vec<BufReader<TcpStream>> = (0..MAX_LISTENERS).map(listen).collect();
    let browser = service.browser(READER);
    browser.wait_until(
        "document.getElementById('notice').textContent.startsWith('Live updates are unavailable')",
    );
    // Changes appear although the limit of subscribers is reached.
    service.bench.write("fleet/more.yaml", unsynced_application("more"));
    browser.wait_until("document.querySelector('[data-key=\"argocd/more\"]')");
    drop(listeners);
    browser.wait_until("document.getElementById('notice').hidden");
    service.stop();
}
