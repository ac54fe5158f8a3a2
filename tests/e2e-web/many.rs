//! A long list.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use crate::service::{Different, OPERATOR, READER, Service, folder};

const MANY: usize = 3000;

/// Nobody syncs it, and its manifests are nowhere: it is there to be listed.
fn one(name: &str) -> String {
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

pub fn thousands_of_rows_are_fetched_as_they_are_seen() {
    let bench = folder(&Different { has_no_set: true, ..Different::default() });
    let all: Vec<String> = (0..MANY).map(|number| one(&format!("many-{number:05}"))).collect();
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

/// So many are told of events at once.
const LISTENERS: usize = 64;

pub fn where_as_many_listen_as_may_the_page_says_so_and_reads_its_lists_again() {
    let service = Service::new(&Different { has_no_set: true, ..Different::default() });
    service.wait(&[]);
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
    let listeners: Vec<BufReader<TcpStream>> = (0..LISTENERS).map(listen).collect();
    let browser = service.browser(READER);
    browser.until("document.getElementById('notice').textContent.startsWith('The service answers, and tells of no news by itself now')");
    // What happens is seen all the same.
    service.bench.write("fleet/more.yaml", one("more"));
    browser.until("document.querySelector('[data-key=\"argocd/more\"]')");
    drop(listeners);
    browser.until("document.getElementById('notice').hidden");
    service.end();
}
