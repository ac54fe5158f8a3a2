//! Thirty Applications of a cluster, and a service that is killed at random moments again and again: each hook ran once in each
//! operation, and at most once in one whose place a newer commit has taken, by the word of the audit log, every application is
//! as its last commit says, and nothing is left.
//!
//! `TIDEGATE_SERVE_KILLS=N` kills it that often, `TIDEGATE_KILL_SEED=N` repeats the moments of an earlier run.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_testkit::effort;
use tidegate_testkit::kube::{AuditEvent, User};

use crate::applications::{is_done, path, site};
use crate::thirty::{Dice, Thirty, assert_nothing_of_processes_is_left, hooks_of};

const KILLS: u64 = 4;
/// On each version of Kubernetes.
const KILLS_LONG: u64 = 100;

pub async fn a_service_of_thirty_applications_survives_its_kills() {
    let kills = effort::rounds("TIDEGATE_SERVE_KILLS", KILLS, KILLS_LONG);
    let (mut dice, seed) = Dice::of_environment();
    let story = format!("seed {seed}");
    let mut site = site().await;
    let folder = site.path().join("tmp");
    site.bench.set("TMPDIR", folder);
    let site = &site;
    let mut thirty = Thirty::new(&site.bench);
    let namespace = site.namespace.as_str();
    for number in Thirty::numbers() {
        let application = thirty.application(number, namespace);
        site.observer().post(&path(site), &application).await.unwrap();
    }
    let serve = || site.start(&["serve", "--app-namespace", namespace, "--project-namespace", namespace]);
    tokio::task::block_in_place(|| thirty.kill(kills, &mut dice, &story, serve));
    let mut serving = serve();
    serving.await_line("serving");
    for number in Thirty::numbers() {
        let settings = format!("/api/v1/namespaces/{namespace}/configmaps/{}", Thirty::settings(number));
        let version = thirty.version(number);
        let is_new =
            |map: Option<&serde_json::Value>| map.is_some_and(|map| map["data"]["version"] == version);
        site.observer().until(&settings, is_new).await;
        let one = format!("{}/{}", path(site), Thirty::name(number));
        site.observer().until(&one, |app| app.is_some_and(is_done)).await;
    }
    serving.signal("TERM");
    serving.finish().expect_code(0);

    let operations = thirty.operations(&story);
    // Where it was killed before the answer came, the server may note a failure for what it has done all the same.
    let mut made: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    let asked = site.audit().await.of(User::ENGINE);
    let makes = |event: &AuditEvent| event.is_write() && !event.dry_run && event.verb != "delete";
    for event in asked.only(|event| makes(event) && event.kind == "Job").0 {
        let operation = event.operation.clone().unwrap_or_default();
        let (created, cut_off) = made.entry((event.name.clone(), operation)).or_default();
        *created += usize::from(event.code == 201);
        *cut_off += usize::from(event.is_cut_off());
    }
    let hooks = hooks_of(&operations);
    for (hook, must_run) in &hooks {
        let (created, cut_off) = made.get(hook).copied().unwrap_or_default();
        assert!(
            created == 1 || created == 0 && (cut_off > 0 || !must_run),
            "{story}: {hook:?} was created {created} times, {cut_off} writes were cut off"
        );
    }
    // A request that was killed before all of it was sent has no name, and has made nothing.
    let is_half = |(name, created): (&str, usize)| name.is_empty() && created == 0;
    let unknown = made.iter().filter(|(hook, (created, _))| !is_half((&hook.0, *created)));
    let unknown: Vec<_> = unknown.filter(|(hook, _)| !hooks.contains_key(hook)).collect();
    assert!(unknown.is_empty(), "{story}: {unknown:?}");
    let all = || operations.values().flatten();
    let superseded = all().filter(|one| one.is_superseded).count();
    println!("{kills} kills, {} operations, {superseded} of them superseded", all().count());
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let leases = site.observer().get(&leases).await.unwrap();
    let holders = leases["items"].as_array().unwrap().iter().map(|lease| &lease["spec"]["holderIdentity"]);
    // Whoever is killed just after an operation has ended leaves its claim; the next one knows that it is over.
    let over: BTreeSet<&str> = all().map(|one| one.id.as_str()).collect();
    let left: Vec<&str> = holders.filter_map(|holder| holder.as_str()).collect();
    let held = left.iter().filter(|holder| !holder.is_empty() && !over.contains(*holder));
    assert_eq!(held.count(), 0, "{story}: claims are held by {left:?}");
    assert_nothing_of_processes_is_left(&site.bench, &story);
}
