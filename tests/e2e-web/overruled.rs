//! What people decide about single objects of an operation, and about steps of a rollout: who and why are in the record, and the
//! cluster was asked for no more than that.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::decisions::{
    DIALOG, NO_SET, asks, commit, confirm, confirm_with_a_reason, deletions, keep_what_is_sent, object,
    replace, sent, shown,
};
use crate::service::{Different, OPERATOR, Service, folder};

/// Hooks that begin together: one that succeeds when it is tried a third time, one that does not end, and one that runs once more at
/// the end.
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
    let bench = folder(&NO_SET);
    bench.write("fleet/repo/frontend/hooks.yaml", HOOKS);
    let never = "sim.tidegate.dev/outcome: never-ready\n    tidegate.dev/wave-timeout: 100m";
    replace(&bench, "repo/frontend/frontend.yaml", "sim.tidegate.dev/ready-after: 500ms", never);
    commit(&bench);
    let service = Service::in_folder(bench);
    let id = service.newest("frontend");
    let operation = format!("/api/v1/operations/{id}");
    let has_ended = |times: usize| {
        service.until(&format!("{operation}/log?limit=500"), |log| {
            let all = log["items"].as_array().unwrap().iter();
            all.filter(|fact| fact["kind"] == "hook-released" && fact["object"]["name"] == "flaky").count()
                == times
        });
    };
    let mut browser = service.browser(OPERATOR);
    has_ended(1);
    browser.open(&format!("/operations/{id}"));
    browser.press("Retry Job fleet/flaky");
    browser.until(&format!("{DIALOG}.querySelector('h2').textContent === 'Retry: Job fleet/flaky'"));
    asks(
        &browser,
        "What failed of Job fleet/flaky, or waits for its next try, is tried again at once. A hook runs anew.",
    );
    confirm(&browser, "the lock is gone");
    // It fails once more, and is tried again with its wave, in which the other hook runs on.
    has_ended(2);
    assert_eq!(service.bench.creations("Job", "flaky"), 2);
    browser.press("Retry what is not done of wave PreSync/0");
    asks(&browser, "Application frontend, wave PreSync/0, 1 object: Job fleet/flaky.");
    asks(&browser, "What failed of what is not done of wave PreSync/0");
    confirm(&browser, "third time lucky");
    has_ended(3);
    // What runs is not to be tried again, and what is done needs nothing.
    browser.until("[...document.querySelectorAll('#results ~ .scroll [data-do*=\" Job \"]')].map((one) => one.dataset.do).join() === 'Skip Job fleet/endless,Mark as done Job fleet/endless,Skip Job fleet/twice of PostSync,Mark as done Job fleet/twice of PostSync'");
    // What is to run later is gone on without as well, and that is told where it is.
    browser.press("Skip Job fleet/twice of PostSync");
    asks(&browser, "Application frontend, wave PostSync/0.");
    confirm_with_a_reason(&browser, "once is enough");
    browser.run("document.querySelector('.picture ~ details').open = true");
    browser.until("[...document.querySelectorAll('.picture ~ details tbody tr')].filter((row) => row.cells[0].textContent === 'hook Job fleet/twice').map((row) => row.cells[7].textContent.includes('skipped by ann')).join() === 'false,true'");
    browser.press("Skip Job fleet/endless");
    asks(
        &browser,
        "The operation goes on without Job fleet/endless. What is there of it stays, but a hook that runs is stopped first.",
    );
    confirm_with_a_reason(&browser, "it was done by hand");
    // A wave that may not take longer than it says how much time is left.
    let explained = format!("{operation}/explain");
    let before = service.until(&explained, |told| told["deadlineInSeconds"].is_u64());
    browser.open(&format!("/operations/{id}"));
    let left = minutes_left(&browser);
    let after = service.get(&explained);
    let seconds = |told: &Value| told["deadlineInSeconds"].as_u64().unwrap();
    assert!(seconds(&before) <= 6000 && left * 60 <= seconds(&before) + 60, "{left} min: {before:#}");
    assert!(left * 60 + 60 >= seconds(&after), "{left} min: {after:#}");
    browser.press("Mark as done Deployment fleet/frontend");
    asks(&browser, "Deployment fleet/frontend counts as done, whatever the cluster says of it.");
    asks(&browser, "Application frontend, wave Sync/0.");
    confirm_with_a_reason(&browser, "warm enough");
    service.until(&operation, |one| one["finishedAt"].is_string());
    let ended = shown(&service, &id);
    assert_eq!(ended["phase"], "Succeeded", "{ended:#}");
    let decided = |kind: &str, name: &str| {
        let one = object(&ended, kind, name);
        let decision = &one["overridden"];
        json!([one["status"], decision["what"], decision["by"], decision["reason"], decision["retries"]])
    };
    assert_eq!(decided("Job", "flaky"), json!(["Synced", "Retry", "ann", "third time lucky", 2]));
    assert_eq!(decided("Job", "endless"), json!(["Skipped", "Skip", "ann", "it was done by hand", 0]));
    assert_eq!(decided("Deployment", "frontend"), json!(["MarkedDone", "MarkDone", "ann", "warm enough", 0]));
    let facts = service.bench.json(&["ops", "log", &id, "-o", "json"]);
    let facts = facts.as_array().unwrap().iter().filter(|fact| fact["kind"] == "overridden");
    let facts: Vec<&str> = facts.map(|fact| fact["text"].as_str().unwrap()).collect();
    assert_eq!(
        facts,
        [
            "ann has PreSync hook Job fleet/flaky tried again: the lock is gone",
            "ann has PreSync hook Job fleet/flaky tried again: third time lucky",
            "ann skips PostSync hook Job fleet/twice: once is enough",
            "ann skips PreSync hook Job fleet/endless: it was done by hand",
            "ann marks Deployment fleet/frontend as done: warm enough",
        ]
    );
    // What the cluster was asked for: the hook that was stopped once, and what comes after the one that was never ready.
    assert_eq!((service.bench.creations("Job", "flaky"), service.bench.creations("Job", "endless")), (3, 1));
    assert_eq!(
        (deletions(&service.bench, "Job", "endless"), service.bench.creations("Service", "frontend")),
        (1, 1)
    );
    // Whoever looks later sees what was decided, and has nothing more to decide.
    let rows = "[...document.querySelectorAll('#results ~ .scroll tbody tr')].map((row) => [...row.children].map((one) => one.textContent).join('|'))";
    browser.until(&format!("{rows}.some((row) => row.includes('Job fleet/flaky') && row.includes('✓Succeeded') && row.includes('tried again 2 times, as ann asked for (third time lucky)'))"));
    browser.until(&format!("{rows}.some((row) => row.includes('Job fleet/endless') && row.includes('»Skipped') && row.includes('it was done by hand'))"));
    browser.until(&format!("{rows}.some((row) => row.includes('Deployment fleet/frontend') && row.includes('✓Marked as done') && row.includes('warm enough'))"));
    browser.until("!document.querySelector('main .actions button')");
    browser.is_clean();
    service.end();
}

