//! The HTTP API of a service as clients use it: over real connections, with tokens, and according to the
//! API's own OpenAPI description.

mod canary;
mod plans;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::bench::Running;
use crate::fleet::Fleet;
use crate::schema::Schemas;

const OPERATOR: &str = "operators-may-have-things-done";
const OTHER: &str = "another-operator-may-do-the-same";
const READER: &str = "readers-may-look-and-no-more";

/// The managed fleet of a service that has an API.
struct Api {
    address: String,
    service: Running,
}

struct HttpResponse {
    status: u16,
    body: String,
}

impl HttpResponse {
    #[track_caller]
    fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Api {
    fn serve(fleet: &Fleet) -> Self {
        Self::serve_with(fleet, &[])
    }

    fn serve_with(fleet: &Fleet, options: &[&str]) -> Self {
        let tokens = format!("ann operator {OPERATOR}\nben read-only {READER}\ncleo operator {OTHER}\n");
        fleet.bench.write_private("tokens", tokens);
        let args = ["serve", "--sim", "--apps", "fleet", "--listen", "0", "--tokens", "tokens"];
        let mut service = fleet.bench.start(&[&args, options].concat());
        let address = service.wait_for_api();
        service.wait_for_line("managing 3 applications");
        Self { address, service }
    }

    fn connect(&self, method: &str, target: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // Uses HTTP/1.0, so that the response isn't chunked and ends with the connection.
        let length = body.len();
        write!(
            stream,
            "{method} {target} HTTP/1.0\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}",
            self.address
        )
        .unwrap();
        stream
    }

    fn request(&self, method: &str, target: &str, token: &str, body: &str) -> HttpResponse {
        let mut stream = self.connect(method, target, &format!("authorization: Bearer {token}\r\n"), body);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        for secret in [OPERATOR, OTHER, READER] {
            assert!(!text.contains(secret), "{text}");
        }
        HttpResponse { status, body: body.to_owned() }
    }

    #[track_caller]
    fn get(&self, target: &str) -> Value {
        // Retries when the rate limit is reached.
        let mut answers = std::iter::repeat_with(|| self.request("GET", target, READER, "")).take(3000);
        answers.find(|answer| answer.status != 429).unwrap().json(200)
    }

    #[track_caller]
    fn post(&self, target: &str, body: &Value) -> Value {
        self.request("POST", target, OPERATOR, &body.to_string()).json(202)
    }

    /// Subscribes to events.
    fn subscribe(&self, query: &str, last: Option<&str>) -> EventSubscriber {
        let last = last.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let headers = format!("authorization: Bearer {READER}\r\n{last}");
        let target = format!("/api/v1/events{query}");
        let mut lines = BufReader::new(self.connect("GET", &target, &headers, ""));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.0 200") && head.contains("text/event-stream"), "{head}");
        EventSubscriber { lines, last_id: String::new(), latest_state: None }
    }
}

/// A subscriber of events.
struct EventSubscriber {
    lines: BufReader<TcpStream>,
    /// Id of the last event.
    last_id: String,
    /// Latest state of an application since its operation's first event.
    latest_state: Option<Value>,
}

impl EventSubscriber {
    /// Returns the next event with its kind.
    fn next_event(&mut self) -> (String, Value) {
        let (mut kind, mut data) = (String::new(), None);
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the stream ended");
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut self.last_id),
                Some(("event", name)) => name.clone_into(&mut kind),
                Some(("data", text)) => data = Some(serde_json::from_str::<Value>(text).unwrap()),
                _ => {
                    if let Some(data) = data.take() {
                        return (kind, data);
                    }
                }
            }
        }
    }

    /// Returns the events of operations until an operation has finished. Each entry contains the application,
    /// the operation, the sequence number and the kind.
    fn read_until_finished(&mut self) -> Vec<(String, String, u64, String)> {
        let mut events = Vec::new();
        loop {
            let (kind, data) = self.next_event();
            if kind != "operation" {
                if kind == "application" && !events.is_empty() {
                    self.latest_state = Some(data);
                }
                continue;
            }
            let event = &data["operation"];
            let text = |name: &str| event[name].as_str().unwrap().to_owned();
            events.push((text("app"), text("operation"), event["sequence"].as_u64().unwrap(), text("kind")));
            if event["kind"] == "finished" {
                return events;
            }
        }
    }
}

