//! Records of operations: search, and export as a file.

use serde_json::json;

use crate::service::{ExampleOptions, READER, Service, example_folder};

pub fn operations_are_filtered_and_exported_as_a_file() {
    let service = Service::new(&ExampleOptions { has_no_appset: true, ..ExampleOptions::default() });
    service.wait_until_synced(&[]);
    service.post("/api/v1/applications/argocd/backend/sync", &json!({}));
    let by_a_person = "/api/v1/operations?application=backend&initiatedBy=ann&limit=1";
    let synced = service.wait_until(by_a_person, |found| found["items"][0]["finishedAt"].is_string());
    let id = synced["items"][0]["id"].as_str().unwrap().to_owned();
    let mut browser = service.browser(READER);
    browser.open("/operations");
    browser.wait_until("document.querySelectorAll('tbody tr').length > 3");
    let only = |browser: &crate::browser::Browser| {
        browser.wait_until(&format!(
            "document.querySelectorAll('tbody tr').length === 1 && document.querySelector('tbody tr').dataset.key === '{id}'"
        ));
    };
    // Each filter becomes part of the address, and opening such an address applies the filters.
    let change = |browser: &crate::browser::Browser, field: &str, value: &str| {
        browser.run(&format!(
            "const field = document.getElementById('{field}'); field.value = {};
             field.dispatchEvent(new Event('change', {{ bubbles: true }}));",
            json!(value)
        ));
    };
    change(&browser, "filter-by", "ann");
    only(&browser);
    browser.wait_until("location.search === '?by=ann'");
    browser.open("/operations?by=ann&revision=0000");
    browser.wait_for_text("No matching operations.");
    let revision = synced["items"][0]["revision"].as_str().unwrap();
    change(&browser, "filter-revision", &revision[..8]);
    only(&browser);
    // Times are in the reader's time zone, and the address contains the absolute time.
    browser.open("/operations?by=ann");
    only(&browser);
    change(&browser, "filter-until", "2001-02-03T04:05");
    browser.wait_for_text("No matching operations.");
    browser.wait_until("new Date(new URLSearchParams(location.search).get('until')).getTime() === new Date(2001, 1, 3, 4, 5).getTime()");
    browser.run("location.reload()");
    browser.wait_until("document.getElementById('filter-until')?.value === '2001-02-03T04:05'");
    // Opens the exported operation, whose view links to the export.
    browser.open(&format!("/operations/{id}"));
    browser.wait_until("document.querySelectorAll('a[download]').length === 2");
    browser.assert_clean();
    let fetched = browser.run_async(
        "const [page, document_] = [...document.querySelectorAll('a[download]')].map((one) => one.href);
         Promise.all([fetch(page), fetch(document_)]).then(async ([one, other]) =>
           done([await one.text(), await other.json(), one.headers.get('content-disposition')]))",
    );
    assert_eq!(fetched[1]["request"]["initiatedBy"], "ann");
    assert_eq!(fetched[2], format!("attachment; filename=\"operation-{id}.html\""));
    // The file is self-contained: it doesn't need a service, a script or a connection.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.html");
    std::fs::write(&path, fetched[0].as_str().unwrap()).unwrap();
    // Leaves the page first, because it would report the lost service.
    browser.open("/openapi.json");
    service.stop();
    for scheme in ["light", "dark"] {
        browser.set_color_scheme(scheme);
        for (width, height) in [(1200, 900), (360, 800)] {
            browser.set_size(width, height);
            browser.open(&format!("file://{}", path.display()));
            browser.wait_until("document.querySelectorAll('svg rect').length > 3 && document.querySelector('h1').textContent === 'Operation of backend'");
            browser.wait_until("document.documentElement.scrollWidth <= window.innerWidth");
            let seen = browser.run(
                "const style = getComputedStyle(document.body);
                 const bar = document.querySelector('rect.good, rect.busy');
                 return [style.backgroundColor, style.color, getComputedStyle(bar).fill, document.scripts.length, document.links.length]",
            );
            let expected = if scheme == "light" { "rgb(255, 255, 255)" } else { "rgb(18, 22, 28)" };
            assert_eq!(seen[0], expected, "{seen}");
            assert!(seen[0] != seen[1] && seen[2] != "rgb(0, 0, 0)", "its style is permitted: {seen}");
            assert_eq!((&seen[3], &seen[4]), (&json!(0), &json!(0)));
            browser.save_screenshot(&format!("record-{scheme}-{width}"));
        }
    }
    let complaints = browser.take_console_messages();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {}\n";

pub fn a_compacted_operation_shows_what_remains() {
    let bench = example_folder(&ExampleOptions { has_no_appset: true, ..ExampleOptions::default() });
    bench.write("settings.yaml", CONFIG);
    let sync = ["sync", "settings.yaml", "--app", "settings", "--sim", "--history", "1"];
    bench.run(&sync).expect_code(0);
    let listed = bench.json(&["ops", "list", "--app", "settings", "-o", "json"]);
    let old = listed[0].clone();
    bench.run(&sync).expect_code(0);
    let service = Service::in_folder(bench);
    let id = old["id"].as_str().unwrap();
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    browser.wait_for_text("The details were compacted");
    browser.wait_for_text("successfully synced");
    let terms = "[...document.querySelectorAll('dl.terms dt')].map((one) => one.textContent)";
    browser.wait_until(&format!(
        "['Started', 'Finished', 'Duration', 'Requested by', 'ID'].every((one) => {terms}.includes(one))"
    ));
    browser.wait_until(&format!(
        "document.querySelector('dl.terms').textContent.includes({})",
        json!(old["initiatedBy"].as_str().unwrap())
    ));
    browser.wait_until("!document.getElementById('timeline') && !document.getElementById('waves')");
    let response = service.get(&format!("/api/v1/operations/{id}/export"));
    assert_eq!((&response["events"], &response["summary"]["id"]), (&json!([]), &old["id"]));
    assert_eq!((&response["summary"]["message"], &response["plan"]), (&old["message"], &json!(null)));
    let log = service.request(
        "GET",
        &format!("/api/v1/operations/{id}/log"),
        &[&format!("authorization: Bearer {READER}")],
        None,
    );
    let problem: serde_json::Value = serde_json::from_str(&log.body).unwrap();
    assert_eq!((log.status, &problem["code"]), (410, &json!("gone")), "{}", log.body);
    assert!(problem["message"].as_str().unwrap().contains("--history"), "{}", log.body);
    browser.assert_clean();
    // For an unknown ID, the page shows an error instead of an empty timeline.
    let nobody = "01a1fdbf-da23-70f8-b7a6-18e4810d225a";
    browser.open(&format!("/operations/{nobody}"));
    browser.wait_for_text(&format!("There is no operation {nobody}"));
    browser.wait_until("!document.getElementById('timeline')");
    service.stop();
}