/// How much time the page says is left, in minutes, rounded down.
fn minutes_left(browser: &Browser) -> u64 {
    let found = browser.until("[...document.querySelectorAll('.terms div')].find((one) => one.querySelector('dt').textContent === 'Deadline')?.querySelector('dd').textContent");
    let found = found.as_str().unwrap();
    let words: Vec<&str> =
        found.strip_suffix(" left").unwrap_or_else(|| panic!("{found}")).split(' ').collect();
    let pairs = words.chunks(2).map(|pair| (pair[0].parse::<u64>().unwrap(), pair[1]));
    pairs
        .map(|(number, unit)| match unit {
            "h" => number * 60,
            "min" => number,
            "s" => 0,
            _ => panic!("{found}"),
        })
        .sum()
}

/// Step 2 may take so long; what it selects, and what no step selects, has a Deployment that is never ready.
fn rollout() -> Service {
    let bench =
        folder(&Different { rollout: Some("steps: [{step: 2, deadline: 100m}]"), ..Different::default() });
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

/// The operation that a rollout has begun for an Application, as soon as the Deployment of that is waited for.
#[track_caller]
fn at_work(service: &Service, step: u64, application: &str) -> String {
    let member = |told: &Value| {
        let all = told["rollout"]["members"].as_array()?;
        let one = all.iter().find(|one| one["application"] == application)?;
        one["operation"].as_str().map(str::to_owned)
    };
    let told = service
        .until(&format!("{SHOPS}/explain"), |told| told["rollout"]["step"] == step && member(told).is_some());
    let id = member(&told).unwrap();
    // It has its id before it begins.
    assert_eq!(service.newest(application), id);
    service.until(&format!("/api/v1/operations/{id}"), |one| {
        let all = one["resources"].as_array().unwrap();
        all.iter().any(|one| one["kind"] == "Deployment" && one["hookPhase"] == "Running")
    });
    id
}

pub fn a_step_is_skipped_and_a_rollout_terminated() {
    let service = rollout();
    let dev = at_work(&service, 1, "dev-cart");
    let others = ["dev-catalog", "dev-checkout", "dev-search"];
    let of = |told: &Value, name: &str| {
        let all = told["rollout"]["members"].as_array().unwrap();
        all.iter().find(|one| one["application"] == name).unwrap().clone()
    };
    service.until(&format!("{SHOPS}/explain"), |told| {
        others.iter().all(|name| of(told, name)["status"] == "Healthy")
    });
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    // Those that no step selects stand apart, and nothing can be done about them here.
    let outside = "document.querySelector('section.outside')";
    let is_apart = format!(
        "{outside}.querySelector('h3').textContent === 'In no step' && {outside}.textContent.includes('No step selects these: the rollout leaves them alone.')
         && [...{outside}.querySelectorAll('.tile')].map((one) => one.dataset.key).join() === 'lab-cart,lab-catalog,lab-checkout,lab-search'
         && !{outside}.querySelector('button') && !document.querySelector('.steps [data-key^=\"lab-\"]')"
    );
    browser.until(&is_apart);
    browser.press("Skip step…");
    asks(
        &browser,
        "The rollout goes on without the Applications of step 1 that are not done. Operations of theirs that are under way are terminated first; what these have written by then stays.",
    );
    asks(&browser, "1 Application: dev-cart.");
    confirm_with_a_reason(&browser, "dev is rebuilt");
    let qa = at_work(&service, 2, "qa-cart");
    let told = service.get(&format!("{SHOPS}/explain"));
    let skipped = of(&told, "dev-cart");
    assert_eq!(
        (&skipped["outcome"], &skipped["message"]),
        (&json!("Skipped"), &json!("skipped by ann (dev is rebuilt)"))
    );
    for name in others {
        let other = of(&told, name);
        assert!(other["outcome"].is_null() && other["status"] == "Healthy", "{other:#}");
    }
    let ended = shown(&service, &dev);
    assert_eq!((&ended["phase"], &ended["message"]), (&json!("Failed"), &json!("Operation terminated")));
    assert_eq!(ended["terminatedBy"], "ann: dev is rebuilt", "{ended:#}");
    // How long the step may take, and how much of that is left.
    browser.until("document.querySelectorAll('.step')[1].textContent.includes('May take1 h 40 min')");
    let explained = &told["explanation"];
    let seconds = explained["deadlineInSeconds"].as_u64().unwrap();
    browser.open("/applicationsets/argocd/shops");
    let left = minutes_left(&browser);
    let after =
        service.get(&format!("{SHOPS}/explain"))["explanation"]["deadlineInSeconds"].as_u64().unwrap();
    assert!(
        seconds <= 6000 && left * 60 <= seconds + 60 && left * 60 + 60 >= after,
        "{left} min: {explained:#}, {after}"
    );
    // Who means another rollout has nothing done to this one.
    let run = &told["rolloutId"];
    let body = json!({"run": qa, "reason": "late"});
    for what in ["pause", "skip", "terminate"] {
        let mut body = body.clone();
        if what == "skip" {
            body["step"] = json!(2);
        }
        let path = format!("{SHOPS}/{what}");
        let refused =
            service.ask("POST", &path, &[&format!("authorization: Bearer {OPERATOR}")], Some(&body));
        let names_it = refused.body.contains(run.as_str().unwrap());
        assert_eq!((refused.status, names_it), (409, true), "{what}: {}", refused.body);
    }
    keep_what_is_sent(&browser);
    browser.press("Terminate…");
    asks(&browser, "What is at work is stopped, and the rollout ends. Applications stay as they are then.");
    asks(&browser, "At work: qa-cart");
    asks(&browser, "Not begun: ");
    asks(&browser, "prod-cart, prod-catalog, prod-checkout, prod-search");
    confirm(&browser, "the wrong image");
    sent(&browser, "/terminate", &json!({"run": run}));
    let runs = service
        .until("/api/v1/runs?applicationSet=argocd/shops", |found| found["items"][0]["end"].is_string());
    let id = runs["items"][0]["id"].as_str().unwrap();
    let run = service.bench.json(&["appset", "show-run", id, "-o", "json"]);
    assert_eq!(
        (&run["end"], &run["message"]),
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
            json!(["ann", "dev is rebuilt", "stop-begun"]),
            json!(["ann", "the wrong image", "terminate-requested"])
        ]
    );
    let steps: Vec<&str> = run["rollout"]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["status"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["Passed", "Unfinished", "NotReached"]);
    let ended = shown(&service, &qa);
    assert_eq!((&ended["phase"], &ended["message"]), (&json!("Failed"), &json!("Operation terminated")));
    // Neither has come to its later wave, and nothing was written where no step has led.
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
    browser.until("document.querySelector('.lead').textContent.startsWith('Terminated') && !document.querySelector('[data-do=\"Terminate…\"]')");
    browser.until(&is_apart);
    // The record says it too, for whoever looks later.
    browser.open(&format!("/applicationsets/argocd/shops/runs/{id}"));
    browser.until("[...document.querySelectorAll('.step h3 .badge')].map((one) => one.textContent).join() === '✓Passed,■Unfinished,○NotReached'");
    browser.until("[...document.querySelectorAll('#decisions + .scroll tbody tr')].map((row) => [...row.children].slice(1).map((one) => one.textContent).join('|')).join() === 'ann|skips dev-cart, whose operation is stopped first|dev is rebuilt,ann|ends it|the wrong image'");
    browser.until(&is_apart);
    browser.is_clean();
    service.end();
}