const BACKEND: &str = "/api/v1/applications/argocd/backend";

#[test]
fn applications_are_shown_like_on_the_command_line_and_operated() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait_until_synced(&[]);
    assert_eq!(api.request("GET", "/readyz", "", "").json(200)["ok"], true);
    // Requests pages with one application each.
    let (mut names, mut page) = (Vec::new(), String::new());
    loop {
        let found = api.get(&format!("/api/v1/applications?limit=1{page}"));
        assert_eq!((&found["total"], found["items"].as_array().unwrap().len()), (&json!(3), 1));
        names.push(found["items"][0]["name"].as_str().unwrap().to_owned());
        let Some(next) = found["next"].as_str() else { break };
        page = format!("&page={next}");
    }
    assert_eq!(names, ["backend", "database", "frontend"]);
    let named = |query: &str| {
        let found = api.get(&format!("/api/v1/applications?{query}"));
        let items = found["items"].as_array().unwrap().clone();
        items.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
    };
    assert_eq!(named("health=Healthy&name=END&reverse=true&sort=name"), "frontend,backend");
    assert_eq!(named("sync=OutOfSync&sync=Unknown"), "");
    assert_eq!(
        named("label=!team&project=default&operation=Succeeded&limit=500"),
        "backend,database,frontend"
    );
    let line = &api.get("/api/v1/applications?name=backend")["items"][0];
    assert_eq!(
        (&line["operation"]["phase"], &line["operation"]["initiatedBy"]),
        (&json!("Succeeded"), &json!("automated"))
    );
    // The API returns the same content that the command line prints.
    let (shown, printed) = (api.get(BACKEND), fleet.get("backend"));
    assert_eq!(
        (&shown["spec"], &shown["status"]["history"]),
        (&printed["spec"], &printed["status"]["history"])
    );
    let resources = api.get(&format!("{BACKEND}/resources?limit=1"));
    assert!(
        resources["next"].is_string() && resources["items"].as_array().unwrap().len() == 1,
        "{resources}"
    );
    let info = |app: &Value| app["status"]["operationState"]["operation"]["info"].clone();
    let before = info(&fleet.get("frontend"));
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    // The service observes the deletion a moment later, and self-heal reverts it.
    fleet.wait_until("frontend", |app| {
        info(app) != before && app["status"]["operationState"]["phase"] == "Succeeded"
    });
    fleet.wait_until_synced(&[]);
    let operation = line["operation"]["id"].as_str().unwrap();
    let explained = api.get(&format!("/api/v1/operations/{operation}/explain"));
    assert!(explained["summary"].as_str().unwrap().contains("Succeeded"), "{explained}");
    let mut shown = api.get(&format!("/api/v1/operations/{operation}"));
    assert_eq!(shown["isRunning"], false);
    let printed = fleet.bench.json(&["ops", "show", operation, "-o", "json"]);
    assert_eq!(shown, printed);
    shown["waves"].as_array_mut().unwrap().iter().for_each(|wave| assert_eq!(wave["state"], "Passed"));
    let events = api.get(&format!("/api/v1/operations/{operation}/events?after=1"));
    let printed = fleet.bench.json(&["ops", "events", operation, "--after", "1", "-o", "json"]);
    assert_eq!(events["items"], printed);
    let (mut recorded_events, mut after) = (Vec::new(), 0);
    loop {
        let found = api.get(&format!("/api/v1/operations/{operation}/log?limit=7&after={after}"));
        recorded_events.extend(found["items"].as_array().unwrap().iter().cloned());
        let Some(next) = found["next"].as_u64() else { break };
        after = next;
    }
    assert_eq!(Value::from(recorded_events), fleet.bench.json(&["ops", "log", operation, "-o", "json"]));
    // The export is a file that is identical to the command line's export.
    let mut exported = api.get(&format!("/api/v1/operations/{operation}/export"));
    let mut printed = fleet.bench.json(&["ops", "export", operation]);
    for document in [&mut exported, &mut printed] {
        for (part, moment) in [("/exportedAt", "exportedAt"), ("/explanation/at", "at")] {
            assert!(document.pointer(part).is_some_and(Value::is_string), "{moment}");
            *document.pointer_mut(part).unwrap() = Value::Null;
        }
        document["explanation"]["summary"] = Value::Null;
        document["explanation"]["position"] = Value::Null;
    }
    assert_eq!(exported, printed);
    let page = api.request("GET", &format!("/api/v1/operations/{operation}/export.html"), READER, "");
    assert!(page.status == 200 && page.body.starts_with("<!doctype html>"), "{}", page.body);
    // Tries the filters of lists.
    let revision = exported["request"]["revision"].as_str().unwrap();
    let began = exported["operation"]["startedAt"].as_str().unwrap();
    for (query, is_there) in [
        (format!("revision={}", &revision[..7]), true),
        (format!("since={began}&outcome=Succeeded"), true),
        ("initiatedBy=nobody".to_owned(), false),
        (format!("until={began}"), false),
    ] {
        let found = api.get(&format!("/api/v1/operations?application=backend&limit=500&{query}"));
        let ids: Vec<&Value> = found["items"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids.contains(&&json!(operation)), is_there, "{query}: {found}");
    }
    // A request by a read-only user is rejected, and nothing changes.
    let before = api.get("/api/v1/operations")["total"].clone();
    for what in ["sync", "terminate", "rollback", "refresh"] {
        let refused = api.request("POST", &format!("{BACKEND}/{what}"), READER, "{}").json(403);
        assert_eq!(refused["code"], "forbidden", "{refused}");
    }
    let after = api.get("/api/v1/operations");
    assert_eq!(after["total"], before, "{after}");
    // Actions of an operator are recorded under their name.
    api.post(&format!("{BACKEND}/sync"), &json!({"prune": true, "reason": "a hotfix"}));
    let synced = fleet.wait_until("backend", |app| {
        let state = &app["status"]["operationState"];
        state["operation"]["initiatedBy"]["username"] == "ann" && state["phase"] == "Succeeded"
    });
    assert_eq!(synced["status"]["operationState"]["operation"]["sync"]["prune"], true);
    let newest =
        api.get("/api/v1/operations?application=backend&initiatedBy=ann&limit=1")["items"][0].clone();
    assert_eq!((&newest["initiatedBy"], &newest["reason"]), (&json!("ann"), &json!("a hotfix")));
    // Each object contains the rule of its health assessment.
    let objects = api.get(&format!("{BACKEND}/resources"))["items"].clone();
    let rule = |kind: &str| {
        objects.as_array().unwrap().iter().find(|one| one["kind"] == kind).unwrap()["healthRule"].clone()
    };
    assert_eq!(
        (rule("Deployment"), rule("ConfigMap")),
        (json!("built-in rule for apps/Deployment"), Value::Null)
    );
    let refused = api.request("POST", &format!("{BACKEND}/rollback"), OPERATOR, "{}").json(409);
    assert_eq!(refused["code"], "conflict", "it is synced automatically: {refused}");
    let refused = api.request("POST", &format!("{BACKEND}/terminate"), OPERATOR, "").json(409);
    assert!(refused["message"].as_str().unwrap().contains("No operation is in progress"), "{refused}");
    Fleet::stop(api.service);
}

