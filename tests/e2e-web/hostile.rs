//! Texts that others have written are shown as texts, whatever is in them.

use std::fs;

use serde_json::json;

use crate::browser::key;
use crate::service::{Different, OPERATOR, READER, Service, folder};

/// What would run, if any text became markup or an address became code.
const MARKUP: &str = "<img src=x onerror=window.hit=1><script>window.hit=1</script>";
const BREAKS: &str = "</script></title></textarea>\\\"'><svg onload=window.hit=1>";

pub fn texts_of_others_are_texts() {
    let bench = folder(&Different { has_no_set: true, ..Different::default() });
    let application = format!(
        "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: hostile
  labels:
    note: {markup}
  annotations:
    link.argocd.argoproj.io/one: \"javascript:window.hit=1\"
    link.argocd.argoproj.io/two: \"data:text/html,{MARKUP}\"
    link.argocd.argoproj.io/three: \"https://example.com/?q=<b>\"
    link.argocd.argoproj.io/four: \" jAvAsCrIpT:window.hit=1\"
    notes: {breaks}
spec:
  project: {markup}
  source:
    repoURL: {markup}
    targetRevision: {breaks}
    path: {markup}
  destination:
    name: {breaks}
    namespace: fleet
",
        markup = json!(MARKUP),
        breaks = json!(BREAKS),
    );
    bench.write("fleet/hostile.yaml", application);
    let configuration = format!(
        "apiVersion: v1
kind: ConfigMap
metadata:
  name: words
  annotations:
    notes: {breaks}
data:
  text: {markup}
---
apiVersion: v1
kind: Secret
metadata:
  name: secret
stringData:
  password: the-canary-of-this-test
",
        markup = json!(MARKUP),
        breaks = json!(BREAKS),
    );
    bench.write("fleet/repo/frontend/words.yaml", configuration);
    // Nobody syncs it, so that it differs.
    let path = bench.path().join("fleet/frontend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("    automated:\n      prune: true\n      selfHeal: true\n", "")).unwrap();
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    service.until("/api/v1/applications?name=hostile", |found| found["matching"] == 1);
    let mut browser = service.browser(OPERATOR);
    let is_safe = |browser: &crate::browser::Browser| {
        let told = browser.run(
            "const bad = [...document.querySelectorAll('main img, main script, main iframe, main [onerror], main [onload]')].length;
             const links = [...document.querySelectorAll('a[href]')].map((one) => one.protocol).filter((one) => !/^https?:$/.test(one));
             return [window.hit ?? null, bad, links]",
        );
        assert_eq!(told, json!([null, 0, []]));
    };
    browser.await_text("4 Applications");
    is_safe(&browser);
    browser.open("/applications/argocd/hostile");
    browser.await_text("<img src=x onerror=window.hit=1>");
    // Links lead to the web or are none.
    let links = "[...document.querySelectorAll('dl.terms a[rel]')].map((one) => one.href).join()";
    browser.until(&format!("{links} === 'https://example.com/?q=%3Cb%3E'"));
    browser.await_text("Conditions");
    is_safe(&browser);
    // A difference shows the text, and of a Secret nothing.
    browser.open("/applications/argocd/frontend");
    browser.until("document.querySelectorAll('details.differs').length > 1");
    browser.run("document.querySelectorAll('details.differs').forEach((one) => { one.open = true; })");
    browser.await_text(MARKUP);
    assert!(
        !browser
            .run("return document.documentElement.outerHTML")
            .as_str()
            .unwrap()
            .contains("the-canary-of-this-test")
    );
    is_safe(&browser);
    // What a person says is a text as well.
    service
        .post("/api/v1/applications/argocd/frontend/sync", &json!({"reason": format!("{BREAKS} {MARKUP}")}));
    let id = service.newest("frontend");
    service.until(&format!("/api/v1/operations/{id}"), |one| !one["finishedAt"].is_null());
    browser.open(&format!("/operations/{id}"));
    browser.until("document.querySelector('.facts')");
    browser.await_text(MARKUP);
    is_safe(&browser);
    // In a picture that is kept, too.
    let picture = browser.saved("save the timeline");
    assert!(
        picture.contains("&lt;img src=x") && !picture.contains("<img") && !picture.contains("<script"),
        "{picture}"
    );
    browser.open("/applications/argocd/frontend");
    browser.press("Sync…");
    browser.click("#field-resources summary");
    browser.await_text("Asked for by ann: ");
    is_safe(&browser);
    browser.key(key::ESCAPE);
    // Addresses that nobody made lead nowhere.
    for path in [
        "/applications/argocd/%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E",
        "/operations/%3Cscript%3E",
        "/?name=%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E#%22%3E%3Cimg",
    ] {
        browser.open(path);
        browser
            .until("document.querySelector('h1') && document.getElementById('main').textContent.length > 20");
        is_safe(&browser);
    }
    // Nor may anything be run that is not a file of the page.
    let refused = browser.run(
        "const script = document.createElement('script');
         try { script.text = 'window.hit = 2'; } catch (error) { return error.name; }
         document.body.append(script); return window.hit ?? null",
    );
    assert_eq!(refused, json!("TypeError"));
    let elsewhere: Vec<String> = browser
        .requested()
        .iter()
        .filter(|url| !url.starts_with(&service.url) && !url.starts_with("data:image/"))
        .cloned()
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    service.end();
}

/// A hook that writes a line each second, of which each looks otherwise than it is.
const TALKS: &str = "apiVersion: batch/v1
kind: Job
metadata:
  name: talks
  annotations:
    argocd.argoproj.io/hook: PreSync
    sim.tidegate.dev/ready-after: LASTS
    sim.tidegate.dev/logs: LOGS
spec:
  template:
    spec:
      containers: [{name: main, image: example.com/talks:1}]
      restartPolicy: Never
";

/// It is shown while the hook runs, in order, without a reload; and it stays text.
pub fn what_a_hook_writes_is_text_and_shown_while_it_runs() {
    let bench = folder(&Different { has_no_set: true, ..Different::default() });
    let mut lines = vec![MARKUP.to_owned(), BREAKS.to_owned()];
    lines.extend((0..38).map(|number| format!("step {number}")));
    let talks = TALKS.replace("LASTS", "41s").replace("LOGS", &json!(lines.join("\n")).to_string());
    bench.write("fleet/repo/frontend/talks.yaml", talks);
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    let id = service.newest("frontend");
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    let said = "[...document.querySelectorAll('[role=log] .said')].map((one) => one.textContent.replace(/^\\S+(\\s[AP]M)? /, ''))";
    browser.until(&format!("{said}.length > 4"));
    // It runs still.
    let running = browser.run("return document.querySelector('h1 ~ .badge').textContent");
    assert!(running.as_str().unwrap().contains("Running"), "{running}");
    let shown = browser.run(&format!("return {said}"));
    let shown: Vec<&str> = shown.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(shown[..4], [MARKUP, BREAKS, "step 0", "step 1"]);
    assert_eq!(
        browser.run(
            "return [window.hit ?? null, document.querySelectorAll('main img, main script, main [onload], main [onerror]').length,
             document.querySelector('[role=log]').getAttribute('aria-label'), document.querySelector('[role=log]').getAttribute('aria-live')]"
        ),
        json!([null, 0, "Output of hook Job fleet/talks", "polite"])
    );
    browser.picture("output");
    // All of it is there at the end, each line once, and nothing of it was recorded.
    browser.until(&format!("{said}.length === 40"));
    browser.until("document.querySelector('h1 ~ .badge').textContent.includes('Succeeded')");
    let shown = browser.run(&format!("return {said}"));
    assert_eq!(shown, json!(lines));
    let logs = service.get(&format!("/api/v1/operations/{id}/logs"));
    assert_eq!(logs["items"], json!([]));
    browser.is_clean();
    service.end();
}
