//! Event stream, metrics and process log of an ApplicationSet's rollout.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::example_appset::{READER, Shops, has_ended};

/// Returns the response after its status line. If the rate limit is reached, retries until the response is a
/// success and the stream has started.
#[track_caller]
fn send_request(shops: &Shops, target: &str, headers: &str) -> BufReader<TcpStream> {
    let ask = || {
        let mut stream = TcpStream::connect(shops.url.strip_prefix("http://").unwrap()).unwrap();
        write!(stream, "GET {target} HTTP/1.0\r\nauthorization: Bearer {READER}\r\n{headers}\r\n").unwrap();
        let mut answer = BufReader::new(stream);
        let mut head = String::new();
        answer.read_line(&mut head).unwrap();
        head.contains(" 200 ").then_some(answer)
    };
    let found = std::iter::repeat_with(ask).take(3000).flatten().next();
    found.unwrap_or_else(|| panic!("{target} is not answered"))
}

fn metrics(shops: &Shops) -> String {
    let mut text = String::new();
    send_request(shops, "/metrics", "").read_to_string(&mut text).unwrap();
    text
}

/// Polls until a line of the metrics has this prefix. Returns the value in this line.
#[track_caller]
fn wait_for_metric(shops: &Shops, begin: &str) -> f64 {
    let find = || metrics(shops).lines().find_map(|line| line.strip_prefix(begin).map(str::to_owned));
    let found = std::iter::repeat_with(find).take(3000).flatten().next();
    found.unwrap_or_else(|| panic!("{begin}: {}", metrics(shops))).trim().parse().unwrap()
}

/// Returns the events of a stream, each with its ID, kind and data.
fn subscribe(
    shops: &Shops,
    query: &str,
    last: &str,
) -> impl Iterator<Item = (String, String, Value)> + use<> {
    let headers = if last.is_empty() { String::new() } else { format!("last-event-id: {last}\r\n") };
    let mut lines = send_request(shops, &format!("/api/v1/events{query}"), &headers).lines();
    let mut id = String::new();
    std::iter::from_fn(move || {
        let mut kind = String::new();
        loop {
            let line = lines.next()?.unwrap();
            match line.split_once(": ") {
                Some(("id", new)) => new.clone_into(&mut id),
                Some(("event", name)) => name.clone_into(&mut kind),
                Some(("data", text)) => return Some((id.clone(), kind, serde_json::from_str(text).unwrap())),
                _ => {}
            }
        }
    })
}