#[test]
fn metrics_describe_applications_and_waiting_operations() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait_until_synced(&[]);
    api.post(&format!("{BACKEND}/sync"), &json!({}));
    fleet.wait_until("backend", |app| {
        let state = &app["status"]["operationState"];
        state["operation"]["initiatedBy"]["username"] == "ann" && state["phase"] == "Succeeded"
    });
    fleet.wait_until_synced(&[]);
    let text = api.request("GET", "/metrics", READER, "").body;
    for name in tidegate_server::metric_names() {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
    }
    for part in [
        "argocd_app_info{namespace=\"argocd\",name=\"backend\",project=\"default\",autosync_enabled=\"true\",repo=\"./repo\",",
        "sync_status=\"Synced\",health_status=\"Healthy\",operation=\"\"} 1",
        "argocd_app_reconcile_count{namespace=\"argocd\",dest_server=\"https://kubernetes.default.svc\"} ",
        "argocd_cluster_info{server=\"https://kubernetes.default.svc\",name=\"in-cluster\"} 1\n",
        "argocd_cluster_connection_status{server=\"https://kubernetes.default.svc\"} 1\n",
        "argocd_cluster_api_resource_objects{server=\"https://kubernetes.default.svc\"} 7\n",
        "tidegate_wave_duration_seconds_bucket{phase=\"PreSync\",wave=\"0\",le=\"+Inf\"} ",
        "tidegate_phase_duration_seconds_count{phase=\"Sync\"} ",
        "tidegate_operation_duration_seconds_count{phase=\"Succeeded\"} 4\n",
        "tidegate_blocked_seconds_total{reason=\"health\"} ",
        "tidegate_operations_open 0\n",
        "tidegate_engine_up 1\n",
        "tidegate_log_queue_depth 0\n",
        "tidegate_http_requests_total{route=\"syncApplication\",status=\"202\"} 1\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let counted =
        |line: &&str| line.starts_with("argocd_app_sync_total{") && line.contains("name=\"backend\"");
    let synced: Vec<&str> = text.lines().filter(counted).collect();
    assert!(synced.len() == 1 && synced[0].contains("phase=\"Succeeded\",dry_run=\"false\""), "{synced:?}");
    let told = "argocd_cluster_events_total{server=\"https://kubernetes.default.svc\"} ";
    let told = text.lines().find_map(|line| line.strip_prefix(told)).unwrap();
    assert!(told.parse::<u32>().unwrap() > 0, "{told}");
    let flushes =
        text.lines().find_map(|line| line.strip_prefix("tidegate_log_flush_seconds_count ")).unwrap();
    assert!(flushes.parse::<u32>().unwrap() > 3, "{flushes}");
    Fleet::stop(api.service);
}

