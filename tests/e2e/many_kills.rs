//! Thirty Applications, and a service that is killed repeatedly at random moments. According to the cluster's
//! audit log, each hook must run once in each operation, and at most once in a superseded operation. Every
//! application must match its last commit, and no temporary data may remain.
//!
//! `TIDEGATE_SERVE_KILLS=N` sets the number of kills, `TIDEGATE_KILL_SEED=N` repeats the moments of an
//! earlier run.

use std::collections::BTreeMap;

use tidegate_testkit::effort;

use crate::bench::Bench;
use crate::thirty_applications::{Dice, ThirtyApplications, assert_no_temporary_data, hooks_of};

const KILLS: u64 = 8;
const KILLS_LONG: u64 = 100;

#[test]
fn a_service_of_thirty_applications_survives_its_kills() {
    let kills = effort::rounds("TIDEGATE_SERVE_KILLS", KILLS, KILLS_LONG);
    let (mut dice, seed) = Dice::from_environment();
    let story = format!("seed {seed}");
    let mut bench = Bench::new();
    bench.set_variable("TMPDIR", bench.path().join("tmp"));
    let mut thirty = ThirtyApplications::new(&bench);
    for number in ThirtyApplications::numbers() {
        let application = thirty.application(number, "many");
        bench.write(&format!("apps/{}.yaml", ThirtyApplications::name(number)), application.to_string());
    }
    let serve = || bench.start(&["serve", "--sim", "--apps", "apps"]);
    thirty.kill_service(kills, &mut dice, &story, serve);
    let mut service = serve();
    service.wait_for_line("managing");
    for number in ThirtyApplications::numbers() {
        bench.run(&["app", "wait", &ThirtyApplications::name(number), "--timeout", "10m"]).expect_code(0);
    }
    service.signal("TERM");
    service.finish().expect_code(0);

    let operations = thirty.operations(&story);
    let mut created: BTreeMap<(String, String), usize> = BTreeMap::new();
    for write in bench.writes().iter().filter(|one| one["kind"] == "Job" && one["code"] == 201) {
        let text = |name: &str| write[name].as_str().unwrap_or_default().to_owned();
        *created.entry((text("name"), text("operationId"))).or_default() += 1;
    }
    let hooks = hooks_of(&operations);
    for (hook, must_run) in &hooks {
        let times = created.get(hook).copied().unwrap_or_default();
        assert!(times == 1 || times == 0 && !must_run, "{story}: {hook:?} was created {times} times");
    }
    let unknown: Vec<_> = created.keys().filter(|hook| !hooks.contains_key(hook)).collect();
    assert!(unknown.is_empty(), "{story}: {unknown:?}");
    let all = || operations.values().flatten();
    let superseded = all().filter(|one| one.is_superseded).count();
    println!("{kills} kills, {} operations, {superseded} of them superseded", all().count());
    let objects = bench.json(&["sim", "objects", "-o", "json"]);
    for number in ThirtyApplications::numbers() {
        let name = ThirtyApplications::settings(number);
        let found = objects.as_array().unwrap().iter().find(|one| one["metadata"]["name"] == name.as_str());
        assert_eq!(found.unwrap()["data"]["version"], thirty.version(number), "{story}: {name}");
        let app = bench.json(&["app", "get", &ThirtyApplications::name(number), "-o", "json"]);
        let status = &app["status"];
        assert_eq!(
            (&status["sync"]["status"], &status["health"]["status"], app.get("operation")),
            (&"Synced".into(), &"Healthy".into(), None),
            "{story}: {app}"
        );
    }
    assert_no_temporary_data(&bench, &story);
}
