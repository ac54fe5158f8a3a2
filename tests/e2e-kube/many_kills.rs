//! Thirty Applications of a cluster, and a service that is killed repeatedly at random moments. According to
//! the audit log, each hook must run once in each operation, and at most once in a superseded operation.
//! Every application must match its last commit, and no temporary data may remain.
//!
//! `TIDEGATE_SERVE_KILLS=N` sets the number of kills, `TIDEGATE_KILL_SEED=N` repeats the moments of an
//! earlier run.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_testkit::effort;
use tidegate_testkit::kube::{AuditEvent, User};

use crate::applications::{bench_with_crds, is_done, path};
use crate::thirty_applications::{Dice, ThirtyApplications, assert_no_temporary_data, hooks_of};

const KILLS: u64 = 4;
/// Number of kills in the long form, on each version of Kubernetes.
const KILLS_LONG: u64 = 100;

pub async fn a_service_of_thirty_applications_survives_its_kills() {
    let kills = effort::rounds("TIDEGATE_SERVE_KILLS", KILLS, KILLS_LONG);
    let (mut dice, seed) = Dice::from_environment();
    let story = format!("seed {seed}");
    let mut bench = bench_with_crds().await;
    let folder = bench.path().join("tmp");
    bench.bench.set_variable("TMPDIR", folder);
    let bench = &bench;
    let mut thirty = ThirtyApplications::new(&bench.bench);
    let namespace = bench.namespace.as_str();
    for number in ThirtyApplications::numbers() {
        let application = thirty.application(number, namespace);
        bench.observer().post(&path(bench), &application).await.unwrap();
    }
    let serve = || bench.start(&["serve", "--app-namespace", namespace, "--project-namespace", namespace]);
    tokio::task::block_in_place(|| thirty.kill_service(kills, &mut dice, &story, serve));
    let mut service = serve();
    service.wait_for_line("managing");
    for number in ThirtyApplications::numbers() {
        let settings =
            format!("/api/v1/namespaces/{namespace}/configmaps/{}", ThirtyApplications::settings(number));
        let version = thirty.version(number);
        let is_new =
            |map: Option<&serde_json::Value>| map.is_some_and(|map| map["data"]["version"] == version);
        bench.observer().wait_until(&settings, is_new).await;
        let one = format!("{}/{}", path(bench), ThirtyApplications::name(number));
        bench.observer().wait_until(&one, |app| app.is_some_and(is_done)).await;
    }
    service.signal("TERM");
    service.finish().expect_code(0);

    let operations = thirty.operations(&story);
    // If the client is killed before the response, the server may log a failure for a successful write.
    let mut made: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    let audit_events = bench.audit().await.by_user(User::ENGINE);
    let makes = |event: &AuditEvent| event.is_write() && !event.dry_run && event.verb != "delete";
    for event in audit_events.filter(|event| makes(event) && event.kind == "Job").0 {
        let operation = event.operation.clone().unwrap_or_default();
        let (created, cut_off) = made.entry((event.name.clone(), operation)).or_default();
        *created += usize::from(event.code == 201);
        *cut_off += usize::from(event.has_unknown_outcome());
    }
    let hooks = hooks_of(&operations);
    for (hook, must_run) in &hooks {
        let (created, cut_off) = made.get(hook).copied().unwrap_or_default();
        assert!(
            created == 1 || created == 0 && (cut_off > 0 || !must_run),
            "{story}: {hook:?} was created {created} times, {cut_off} writes were cut off"
        );
    }
    // A request that was killed before its body was complete doesn't have a name, and doesn't create an
    // object.
    let is_half = |(name, created): (&str, usize)| name.is_empty() && created == 0;
    let unknown = made.iter().filter(|(hook, (created, _))| !is_half((&hook.0, *created)));
    let unknown: Vec<_> = unknown.filter(|(hook, _)| !hooks.contains_key(hook)).collect();
    assert!(unknown.is_empty(), "{story}: {unknown:?}");
    let all = || operations.values().flatten();
    let superseded = all().filter(|one| one.is_superseded).count();
    println!("{kills} kills, {} operations, {superseded} of them superseded", all().count());
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let leases = bench.observer().get(&leases).await.unwrap();
    let holders = leases["items"].as_array().unwrap().iter().map(|lease| &lease["spec"]["holderIdentity"]);
    // A process that is killed directly after the end of an operation leaves its claim behind. The next
    // process knows that the operation has ended.
    let over: BTreeSet<&str> = all().map(|one| one.id.as_str()).collect();
    let left: Vec<&str> = holders.filter_map(|holder| holder.as_str()).collect();
    let held = left.iter().filter(|holder| !holder.is_empty() && !over.contains(*holder));
    assert_eq!(held.count(), 0, "{story}: claims are still held by {left:?}");
    assert_no_temporary_data(&bench.bench, &story);
}
