//! The example with three applications, managed by a service.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::bench::{Bench, CommandOutput, Running};

/// The example as the command itself writes it, and the service that manages it.
pub struct Fleet {
    pub bench: Bench,
}

impl Fleet {
    pub fn new() -> Self {
        let mut bench = Bench::new();
        // Makes sure that neither git nor any other program is available.
        bench.set_variable("PATH", "");
        bench.run(&["example", "fleet"]).expect_code(0);
        // The example's ApplicationSet has its own tests.
        fs::remove_file(bench.path().join("fleet/shops.yaml")).unwrap();
        Self { bench }
    }

    pub fn serve(&self) -> Running {
        self.serve_with(&[])
    }

    pub fn serve_with(&self, options: &[&str]) -> Running {
        let mut service = self.bench.start(&[&["serve", "--sim", "--apps", "fleet"], options].concat());
        service.wait_for_line("managing");
        service
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.bench.path().join("fleet").join(name)
    }

    pub fn replace(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{name}: {text}");
        fs::write(self.path(name), text.replace(from, to)).unwrap();
    }

    pub fn commit(&self) {
        self.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    }

    /// Sets the duration of the migration.
    pub fn set_migration_duration(&self, time: &str) {
        self.replace("repo/backend/migrate.yaml", "ready-after: 3s", &format!("ready-after: {time}"));
        self.commit();
    }

    /// Sets the output of the migration, with `\n` between lines. The migration runs long enough for a client
    /// to connect.
    pub fn set_migration_output(&self, text: &str) {
        let with = format!("sim.tidegate.dev/ready-after: 20s\n    sim.tidegate.dev/logs: \"{text}\"");
        self.replace("repo/backend/migrate.yaml", "sim.tidegate.dev/ready-after: 3s", &with);
        self.commit();
    }

    pub fn wait_until_synced(&self, names: &[&str]) {
        self.bench.run(&[&["app", "wait", "--timeout", "10m"], names].concat()).expect_code(0);
    }

    pub fn get(&self, name: &str) -> Value {
        self.bench.json(&["app", "get", name, "-o", "json"])
    }

    /// Polls until the application satisfies a predicate.
    #[track_caller]
    pub fn wait_until(&self, name: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let found = std::iter::repeat_with(|| self.get(name)).take(3000).find(is_met);
        found.unwrap_or_else(|| panic!("{}", self.get(name)))
    }

    pub fn condition(&self, name: &str, kind: &str) -> String {
        let of = |app: &Value| {
            let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.into_iter().find(|condition| condition["type"] == kind);
            found.map(|condition| condition["message"].as_str().unwrap().to_owned())
        };
        of(&self.wait_until(name, |app| of(app).is_some())).unwrap()
    }

    /// Returns the positions of the writes that created objects, in order.
    pub fn creations(&self, kind: &str, name: &str) -> Vec<u64> {
        let writes = self.bench.writes();
        let of = writes.iter().filter(|one| one["kind"] == kind && one["name"] == name && one["code"] == 201);
        of.map(|one| one["sequence"].as_u64().unwrap()).collect()
    }

    /// Stops the service cleanly. Returns its output.
    pub fn stop(service: Running) -> CommandOutput {
        service.signal("TERM");
        service.finish().expect_code(0)
    }
}