#[test]
fn no_metric_series_is_duplicated() {
    const SERVER: &str = "https://kubernetes.default.svc";
    let fleet = Fleet::new();
    fleet.replace("frontend.yaml", "name: in-cluster", &format!("server: {SERVER}"));
    fleet.replace("database.yaml", "name: in-cluster", "name: prod-east");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "home", "namespace": "argocd", "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "stringData": {"name": "prod-east", "server": SERVER, "config": "{\"tlsClientConfig\":{\"insecure\":false}}"},
    });
    fleet.bench.write("secrets/home.json", secret.to_string());
    let api = Api::serve_with(&fleet, &["--clusters", "secrets"]);
    fleet.wait_until_synced(&[]);
    let text = api.request("GET", "/metrics", READER, "").body;
    let samples = || text.lines().filter(|line| !line.starts_with('#'));
    let mut seen = BTreeSet::new();
    for line in samples() {
        let (series, _) = line.rsplit_once(' ').unwrap();
        assert!(seen.insert(series), "{series} appears twice\n{text}");
    }
    let of = |metric: &str| -> Vec<&str> { samples().filter(|line| line.starts_with(metric)).collect() };
    let address = format!("dest_server=\"{SERVER}\"");
    for (metric, count) in [
        ("argocd_app_info{", 3),
        ("argocd_app_sync_total{", 3),
        ("argocd_app_sync_duration_seconds_total{", 3),
        ("argocd_app_reconcile_count{", 1),
    ] {
        let found = of(metric);
        assert_eq!(found.len(), count, "{found:?}");
        assert!(found.iter().all(|line| line.contains(&address)), "{found:?}");
    }
    assert_eq!(of("argocd_cluster_info{").len(), 2, "by each of its names");
    assert_eq!(of("argocd_cluster_connection_status{").len(), 1);
    Fleet::stop(api.service);
}

