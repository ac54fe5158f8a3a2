//! The page with many Applications, in a real browser: how long until it shows something, until a row says what has happened,
//! and what its tab has in memory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::browser::{Browser, missing};
use crate::fleet::{Fleet, Policy, name};
use crate::serving::Serving;
use crate::{Line, seconds};

/// How often the view is opened, and how many rows change.
const TIMES: usize = 10;

/// In the page, before anything of it is there: when the first rows can be seen, and when a row says something else.
const WATCH: &str = "
    window.seen = {};
    const painted = (then) => requestAnimationFrame(() => setTimeout(then, 0));
    new MutationObserver(() => {
        const rows = document.querySelectorAll('.rows .row[data-key]');
        if (rows.length > 5 && !window.first) {
            window.first = true;
            painted(() => { window.shown = performance.now(); });
        }
        for (const row of rows) {
            const key = row.dataset.key;
            if (row.textContent.includes('Synced') && !row.textContent.includes('OutOfSync') && !(key in window.seen)) {
                window.seen[key] = null;
                painted(() => { window.seen[key] = performance.timeOrigin + performance.now(); });
            }
        }
    }).observe(document, {subtree: true, childList: true, characterData: true});
";

/// The list of all, a row of it, and what the tab has when all have been seen and all have changed.
pub fn page(number: usize) -> Vec<Line> {
    if let Some(missing) = missing() {
        panic!("{missing}");
    }
    let fleet = Fleet::new(number);
    fleet.write_applications(Policy::Manual);
    let serving = Serving::simulated(&fleet, &["--refresh-every", "0s"]);
    serving.until(serving.begin(), |shown| shown.applications == number && shown.comparisons >= number);
    serving.settle();
    let url = serving.url();
    let mut first: Vec<f64> = (0..TIMES).map(|_| first_view(&watched(&url))).collect();
    let browser = watched(&url);
    first.push(first_view(&browser));
    let small = memory(&browser);
    let mut rows: Vec<f64> = row_updates(&fleet, &serving, &browser);
    scroll_through(&browser, number);
    let scrolled = memory(&browser);
    fleet.change_all(2);
    let before = serving.shown().comparisons;
    serving.push(&fleet, &[]);
    serving.until(serving.begin(), |shown| shown.comparisons >= before + number);
    serving.settle();
    let changed = memory(&browser);
    drop(browser);
    serving.end();
    vec![
        Line::new(
            format!(
                "first view of {number} Applications, nothing in the cache: median and longest of {}",
                first.len()
            ),
            spread(&mut first),
            "≤ 1 s",
        ),
        Line::new(
            format!("from an event to the row that shows it, {} times: median and longest", rows.len()),
            spread(&mut rows),
            "≤ 100 ms",
        ),
        Line::new(
            format!(
                "memory of the tab's scripts: at first, when all {number} rows were scrolled through, when all have changed"
            ),
            [small, scrolled, changed].map(|bytes| format!("{:.1} MiB", bytes / 1024.0 / 1024.0)).join(", "),
            "bounded",
        ),
    ]
}

fn watched(url: &str) -> Browser {
    let browser = Browser::new(url);
    browser.tell("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH}));
    browser
}

/// Milliseconds until rows can be seen, from the moment at which the address is opened.
fn first_view(browser: &Browser) -> f64 {
    browser.open("/");
    browser.until("window.shown").as_f64().unwrap()
}

/// Milliseconds from the moment at which an event has arrived, to the moment at which the row is drawn that says so.
fn row_updates(fleet: &Fleet, serving: &Serving, browser: &Browser) -> Vec<f64> {
    let events = listen(serving);
    let mut all = Vec::new();
    for at in 0..TIMES {
        let name = name(at);
        let done = fleet
            .command()
            .args(["app", "sync", &name, "--state-dir", "state"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(done.success(), "{name}");
        let arrived = loop {
            let (moment, line) = events.recv().unwrap();
            if line["name"] == *name && line["sync"] == "Synced" {
                break moment;
            }
        };
        let drawn = browser.until(&format!("window.seen['argocd/{name}']")).as_f64().unwrap();
        all.push((drawn - arrived).max(0.0));
    }
    all
}

/// Applications as they change, with the moment at which somebody else is told of it, in milliseconds.
fn listen(serving: &Serving) -> Receiver<(f64, Value)> {
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    write!(stream, "GET /api/v1/events HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
    let (give, take) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0;
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let data: Value = serde_json::from_str(data).unwrap();
            if !data["application"].is_null() && give.send((now, data["application"].clone())).is_err() {
                return;
            }
        }
    });
    take
}

/// Goes through the whole list, a screen at a time, and waits for the rows of each.
fn scroll_through(browser: &Browser, number: usize) {
    browser.run_async(
        "let top = 0;
         const step = () => {
           if (top > document.body.scrollHeight) { done(null); return; }
           scrollTo(0, top);
           const wait = () => {
             const rows = [...document.querySelectorAll('.rows .row')];
             if (rows.length > 0 && rows.every((row) => row.dataset.key)) { top += innerHeight; step(); } else setTimeout(wait, 10);
           };
           setTimeout(wait, 10);
         };
         step();",
    );
    let last = format!("argocd/{}", name(number - 1));
    browser.until(&format!("document.querySelector('[data-key=\"{last}\"]')"));
}

/// The bytes that scripts of the tab hold, once what nobody holds is gone.
fn memory(browser: &Browser) -> f64 {
    browser.tell("HeapProfiler.collectGarbage", json!({}));
    browser.tell("Runtime.getHeapUsage", json!({}))["usedSize"].as_f64().unwrap()
}

fn spread(all: &mut [f64]) -> String {
    all.sort_by(f64::total_cmp);
    let longest = all.last().copied().unwrap();
    let words = |time: f64| {
        if time < 1000.0 {
            format!("{time:.0} ms")
        } else {
            seconds(std::time::Duration::from_secs_f64(time / 1000.0))
        }
    };
    format!("{}, {}", words(all[all.len() / 2]), words(longest))
}