#[test]
fn a_rollout_emits_events_and_metrics() {
    let mut shops = Shops::serve("steps: [{step: 1, gates: [approval]}]");
    shops.wait_until(|status| status["rollout"]["steps"][0]["status"] == "Held");
    let of = "namespace=\"argocd\",name=\"shops\"";
    let waits = format!("tidegate_rollout_step_waiting_seconds{{{of},step=\"1\",reason=\"approval\"}}");
    let before = wait_for_metric(&shops, &waits);
    assert!(wait_for_metric(&shops, &waits) >= before, "the wait grows");
    assert_eq!(
        wait_for_metric(&shops, &format!("tidegate_rollout_members{{{of},status=\"Waiting\"}}")),
        12.0
    );
    assert_eq!(wait_for_metric(&shops, &format!("argocd_appset_owned_applications{{{of}}}")), 12.0);
    let info = format!("argocd_appset_info{{{of},resource_update_status=\"ApplicationSetUpToDate\"}}");
    assert_eq!(wait_for_metric(&shops, &info), 1.0);
    assert!(wait_for_metric(&shops, &format!("argocd_appset_reconcile_count{{{of}}}")) >= 1.0);
    let mut told = subscribe(&shops, "?applicationSet=shops", "");
    shops.run(&["approve", "shops"]).expect_code(0);
    let is_over = |data: &Value| {
        let rollout = &data["applicationSet"]["rollout"];
        rollout["progressing"] == false && rollout["members"]["Healthy"] == 12
    };
    let mut events = Vec::new();
    for event in told.by_ref() {
        let is_last = is_over(&event.2);
        events.push(event);
        if is_last {
            break;
        }
    }
    assert!(events.iter().all(|(_, kind, data)| kind == "applicationSet" && data[kind]["name"] == "shops"));
    let mut messages: Vec<&str> =
        events.iter().map(|(_, kind, data)| data[kind]["rollout"]["message"].as_str().unwrap()).collect();
    messages.dedup();
    let steps = ["1", "2", "3"].map(|step| format!("ApplicationSet is performing rollout of step {step}"));
    let expected: Vec<&str> =
        steps.iter().map(String::as_str).chain(["ApplicationSet Rollout has completed"]).collect();
    assert_eq!(messages, expected);
    // A client continues after the last ID that it has received.
    let middle = events.len() / 2;
    let rest = subscribe(&shops, "?applicationSet=shops", &events[middle].0).take(events.len() - middle - 1);
    assert_eq!(rest.collect::<Vec<_>>(), events[middle + 1..]);
    shops.wait_until(has_ended);
    assert!(!metrics(&shops).contains("tidegate_rollout_step_waiting_seconds{"), "nothing waits anymore");
    let status = shops.wait_until(has_ended);
    let steps = status["rollout"]["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["status"] == "Passed"), "{status:#}");
    shops.run(&["delete", "shops", "--orphan", "--yes", "--timeout", "10m"]).expect_code(0);
    let gone = told.find(|(_, kind, _)| kind == "applicationSetRemoved").unwrap();
    assert_eq!(gone.2["applicationSetRemoved"]["name"], "shops");
    shops.stop();
}

#[test]
fn an_undefined_gate_is_named_before_its_step() {
    let mut shops = Shops::serve(
        r#"steps: [{step: 1, gates: [approval]}, {step: 3, gates: ["window:nigth", "concurrency:db"]}]"#,
    );
    shops.wait_until(|status| status["rollout"]["steps"][0]["status"] == "Held");
    let output = shops.run(&["explain", "shops"]).expect_code(0).out;
    for text in [
        "step 3 refers to \"window:nigth\", which is not defined; define it in the file passed to `tidegate \
         sync --gates` or `tidegate serve --gates`",
        "step 3 uses gate \"concurrency:db\", but concurrency gates limit operations and cannot be used for steps",
    ] {
        assert!(output.contains(text), "{output}");
    }
    shops.stop();
}

#[test]
fn appsets_of_one_name_are_distinguished_by_namespace() {
    let mut shops = Shops::serve("steps: []");
    let others = [
        "{name: shops, namespace: team-a}",
        "{name: stores, namespace: team-a}",
        "{name: stores, namespace: team-b}",
    ];
    for (number, metadata) in others.iter().enumerate() {
        let other = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {metadata}\nspec:\n  generators: []\n  template: {{metadata: {{name: none}}, spec: {{project: default, destination: {{}}, source: {{repoURL: ./repo}}}}}}\n"
        );
        shops.bench.write(&format!("fleet/other-{number}.yaml"), other);
    }
    let all = std::iter::repeat_with(|| shops.bench.json(&["appset", "list", "-o", "json"]))
        .take(3000)
        .find(|list| list["items"].as_array().unwrap().len() == 4);
    assert!(all.is_some(), "the folder is watched");
    let text =
        "several ApplicationSets are named stores: team-a/stores, team-b/stores; use one of these names";
    let reason = ["--reason", "x"];
    for args in [
        &["get", "stores"][..],
        &["status", "stores"],
        &["explain", "stores"],
        &["pause", "stores"],
        &["retry", "stores"],
        &["refresh", "stores"],
        &["delete", "stores", "--yes"],
        &["delete", "stores", "--plan"],
    ] {
        let ran = shops.run(args).expect_code(2);
        assert!(ran.err.contains(text) && ran.out.is_empty(), "{args:?}: {ran:?}");
        let there = shops.run_as("ann", args).expect_code(2);
        assert_eq!(there.err, ran.err, "{args:?}");
        let nobody: Vec<&str> = args.iter().map(|arg| if *arg == "stores" { "shoes" } else { arg }).collect();
        let ran = shops.run(&nobody).expect_code(2);
        assert!(ran.err.contains("ApplicationSet shoes not found; `tidegate appset list`"), "{ran:?}");
    }
    let skip = shops.run(&[&["skip", "stores", "--step", "1"], &reason[..]].concat()).expect_code(2);
    assert!(skip.err.contains(text), "{skip:?}");
    shops.run(&["explain", "team-a/stores"]).expect_code(0);
    shops.run(&["delete", "team-a/stores", "--yes", "--timeout", "10m"]).expect_code(0);
    shops.run(&["get", "stores"]).expect_code(0);
    // A name without a namespace refers to the control namespace first.
    let steps = shops.run(&["get", "shops"]).expect_code(0).out;
    assert!(steps.contains("RollingSync"), "{steps}");
    assert!(!shops.run(&["get", "team-a/shops"]).expect_code(0).out.contains("RollingSync"));
    shops.stop();
}

#[test]
fn the_log_of_the_process_names_each_step_in_turn() {
    let mut shops = Shops::serve("steps: [{step: 2, gates: [approval]}]");
    let service = shops.service.as_mut().unwrap();
    for line in ["RolloutStarted", "StepOpened", "StepPassed", "StepHeld"] {
        let line = service.wait_for_line(line);
        assert!(line.contains("shops"), "{line}");
    }
    shops.run(&["approve", "shops"]).expect_code(0);
    let service = shops.service.as_mut().unwrap();
    for line in ["StepOpened", "StepOpened", "RolloutCompleted"] {
        service.wait_for_line(line);
    }
    shops.stop();
}
