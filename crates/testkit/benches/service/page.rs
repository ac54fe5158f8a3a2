//! The page with many Applications in a real browser: time until content is visible, time of row updates, and
//! memory of the tab.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::browser::{Browser, missing_requirement};
use crate::fleet::{Fleet, Policy, application_name};
use crate::service::RunningService;
use crate::{Line, format_seconds};

/// Number of opened views, and of changed rows.
const REPETITIONS: usize = 10;

/// Script that runs before the page. Records when the first rows become visible, and when a row changes.
const WATCH_SCRIPT: &str = "
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

/// Measures the list, the updates of its rows, and the memory after all rows have been visible and have
/// changed.
pub fn measure_page(number: usize) -> Vec<Line> {
    if let Some(missing) = missing_requirement() {
        panic!("{missing}");
    }
    let fleet = Fleet::new(number);
    fleet.write_applications(Policy::Manual);
    let service = RunningService::simulated(&fleet, &["--refresh-every", "0s"]);
    service.wait_until(service.start_period(), |shown| {
        shown.applications == number && shown.comparisons >= number
    });
    service.wait_until_idle();
    let url = service.url();
    let mut first: Vec<f64> = (0..REPETITIONS).map(|_| measure_first_view(&open_watched(&url))).collect();
    let browser = open_watched(&url);
    first.push(measure_first_view(&browser));
    let small = script_memory(&browser);
    let mut rows: Vec<f64> = measure_row_updates(&fleet, &service, &browser);
    scroll_through(&browser, number);
    let scrolled = script_memory(&browser);
    fleet.change_all(2);
    let before = service.metrics().comparisons;
    service.send_push(&fleet, &[]);
    service.wait_until(service.start_period(), |shown| shown.comparisons >= before + number);
    service.wait_until_idle();
    let changed = script_memory(&browser);
    drop(browser);
    service.stop();
    vec![
        Line::new(
            format!(
                "first view of {number} Applications, nothing in the cache: median and longest of {}",
                first.len()
            ),
            format_spread(&mut first),
            "≤ 1 s",
        ),
        Line::new(
            format!("from an event to the row that shows it, {} times: median and longest", rows.len()),
            format_spread(&mut rows),
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

fn open_watched(url: &str) -> Browser {
    let browser = Browser::new(url);
    browser.send_command("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH_SCRIPT}));
    browser
}

/// Returns the milliseconds from opening the URL to visible rows.
fn measure_first_view(browser: &Browser) -> f64 {
    browser.open("/");
    browser.wait_until("window.shown").as_f64().unwrap()
}

/// Returns the milliseconds from an event to the updated row.
fn measure_row_updates(fleet: &Fleet, service: &RunningService, browser: &Browser) -> Vec<f64> {
    let events = listen_for_events(service);
    let mut all = Vec::new();
    for at in 0..REPETITIONS {
        let name = application_name(at);
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
        let drawn = browser.wait_until(&format!("window.seen['argocd/{name}']")).as_f64().unwrap();
        all.push((drawn - arrived).max(0.0));
    }
    all
}

/// Listens for events. For each changed Application, sends the arrival time of the event in milliseconds.
fn listen_for_events(service: &RunningService) -> Receiver<(f64, Value)> {
    let mut stream = TcpStream::connect(service.address()).unwrap();
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

/// Scrolls through the whole list screen by screen, waiting for the rows each time.
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
    let last = format!("argocd/{}", application_name(number - 1));
    browser.wait_until(&format!("document.querySelector('[data-key=\"{last}\"]')"));
}

/// Returns the tab's script memory in bytes, after garbage collection.
fn script_memory(browser: &Browser) -> f64 {
    browser.send_command("HeapProfiler.collectGarbage", json!({}));
    browser.send_command("Runtime.getHeapUsage", json!({}))["usedSize"].as_f64().unwrap()
}

fn format_spread(all: &mut [f64]) -> String {
    all.sort_by(f64::total_cmp);
    let longest = all.last().copied().unwrap();
    let text = |time: f64| {
        if time < 1000.0 {
            format!("{time:.0} ms")
        } else {
            format_seconds(std::time::Duration::from_secs_f64(time / 1000.0))
        }
    };
    format!("{}, {}", text(all[all.len() / 2]), text(longest))
}