#[test]
fn hostile_requests_get_problem_responses_and_change_nothing() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait_until_synced(&[]);
    let operations = api.get("/api/v1/operations")["total"].clone();
    let large = format!("{{\"revision\": \"{}\"}}", "x".repeat(300 << 10));
    let deep = "[".repeat(100_000);
    for (target, body, status, code) in [
        ("sync", "{", 400, "bad-request"),
        ("sync", "[]", 400, "bad-request"),
        ("sync", "null", 400, "bad-request"),
        ("sync", "{\"prune\": \"yes\"}", 400, "bad-request"),
        ("sync", "{\"purge\": true}", 400, "bad-request"),
        ("sync", "{\"prune\": true, \"prune\": true}", 400, "bad-request"),
        ("sync", "\u{0}", 400, "bad-request"),
        ("sync", deep.as_str(), 400, "bad-request"),
        ("sync", large.as_str(), 413, "payload-too-large"),
        ("sync?force=true", "{}", 400, "bad-request"),
        ("rollback", "{\"id\": 9e99}", 400, "bad-request"),
        ("refresh", "{\"hard\": 1}", 400, "bad-request"),
        ("delete", "{}", 404, "not-found"),
    ] {
        let answer = api.request("POST", &format!("{BACKEND}/{target}"), OPERATOR, body).json(status);
        assert_eq!(answer["code"], code, "{target} {body:.40}: {answer}");
    }
    for target in [
        "/api/v1/applications/argocd/nobody",
        "/api/v1/applications/argocd/..%2f..%2fetc",
        "/api/v1/applications/argocd%2fbackend/x",
        "/api/v1/applications/%00/%0a",
        "/api/v1/applications/argocd/backend%00",
        "/api/v1/operations/../../../etc/passwd",
        "/api/v1/operations/backend",
        "/api/v1/operations/00000000-0000-0000-0000-000000000000",
    ] {
        let answer = api.request("GET", target, READER, "").json(404);
        assert_eq!(answer["code"], "not-found", "{target}: {answer}");
    }
    for target in [
        "/api/v1/applications?limit=0",
        "/api/v1/applications?limit=100000",
        "/api/v1/applications?sort=colour",
        "/api/v1/applications?page=x",
        "/api/v1/applications?label=a%20b",
        "/api/v1/applications/%ff/%fe",
        "/api/v1/operations?page=e30",
        "/api/v1/operations?since=yesterday",
        "/api/v1/events?operation=x",
        "/api/v1/events?lastEventId=x",
    ] {
        let answer = api.request("GET", target, READER, "").json(400);
        assert_eq!(answer["code"], "bad-request", "{target}: {answer}");
    }
    for token in ["", "x", "operators-may-have-things-don", "operators-may-have-things-done2"] {
        let answer = api.request("GET", "/api/v1/applications", token, "").json(401);
        assert_eq!(answer["code"], "unauthorized");
    }
    assert_eq!(api.get("/api/v1/operations")["total"], operations);
    Fleet::stop(api.service);
}

#[test]
fn events_are_sent_live_and_missed_ones_come_from_the_log() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait_until_synced(&[]);
    let mut all = api.subscribe("", None);
    let mut one = api.subscribe("?application=argocd/backend", None);
    api.post(&format!("{BACKEND}/sync"), &json!({}));
    let response = one.read_until_finished();
    assert_eq!(response.first().map(|first| first.3.as_str()), Some("accepted"));
    assert!(
        response.iter().any(|one| one.3 == "task-ended") && response.is_sorted_by_key(|one| one.2),
        "{response:?}"
    );
    assert_eq!(all.read_until_finished(), response, "nothing else was running");
    // The stream also contains the state of the application, until the application is idle.
    let mut shown = one.latest_state.take();
    while shown.is_none_or(|data| data["application"]["operation"]["phase"] != "Succeeded") {
        let (kind, data) = one.next_event();
        shown = (kind == "application").then_some(data);
    }
    // A client continues after an interruption.
    let (middle, id) = (response[response.len() / 2].2, response[0].1.clone());
    let seen = all.last_id.clone();
    api.post("/api/v1/applications/argocd/frontend/sync", &json!({}));
    let missed = api.subscribe("", Some(&seen)).read_until_finished();
    assert!(missed.iter().all(|event| event.0 == "frontend") && missed[0].3 == "accepted", "{missed:?}");
    let rest = api.get(&format!("/api/v1/operations/{id}/events?after={middle}"));
    let rest: Vec<u64> =
        rest["items"].as_array().unwrap().iter().map(|one| one["sequence"].as_u64().unwrap()).collect();
    assert_eq!(rest, response.iter().map(|one| one.2).filter(|number| *number > middle).collect::<Vec<_>>());
    // Sequence numbers from another process are invalid, so the events come from the log again.
    Fleet::stop(api.service);
    let api = Api::serve(&fleet);
    let mut again = api.subscribe("?application=argocd/backend", Some(&seen));
    let (kind, data) = again.next_event();
    assert!(kind == "reset" && data["reset"]["message"].as_str().unwrap().contains("list"), "{data}");
    let again: BTreeSet<_> =
        std::iter::repeat_with(|| again.read_until_finished()).take(2).flatten().collect();
    assert!(response.iter().all(|event| again.contains(event)), "{again:?}");
    Fleet::stop(api.service);
}

