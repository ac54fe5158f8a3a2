//! Accessibility of the page with the keyboard, on a phone, in both color schemes, and with screen readers.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::browser::{Browser, key};
use crate::plan_details::store_plan;
use crate::service::{ExampleOptions, OPERATOR, Service};

/// Returns the URL of each view of a service whose Applications are synced.
fn views(service: &Service) -> Vec<String> {
    let backend = service.newest_operation("backend");
    let runs = service
        .wait_until("/api/v1/runs?applicationSet=shops", |found| found["items"][0]["outcome"] == "Completed");
    vec![
        "/".to_owned(),
        "/applicationsets".to_owned(),
        "/operations".to_owned(),
        "/applications/argocd/backend".to_owned(),
        "/applicationsets/argocd/shops".to_owned(),
        format!("/applicationsets/argocd/shops/runs/{}", runs["items"][0]["id"].as_str().unwrap()),
        format!("/operations/{backend}"),
    ]
}

/// Opens a view, and waits for its content.
fn open_view(browser: &Browser, view: &str) {
    browser.open(view);
    let shown = match view {
        "/" => {
            "document.querySelectorAll('.rows .row[data-key]').length > 5 && document.querySelector('.card')"
        }
        "/applicationsets" => "document.querySelectorAll('.rows .row[data-key]').length === 1",
        "/operations" => "document.querySelectorAll('tbody tr').length > 10",
        _ if view.starts_with("/applications/") => {
            "document.querySelectorAll('.phase').length === 3 && document.querySelector('#differs + div p') && document.querySelector('#history')"
        }
        _ if view.contains("/runs/") => {
            "document.querySelectorAll('.step').length === 3 && document.querySelectorAll('.facts tr').length > 20"
        }
        _ if view.starts_with("/applicationsets/") => "document.querySelectorAll('.step').length === 3",
        _ => "document.querySelector('.timeline') && document.querySelector('.facts')",
    };
    browser.wait_until(shown);
    if view == "/applications/argocd/backend" {
        browser.click("details.stored summary");
        browser.wait_until(
            "document.querySelector('details.stored').textContent.includes('The plan is still valid ')",
        );
    }
}

fn synced_service() -> (Service, Vec<String>) {
    let service = Service::new(&ExampleOptions::default());
    service.wait_until_synced(&[]);
    // Creates a plan to display.
    store_plan(&service, "argocd/backend");
    let views = views(&service);
    (service, views)
}

pub fn every_control_is_reachable_by_keyboard() {
    let (service, _) = synced_service();
    let browser = service.browser(OPERATOR);
    open_view(&browser, "/");
    // The first tab stop skips the header of each view.
    browser.press_key(key::TAB);
    browser.wait_until("document.activeElement.classList.contains('skip')");
    browser.press_key(key::ENTER);
    browser.wait_until("document.activeElement.id === 'main'");
    // The focus moves to a row, from row to row, and to the last and the first row.
    browser.wait_until("(document.querySelector('.rows a').focus(), document.activeElement.closest('.row').dataset.index === '0')");
    browser.press_key(key::DOWN);
    browser.wait_until("document.activeElement.closest('.row').dataset.index === '1'");
    browser.press_key(key::END);
    browser.wait_until("document.activeElement.closest('.row').dataset.index === '14'");
    browser.press_key(key::HOME);
    browser.wait_until("document.activeElement.closest('.row').dataset.key === 'argocd/backend'");
    // A change of the view is announced.
    browser.press_key(key::ENTER);
    browser.wait_until(
        "document.querySelector('h1').textContent === 'backend' && document.activeElement.id === 'main'",
    );
    browser.wait_until("document.getElementById('said').textContent.includes('backend')");
    browser.wait_until("document.title.startsWith('backend')");
    // Every tab stop is visible, and the focus can always leave it, around the view and out of it.
    browser.wait_until("document.querySelector('[data-do=\"Sync…\"]')");
    let mut stops: Vec<String> = Vec::new();
    for _ in 0..60 {
        browser.press_key(key::TAB);
        let stop = browser.run(
            "const here = document.activeElement;
             if (here === document.body) return ['body', true];
             const style = getComputedStyle(here);
             return [here.dataset.do ?? here.textContent.slice(0, 30), style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2]",
        );
        assert_eq!(stop[1], json!(true), "{stop}");
        stops.push(stop[0].as_str().unwrap().to_owned());
        if stop[0] == "body" {
            break;
        }
    }
    for wanted in ["Sync…", "Refresh…", "Delete…"] {
        assert!(stops.iter().any(|stop| stop == wanted), "{stops:?}");
    }
    // A dialog takes the focus, keeps it, and returns it.
    browser.run("document.querySelector('[data-do=\"Refresh…\"]').focus()");
    browser.press_key(key::ENTER);
    browser.wait_until("document.querySelector('dialog').contains(document.activeElement)");
    browser.press_key(key::ESCAPE);
    browser
        .wait_until("!document.querySelector('dialog') && document.activeElement.dataset.do === 'Refresh…'");
    service.stop();
}

