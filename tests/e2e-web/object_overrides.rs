//! User decisions about single objects of an operation, and about rollout steps. The record contains the
//! person and the reason, and the cluster doesn't get any other requests.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::decisions::{
    DIALOG, WITHOUT_APPSET, assert_dialog, assert_sent, commit, confirm, confirm_with_a_reason,
    count_deletions, get_operation, object, record_requests, replace,
};
use crate::service::{ExampleOptions, OPERATOR, Service, example_folder};

/// Concurrent hooks: the first succeeds in its third attempt, the second doesn't end, and the third runs
/// again at the end.
const HOOKS: &str = "apiVersion: batch/v1
kind: Job
metadata:
  name: flaky
  annotations: {argocd.argoproj.io/hook: PreSync, sim.tidegate.dev/fail-times: \"2\", sim.tidegate.dev/ready-after: 200ms}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: example.com/flaky:1}]}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: endless
  annotations: {argocd.argoproj.io/hook: PreSync, sim.tidegate.dev/ready-after: 1000h}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: example.com/endless:1}]}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: twice
  annotations: {argocd.argoproj.io/hook: \"PreSync,PostSync\", sim.tidegate.dev/ready-after: 100ms}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: example.com/twice:1}]}
";

pub fn objects_are_retried_skipped_and_marked_as_done() {
    let bench = example_folder(&WITHOUT_APPSET);
    bench.write("fleet/repo/frontend/hooks.yaml", HOOKS);
    let never = "sim.tidegate.dev/outcome: never-ready\n    tidegate.dev/wave-timeout: 100m";
    replace(&bench, "repo/frontend/frontend.yaml", "sim.tidegate.dev/ready-after: 500ms", never);
    commit(&bench);
    let service = Service::in_folder(bench);
    let id = service.newest_operation("frontend");
    let operation = format!("/api/v1/operations/{id}");
    let has_ended = |times: usize| {
        service.wait_until(&format!("{operation}/log?limit=500"), |log| {
            let all = log["items"].as_array().unwrap().iter();
            all.filter(|event| {
                event["kind"] == "hook-finalizer-removed" && event["object"]["name"] == "flaky"
            })
            .count()
                == times
        });
    };
    let mut browser = service.browser(OPERATOR);
    has_ended(1);
    browser.open(&format!("/operations/{id}"));
    browser.press_button("Retry Job fleet/flaky");
    browser.wait_until(&format!("{DIALOG}.querySelector('h2').textContent === 'Retry: Job fleet/flaky'"));
    assert_dialog(
        &browser,
        "Retried immediately if failed or waiting for the next attempt: Job fleet/flaky. A hook runs again.",
    );
    confirm(&browser, "the lock is gone");
    // The hook fails once more, and is retried in its wave, in which the other hook keeps running.
    has_ended(2);
    assert_eq!(service.bench.creations("Job", "flaky"), 2);
    browser.press_button("Retry unfinished tasks of wave PreSync/0");
    assert_dialog(&browser, "Application frontend, wave PreSync/0, 1 object: Job fleet/flaky.");
    assert_dialog(
        &browser,
        "Retried immediately if failed or waiting for the next attempt: unfinished tasks of wave PreSync/0.",
    );
    confirm(&browser, "third time lucky");
    has_ended(3);
    // Running objects can't be retried, and finished objects don't need an action.
    browser.wait_until("[...document.querySelectorAll('#results ~ .scroll [data-do*=\" Job \"]')].map((one) => one.dataset.do).join() === 'Skip Job fleet/endless,Mark as done Job fleet/endless,Skip Job fleet/twice of PostSync,Mark as done Job fleet/twice of PostSync'");
    // A later task can be skipped too. The skip is shown in the task's row.
    browser.press_button("Skip Job fleet/twice of PostSync");
    assert_dialog(&browser, "Application frontend, wave PostSync/0.");
    confirm_with_a_reason(&browser, "once is enough");
    browser.run("document.querySelector('.picture ~ details').open = true");
    browser.wait_until("[...document.querySelectorAll('.picture ~ details tbody tr')].filter((row) => row.cells[0].textContent === 'hook Job fleet/twice').map((row) => row.cells[7].textContent.includes('skipped by ann')).join() === 'false,true'");
    browser.press_button("Skip Job fleet/endless");
    assert_dialog(
        &browser,
        "The operation continues without Job fleet/endless. Existing objects are kept; a running hook is stopped first.",
    );
    confirm_with_a_reason(&browser, "it was done by hand");
    // For a wave with a deadline, the page shows the remaining time.
    let explained = format!("{operation}/explain");
    let before = service.wait_until(&explained, |explanation| explanation["secondsUntilDeadline"].is_u64());
    browser.open(&format!("/operations/{id}"));
    let left = minutes_left(&browser);
    let after = service.get(&explained);
    let seconds = |explanation: &Value| explanation["secondsUntilDeadline"].as_u64().unwrap();
    assert!(seconds(&before) <= 6000 && left * 60 <= seconds(&before) + 60, "{left} min: {before:#}");
    assert!(left * 60 + 60 >= seconds(&after), "{left} min: {after:#}");
    browser.press_button("Mark as done Deployment fleet/frontend");
    assert_dialog(
        &browser,
        "Counted as done, regardless of the state in the cluster: Deployment fleet/frontend.",
    );
    assert_dialog(&browser, "Application frontend, wave Sync/0.");
    confirm_with_a_reason(&browser, "warm enough");
    service.wait_until(&operation, |one| one["finishedAt"].is_string());
    let ended = get_operation(&service, &id);
    assert_eq!(ended["phase"], "Succeeded", "{ended:#}");
    let decided = |kind: &str, name: &str| {
        let one = object(&ended, kind, name);
        let decision = &one["override"];
        json!([one["status"], decision["action"], decision["by"], decision["reason"], decision["retries"]])
    };
    assert_eq!(decided("Job", "flaky"), json!(["Synced", "Retry", "ann", "third time lucky", 2]));
    assert_eq!(decided("Job", "endless"), json!(["Skipped", "Skip", "ann", "it was done by hand", 0]));
    assert_eq!(decided("Deployment", "frontend"), json!(["MarkedDone", "MarkDone", "ann", "warm enough", 0]));
    let events = service.bench.json(&["ops", "log", &id, "-o", "json"]);
    let events = events.as_array().unwrap().iter().filter(|event| event["kind"] == "overridden");
    let events: Vec<&str> = events.map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(
        events,
        [
            "ann retried PreSync hook Job fleet/flaky: the lock is gone",
            "ann retried PreSync hook Job fleet/flaky: third time lucky",
            "ann skipped PostSync hook Job fleet/twice: once is enough",
            "ann skipped PreSync hook Job fleet/endless: it was done by hand",
            "ann marked Deployment fleet/frontend as done: warm enough",
        ]
    );
    // The cluster received a single stop of the hook, and the objects after the one that never became ready.
    assert_eq!((service.bench.creations("Job", "flaky"), service.bench.creations("Job", "endless")), (3, 1));
    assert_eq!(
        (count_deletions(&service.bench, "Job", "endless"), service.bench.creations("Service", "frontend")),
        (1, 1)
    );
    // Later viewers also see the decisions.
    let rows = "[...document.querySelectorAll('#results ~ .scroll tbody tr')].map((row) => [...row.children].map((one) => one.textContent).join('|'))";
    browser.wait_until(&format!("{rows}.some((row) => row.includes('Job fleet/flaky') && row.includes('✓Succeeded') && row.includes('retried 2 times, last by ann (third time lucky)'))"));
    browser.wait_until(&format!("{rows}.some((row) => row.includes('Job fleet/endless') && row.includes('»Skipped') && row.includes('it was done by hand'))"));
    browser.wait_until(&format!("{rows}.some((row) => row.includes('Deployment fleet/frontend') && row.includes('✓Marked as done') && row.includes('warm enough'))"));
    browser.wait_until("!document.querySelector('main .actions button')");
    browser.assert_clean();
    service.stop();
}

/// Returns the remaining minutes on the page, rounded down.
fn minutes_left(browser: &Browser) -> u64 {
    let found = browser.wait_until("[...document.querySelectorAll('.terms div')].find((one) => one.querySelector('dt').textContent === 'Deadline')?.querySelector('dd').textContent");
    let found = found.as_str().unwrap();
    let text: Vec<&str> =
        found.strip_suffix(" left").unwrap_or_else(|| panic!("{found}")).split(' ').collect();
    let pairs = text.chunks(2).map(|pair| (pair[0].parse::<u64>().unwrap(), pair[1]));
    pairs
        .map(|(number, unit)| match unit {
            "h" => number * 60,
            "min" => number,
            "s" => 0,
            _ => panic!("{found}"),
        })
        .sum()
}

/// A rollout in which step 2 has a deadline. The Deployments of its members, and of members outside of all
/// steps, never become ready.
fn rollout() -> Service {
    let bench = example_folder(&ExampleOptions {
        rollout: Some("steps: [{step: 2, deadline: 100m}]"),
        ..ExampleOptions::default()
    });
    replace(
        &bench,
        "shops.yaml",
        "                - env: prod\n",
        "                - env: prod\n                - env: lab\n",
    );
    replace(
        &bench,
        "repo/shops/cart/cart.yaml",
        "sim.tidegate.dev/ready-after: 200ms",
        "sim.tidegate.dev/outcome: never-ready",
    );
    commit(&bench);
    Service::in_folder(bench)
}

const SHOPS: &str = "/api/v1/applicationsets/argocd/shops";

/// Returns the operation that a rollout has started for an Application, once the operation is waiting for its
/// Deployment.
#[track_caller]
fn running_operation(service: &Service, step: u64, application: &str) -> String {
    let member = |explanation: &Value| {
        let all = explanation["rollout"]["members"].as_array()?;
        let one = all.iter().find(|one| one["application"] == application)?;
        one["operation"].as_str().map(str::to_owned)
    };
    let explanation = service.wait_until(&format!("{SHOPS}/explain"), |explanation| {
        explanation["rollout"]["step"] == step && member(explanation).is_some()
    });
    let id = member(&explanation).unwrap();
    // The operation has its ID before it starts.
    assert_eq!(service.newest_operation(application), id);
    service.wait_until(&format!("/api/v1/operations/{id}"), |one| {
        let all = one["resources"].as_array().unwrap();
        all.iter().any(|one| one["kind"] == "Deployment" && one["hookPhase"] == "Running")
    });
    id
}

pub fn a_step_is_skipped_and_a_rollout_terminated() {
    let service = rollout();
    let dev = running_operation(&service, 1, "dev-cart");
    let others = ["dev-catalog", "dev-checkout", "dev-search"];
    let of = |explanation: &Value, name: &str| {
        let all = explanation["rollout"]["members"].as_array().unwrap();
        all.iter().find(|one| one["application"] == name).unwrap().clone()
    };
    service.wait_until(&format!("{SHOPS}/explain"), |explanation| {
        others.iter().all(|name| of(explanation, name)["status"] == "Healthy")
    });
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    // Members outside of all steps are shown separately, without actions.
    let outside = "document.querySelector('section.outside')";
    let is_apart = format!(
        "{outside}.querySelector('h3').textContent === 'Outside all steps' && {outside}.textContent.includes('No step selects these Applications: the rollout does not change them.')
         && [...{outside}.querySelectorAll('.tile')].map((one) => one.dataset.key).join() === 'lab-cart,lab-catalog,lab-checkout,lab-search'
         && !{outside}.querySelector('button') && !document.querySelector('.steps [data-key^=\"lab-\"]')"
    );
    browser.wait_until(&is_apart);
    browser.press_button("Skip step…");
    assert_dialog(
        &browser,
        "The rollout continues without the unfinished Applications of step 1. Their running operations are terminated first; changes already written are kept.",
    );
    assert_dialog(&browser, "1 Application: dev-cart.");
    confirm_with_a_reason(&browser, "dev is rebuilt");
    let qa = running_operation(&service, 2, "qa-cart");
    let explanation = service.get(&format!("{SHOPS}/explain"));
    let skipped = of(&explanation, "dev-cart");
    assert_eq!(
        (&skipped["outcome"], &skipped["message"]),
        (&json!("Skipped"), &json!("skipped by ann (dev is rebuilt)"))
    );
    for name in others {
        let other = of(&explanation, name);
        assert!(other["outcome"].is_null() && other["status"] == "Healthy", "{other:#}");
    }
    let ended = get_operation(&service, &dev);
    assert_eq!((&ended["phase"], &ended["message"]), (&json!("Failed"), &json!("Operation terminated")));
    assert_eq!(ended["terminatedBy"], "ann: dev is rebuilt", "{ended:#}");
    // The page shows the deadline of the step, and the remaining time.
    browser.wait_until("document.querySelectorAll('.step')[1].textContent.includes('Deadline1 h 40 min')");
    let explained = &explanation["explanation"];
    let seconds = explained["secondsUntilDeadline"].as_u64().unwrap();
    browser.open("/applicationsets/argocd/shops");
    let left = minutes_left(&browser);
    let after =
        service.get(&format!("{SHOPS}/explain"))["explanation"]["secondsUntilDeadline"].as_u64().unwrap();
    assert!(
        seconds <= 6000 && left * 60 <= seconds + 60 && left * 60 + 60 >= after,
        "{left} min: {explained:#}, {after}"
    );
    // A request for another rollout doesn't affect this rollout.
    let run = &explanation["rolloutId"];
    let body = json!({"run": qa, "reason": "late"});
    for what in ["pause", "skip", "terminate"] {
        let mut body = body.clone();
        if what == "skip" {
            body["step"] = json!(2);
        }
        let path = format!("{SHOPS}/{what}");
        let refused =
            service.request("POST", &path, &[&format!("authorization: Bearer {OPERATOR}")], Some(&body));
        let names_it = refused.body.contains(run.as_str().unwrap());
        assert_eq!((refused.status, names_it), (409, true), "{what}: {}", refused.body);
    }
    record_requests(&browser);
    browser.press_button("Terminate…");
    assert_dialog(
        &browser,
        "Running operations are stopped, and the rollout ends. Applications are left as they are.",
    );
    assert_dialog(&browser, "In progress: qa-cart");
    assert_dialog(&browser, "Not started: ");
    assert_dialog(&browser, "prod-cart, prod-catalog, prod-checkout, prod-search");
    confirm(&browser, "the wrong image");
    assert_sent(&browser, "/terminate", &json!({"run": run}));
    let runs = service.wait_until("/api/v1/runs?applicationSet=argocd/shops", |found| {
        found["items"][0]["outcome"].is_string()
    });
    let id = runs["items"][0]["id"].as_str().unwrap();
    let run = service.bench.json(&["appset", "show-run", id, "-o", "json"]);
    assert_eq!(
        (&run["outcome"], &run["message"]),
        (&json!("Terminated"), &json!("terminated by ann (the wrong image)"))
    );
    let decisions: Vec<Value> = run["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["by"], one["reason"], one["kind"]]))
        .collect();
    assert_eq!(
        decisions,
        [
            json!(["ann", "dev is rebuilt", "stop-requested"]),
            json!(["ann", "the wrong image", "termination-requested"])
        ]
    );
    let steps: Vec<&str> = run["rollout"]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["status"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["Passed", "Unfinished", "NotReached"]);
    let ended = get_operation(&service, &qa);
    assert_eq!((&ended["phase"], &ended["message"]), (&json!("Failed"), &json!("Operation terminated")));
    // Neither operation has reached its later wave, and there are no writes for later steps.
    let writes = service.bench.writes();
    let is_of = |one: &&Value, ends: &[&str]| {
        one["namespace"].as_str().is_some_and(|name| ends.iter().any(|end| name.ends_with(end)))
    };
    assert!(!writes.iter().any(|one| one["kind"] == "Service" && one["name"] == "cart"), "{writes:#?}");
    assert!(
        writes.iter().any(|one| is_of(&one, &["-qa"]))
            && !writes.iter().any(|one| is_of(&one, &["-prod", "-lab"])),
        "{writes:#?}"
    );
    browser.wait_until("document.querySelector('.lead').textContent.startsWith('Terminated') && !document.querySelector('[data-do=\"Terminate…\"]')");
    browser.wait_until(&is_apart);
    // Later viewers also see the decision in the record.
    browser.open(&format!("/applicationsets/argocd/shops/runs/{id}"));
    browser.wait_until("[...document.querySelectorAll('.step h3 .badge')].map((one) => one.textContent).join() === '✓Passed,■Unfinished,○NotReached'");
    browser.wait_until("[...document.querySelectorAll('#decisions + .scroll tbody tr')].map((row) => [...row.children].slice(1).map((one) => one.textContent).join('|')).join() === 'ann|skipped dev-cart; stopping its operation first|dev is rebuilt,ann|terminated the rollout|the wrong image'");
    browser.wait_until(&is_apart);
    browser.assert_clean();
    service.stop();
}