#[test]
fn every_route_responds_as_documented() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait_until_synced(&[]);
    let description = api.request("GET", "/openapi.json", "", "").json(200);
    assert_eq!(description["openapi"], "3.1.0");
    let is_needed = |path: &str| description["paths"][path]["post"]["requestBody"]["required"].clone();
    for (path, needed) in [
        ("/api/v1/plans", true),
        ("/api/v1/session", true),
        ("/api/webhook", true),
        ("/api/v1/operations/{id}/skip", true),
        ("/api/v1/operations/{id}/retry", true),
        ("/api/v1/applicationsets/{namespace}/{name}/skip", true),
        ("/api/v1/applicationsets/{namespace}/{name}/retry", false),
        ("/api/v1/applications/{namespace}/{name}/sync", false),
    ] {
        assert_eq!(is_needed(path), needed, "{path}");
    }
    let limits = &description["paths"]["/api/v1/operations"]["get"]["parameters"];
    let limit = limits.as_array().unwrap().iter().find(|one| one["name"] == "limit").unwrap();
    assert_eq!(
        (&limit["schema"]["minimum"], &limit["schema"]["maximum"]),
        (&json!(1), &json!(500)),
        "{limit}"
    );
    let given = json!({"not": {"enum": [null, []]}});
    let both =
        json!({"required": ["revision", "revisions"], "properties": {"revision": given, "revisions": given}});
    assert_eq!(description["components"]["schemas"]["SyncBody"]["not"], both);
    let operation = fleet.bench.newest();
    let plan = api.request("POST", "/api/v1/plans", OPERATOR, "{\"application\": \"backend\"}").json(201);
    let plan = plan["hash"].as_str().unwrap();
    let schemas = Schemas::of(&description);
    let mut ids = BTreeSet::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        let target =
            path.replace("{namespace}", "argocd").replace("{name}", "backend").replace("{id}", &operation);
        let target = target.replace("{hash}", plan);
        assert!(!target.contains('{'), "{path}");
        for (method, described) in methods.as_object().unwrap() {
            assert!(ids.insert(described["operationId"].as_str().unwrap().to_owned()), "{described}");
            assert!(!described["summary"].as_str().unwrap().is_empty());
            let is_open = described["security"] == json!([]);
            let content = |status: &str| described["responses"][status]["content"].as_object().cloned();
            if method == "get" && target.ends_with("/events") && !target.contains("operations") {
                let mut events = api.subscribe("", None);
                api.post(&format!("{BACKEND}/sync"), &json!({}));
                let schema = &described["responses"]["200"]["content"]["text/event-stream"]["x-event-data"];
                for _ in 0..5 {
                    schemas.check(schema, &events.next_event().1, path);
                }
                fleet.wait_until_synced(&[]);
                continue;
            }
            if path.starts_with("/api/v1/session") && method == "post" {
                // Sessions are only for the web page, and are tested there.
                assert_eq!(api.request("POST", &target, "", "{\"token\": \"\"}").status / 100, 4, "{path}");
                continue;
            }
            if method == "delete" {
                // Deletion isn't tested below, but its permissions are checked here.
                assert_eq!(api.request("DELETE", &target, "", "").status, 401, "{path}");
                assert_eq!(api.request("DELETE", &target, READER, "").status, 403, "{path}");
                assert_eq!(api.request("DELETE", &format!("{target}?cascade=all"), OPERATOR, "").status, 400);
                continue;
            }
            let body = if method == "post" { "{}" } else { "" };
            let answer = api.request(&method.to_uppercase(), &target, OPERATOR, body);
            let wanted = answer.status.to_string();
            let (status, content) = match content(&wanted) {
                Some(content) => (wanted.as_str(), content),
                None => ("default", content("default").unwrap()),
            };
            // Impossible actions on a finished operation return errors that the description documents. The
            // same is true for requests without a signature, and for skips without a target and a reason.
            let needs_scope =
                ["/skip", "/mark-done", "operations/{id}/retry"].iter().any(|end| path.ends_with(end));
            let needs_more = path == "/api/webhook" || path == "/api/v1/plans" || needs_scope;
            let is_refused = answer.status == 409 || (answer.status == 400 && needs_more);
            // There is no ApplicationSet with that name, no recorded run, and no login provider here.
            let may_miss = ["/applicationsets/{namespace}", "/runs/{id}", "/session/oidc"]
                .iter()
                .any(|part| path.contains(part));
            let is_missing = may_miss && answer.status == 404;
            // An optional body may be empty.
            let needs_body = described["requestBody"]["required"] == true;
            assert!(method != "post" || needs_body || answer.status != 400, "{path}: {}", answer.body);
            let is_problem = (method == "post" && is_refused) || is_missing;
            assert!(status != "default" || is_problem, "{path}: {}", answer.body);
            if let Some(json) = content.get("application/json").filter(|_| target != "/openapi.json") {
                schemas.check(&json["schema"], &answer.json(answer.status), path);
            }
            let unknown = api.request(&method.to_uppercase(), &target, "", body).status;
            let is_asked = unknown == 401 || (unknown == 400 && path == "/api/webhook");
            assert_eq!(is_asked, !is_open, "{path}: {unknown}");
            fleet.wait_until_synced(&[]);
        }
    }
    assert!(ids.len() >= 20, "{ids:?}");
    Fleet::stop(api.service);
}