pub fn nothing_is_wider_than_a_phone() {
    let (service, views) = synced_service();
    let mut browser = service.browser(OPERATOR);
    browser.set_size(360, 740);
    for view in &views {
        open_view(&browser, view);
        // A browser that emulates a phone makes its window as wide as the content of the page.
        let width = browser.run("return document.documentElement.scrollWidth");
        assert_eq!(width, json!(360), "{view}");
        // Click targets are at least 24 pixels in size.
        let small = browser.run(
            "return [...document.querySelectorAll('button, select, input')].filter((one) => one.offsetParent && one.type !== 'checkbox')
               .filter((one) => one.getBoundingClientRect().height < 24).map((one) => one.outerHTML)",
        );
        assert_eq!(small, json!([]), "{view}");
    }
    open_view(&browser, "/applications/argocd/backend");
    browser.press_button("Sync…");
    browser.click("#field-resources summary");
    browser.wait_until("document.querySelectorAll('.choices li').length > 1");
    let dialog = browser.run("const box = document.querySelector('dialog').getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth");
    assert_eq!(dialog, json!(true));
    browser.save_screenshot("phone");
    browser.assert_clean();
    service.stop();
}

pub fn both_color_schemes_are_readable() {
    let (service, views) = synced_service();
    let mut browser = service.browser(OPERATOR);
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.set_color_scheme(scheme);
        for view in &views {
            open_view(&browser, view);
            let wrong = browser.run(CONTRAST);
            assert_eq!(wrong, json!([]), "{scheme} {view}");
        }
        grounds.push(browser.run("return getComputedStyle(document.body).backgroundColor"));
        let moving = browser
            .run("return getComputedStyle(document.querySelector('.column > div')).transitionDuration");
        assert_eq!(moving, json!("0s"), "nothing moves with reduced motion");
    }
    assert_ne!(grounds[0], grounds[1]);
    open_view(&browser, "/applicationsets/argocd/shops");
    browser.save_screenshot("dark");
    browser.assert_clean();
    service.stop();
}

/// Script that returns the texts that don't have enough contrast to their background.
const CONTRAST: &str = "
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (one) => { const c = one / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const wrong = [];
  for (const one of document.querySelectorAll('body *')) {
    const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || one.closest('svg') || !one.offsetParent || one.closest('.unseen') || one.disabled) continue;
    const [text, ground] = [light(numbers(getComputedStyle(one).color)), light(behind(one))];
    const ratio = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    if (ratio < 4.5) wrong.push(`${one.className} ${one.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return [...new Set(wrong)].slice(0, 20);";

/// Returns the path of axe-core if it is installed.
pub fn find_axe() -> Option<String> {
    let folder = std::env::var_os("TIDEGATE_WEB_TOOLS").map(PathBuf::from);
    let cache = || {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/web-tools");
        let told = Command::new(script).output().ok().filter(|told| told.status.success())?;
        Some(PathBuf::from(String::from_utf8(told.stdout).ok()?.trim()))
    };
    fs::read_to_string(folder.or_else(cache)?.join("axe.min.js")).ok()
}

pub fn axe_finds_nothing_serious() {
    let axe = find_axe().expect("axe-core is missing; run scripts/web-tools --fetch");
    let (service, views) = synced_service();
    let browser = service.browser(OPERATOR);
    let check = |view: &str| {
        browser.run(&format!("{axe}; window.axe = axe;"));
        let found = browser.run_async(
            "axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
               .then((told) => done(told.violations.map((one) => ({id: one.id, impact: one.impact, nodes: one.nodes.slice(0, 3).map((node) => node.html)}))))",
        );
        // Two landmarks with the same name cannot be distinguished.
        let is_bad = |one: &&Value| {
            one["impact"] == "serious" || one["impact"] == "critical" || one["id"] == "landmark-unique"
        };
        let bad: Vec<&Value> = found.as_array().unwrap().iter().filter(is_bad).collect();
        assert!(bad.is_empty(), "{view}: {bad:#?}");
    };
    for view in &views {
        open_view(&browser, view);
        check(view);
    }
    open_view(&browser, "/applications/argocd/backend");
    browser.press_button("Delete…");
    browser.wait_until("document.querySelector('dialog[open]')");
    check("a question");
    browser.press_key(key::ESCAPE);
    browser.press_button("Sync…");
    browser.click("#field-resources summary");
    browser.wait_until("document.querySelector('dialog[open]').textContent.includes('Preview: ')");
    check("a question with a list");
    browser.press_key(key::ESCAPE);
    open_view(&browser, "/applicationsets/argocd/shops");
    browser.press_button("preview-rollout");
    browser.wait_until("document.querySelectorAll('.foreseen .card').length === 3");
    check("what a rollout would do");
    service.stop();
}

pub fn times_are_in_the_local_time_zone() {
    let (service, views) = synced_service();
    let browser = service.browser(OPERATOR);
    let shown = |zone: &str| {
        browser.send_command("Emulation.setTimezoneOverride", json!({"timezoneId": zone}));
        open_view(&browser, &views[3]);
        let both = browser.run(
            "const time = document.querySelector('main time'); return [time.dateTime, time.textContent]",
        );
        (both[0].as_str().unwrap().to_owned(), both[1].as_str().unwrap().to_owned())
    };
    let (at, here) = shown("UTC");
    let (same, there) = shown("Asia/Tokyo");
    assert_eq!(at, same, "the time is the same");
    assert_ne!(here, there);
    assert!(there.contains("GMT+9"), "{there}");
    service.stop();
}