#[test]
fn a_revoked_token_ends_its_event_stream() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait_until_synced(&[]);
    let mut reader = api.subscribe("?application=argocd/nobody", None);
    fs::write(fleet.bench.path().join("tokens"), format!("ann operator {OPERATOR}\n")).unwrap();
    // The stream ends even if there are no more events.
    let mut rest = String::new();
    reader.lines.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("still here"), "{rest}");
    assert_eq!(api.request("GET", "/api/v1/events", READER, "").status, 401);
    Fleet::stop(api.service);
}

#[test]
fn the_sign_in_provider_is_checked_at_start_and_may_be_unavailable() {
    let fleet = Fleet::new();
    let roles = "roles: {groups: {platform: operator}}\n";
    let serve = |listen: &'static str| {
        ["serve", "--sim", "--apps", "fleet", "--listen", listen, "--oidc", "oidc.yaml"]
    };
    for (listen, text, part) in [
        (
            "0",
            format!("issuer: http://id.example.com\nclientId: tidegate\n{roles}"),
            "oidc.yaml: issuer: invalid URL: it must start with https://",
        ),
        (
            "0",
            format!("issuer: https://id.example.com\nclientID: tidegate\n{roles}"),
            "oidc.yaml: clientID: unknown field",
        ),
        (
            "0.0.0.0:0",
            format!("issuer: https://id.example.com\nclientId: tidegate\n{roles}"),
            "oidc.yaml: url: missing",
        ),
    ] {
        fleet.bench.write("oidc.yaml", text);
        let ran = fleet.bench.run(&serve(listen)).expect_code(2);
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    // This port doesn't have a listener, because ports this low are never assigned automatically.
    let away = format!("issuer: http://127.0.0.1:1\nname: Example ID\nclientId: tidegate\n{roles}");
    fleet.bench.write("oidc.yaml", away);
    let mut service = fleet.bench.start(&serve("0"));
    let mut missing = vec![
        "the API is available to users of Example ID at",
        "sign-in with Example ID is not available: the provider's configuration cannot be reached",
        "managing 3 applications",
    ];
    // The events can arrive in any order.
    while !missing.is_empty() {
        let line = service.wait_for_line("");
        missing.retain(|part| !line.contains(part));
    }
    service.signal("TERM");
    service.finish().expect_code(0);
}
