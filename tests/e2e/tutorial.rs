//! Lessons of the tutorial, followed by a user who has only the command.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::bench::{CommandOutput, Running};

/// Reads a lesson of the tutorial.
fn lesson(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the lines of each command block.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let parts = page.split("```sh\n").skip(1).map(|part| part.split("\n```").next().unwrap());
    parts.map(|block| block.lines().map(str::to_owned).collect()).collect()
}

/// A user with an empty folder, and with the command on the `PATH`.
struct TutorialUser(TempDir);

impl TutorialUser {
    fn new() -> Self {
        let home = TempDir::with_prefix("tidegate-e2e-").unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_tidegate"), home.path().join("bin/tidegate")).unwrap();
        fs::create_dir(home.path().join("work")).unwrap();
        Self(home)
    }

    fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    /// Creates the command for a line of a shell. The program replaces the shell.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("exec {line}")])
            .current_dir(self.work())
            .env_clear()
            .env("PATH", self.0.path().join("bin"))
            .env("HOME", self.0.path())
            .env("USER", "tester")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    #[track_caller]
    fn run(&self, line: &str) -> CommandOutput {
        Running::start(self.command(line)).finish().expect_code(0)
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(line).out).unwrap()
    }

    /// Returns the writes in the audit log of the simulated cluster, without dry runs.
    fn writes(&self) -> Vec<Value> {
        let audit = self.json("tidegate sim audit -o json");
        audit.as_array().unwrap().iter().filter(|one| one["dryRun"] == false).cloned().collect()
    }

    /// Returns the environments of the shops in the order in which their Deployments were written.
    fn stages(&self, verb: &str) -> Vec<String> {
        let writes = self.writes();
        let of = writes.iter().filter(|one| one["kind"] == "Deployment" && one["verb"] == verb);
        let stages = of.filter_map(|one| {
            let namespace = one["namespace"].as_str().unwrap();
            ["dev", "qa", "prod"].into_iter().find(|stage| namespace.split('-').any(|part| part == *stage))
        });
        let mut stages: Vec<String> = stages.map(str::to_owned).collect();
        stages.dedup();
        stages
    }
}

/// A user with a running service.
struct ServiceUser {
    user: TutorialUser,
    service: Running,
    page: String,
}

impl ServiceUser {
    /// Runs the first block of a lesson, whose last command is the service. Returns the remaining blocks.
    fn new(file: &str) -> (Self, Vec<Vec<String>>) {
        let user = TutorialUser::new();
        let page = lesson(file);
        let mut blocks = blocks(&page);
        let mut first = blocks.remove(0);
        let serve = first.pop().unwrap();
        assert!(serve.starts_with("tidegate serve ") && !first.is_empty(), "{serve}");
        for line in first {
            user.run(&line);
        }
        let mut service = Running::start(user.command(&serve));
        service.wait_for_line("managing");
        (Self { user, service, page }, blocks)
    }

    /// Runs a command of the lesson.
    #[track_caller]
    fn run_lesson_command(&self, line: &str) -> CommandOutput {
        let blocks = blocks(&self.page);
        assert!(blocks.iter().flatten().any(|one| one == line), "the lesson does not contain `{line}`");
        self.user.run(line)
    }

    fn count_creations(&self, kind: &str, name: &str) -> usize {
        let of = |one: &&Value| one["kind"] == kind && one["name"] == name && one["code"] == 201;
        self.user.writes().iter().filter(of).count()
    }

    fn wait_until(&self, what: &str, is_met: impl Fn() -> bool) {
        assert!((0..3000).any(|_| is_met()), "{what}");
    }

    fn stop(self) {
        self.service.signal("TERM");
        self.service.finish().expect_code(0);
    }
}

impl TutorialUser {
    /// Runs all blocks of a lesson in one shell, as typed.
    #[track_caller]
    fn run_lesson(&self, file: &str) -> CommandOutput {
        let script = blocks(&lesson(file)).concat().join("\n");
        let mut command = Command::new("/bin/bash");
        command
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(self.work())
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.0.path().join("bin").display()))
            .env("HOME", self.0.path())
            .env("USER", "tester")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Running::start(command).finish().expect_code(0)
    }

    /// Returns the number of times the simulated cluster created each hook of the shop.
    fn created_hooks(&self, state: &str) -> Vec<usize> {
        let audit = self.json(&format!("tidegate sim audit -o json --state-dir {state}"));
        let created = |name: &str| {
            let creations = audit.as_array().unwrap().iter().filter(|one| {
                one["kind"] == "Job" && one["name"] == name && one["code"] == 201 && one["dryRun"] == false
            });
            creations.count()
        };
        ["backup", "migrate", "smoke-test"].map(created).to_vec()
    }
}

#[test]
fn lesson_1_deploys_the_shop() {
    let user = TutorialUser::new();
    let ran = user.run_lesson("1-first-sync.md");
    assert_eq!(ran.out.matches("shop: Succeeded in").count(), 2, "{}", ran.out);
    // The two syncs are two operations, and each of them runs its hooks.
    assert_eq!(user.created_hooks("../.local/state/tidegate"), [2, 2, 2]);
}

#[test]
fn lesson_2_runs_each_hook_once_despite_a_kill() {
    let user = TutorialUser::new();
    let ran = user.run_lesson("2-kill-it.md");
    assert!(ran.out.contains("shop: Succeeded"), "{}", ran.out);
    assert_eq!(user.created_hooks("state"), [1, 1, 1]);
}

#[test]
fn lesson_3_deploys_from_git() {
    let (follower, blocks) = ServiceUser::new("3-deploy-from-git.md");
    let [lines, _] = blocks.as_slice() else { panic!("two blocks follow: {blocks:?}") };
    let mut seen = 0;
    for line in lines {
        let before = follower.count_creations("Deployment", "frontend");
        let ran = follower.user.run(line);
        let command = line.split(" #").next().unwrap().trim_end();
        let named = command.split(' ').take(3).collect::<Vec<_>>().join(" ");
        match named.as_str() {
            "tidegate app wait" => {
                for name in command.split(' ').skip(3) {
                    let app = follower.user.json(&format!("tidegate app get {name} -o json"));
                    assert_eq!(app["status"]["sync"]["status"], "Synced", "{name}");
                    assert_eq!(app["status"]["health"]["status"], "Healthy", "{name}");
                }
            }
            "tidegate app list" => {
                for name in ["database", "backend", "frontend"] {
                    let row = ran.out.lines().find(|row| row.starts_with(&format!("{name} ")));
                    let row = row.unwrap_or_else(|| panic!("{}", ran.out));
                    assert!(row.contains("Synced") && row.contains("Healthy"), "{row}");
                }
            }
            "tidegate app get" => {
                assert!(ran.out.contains("fleet") && ran.out.contains("Deployment"), "{}", ran.out);
            }
            "tidegate sim delete" => {
                follower.wait_until("it is put back", || {
                    follower.count_creations("Deployment", "frontend") == before + 1
                });
            }
            "tidegate ops list" => {
                assert!(ran.out.contains("frontend") && ran.out.contains("Succeeded"), "{}", ran.out)
            }
            _ => panic!("no expectation for {command:?}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 5);
    // Afterwards, a new commit is deployed.
    let before = follower.user.json("tidegate app get backend -o json")["status"]["sync"]["revision"].clone();
    let file = follower.user.work().join("fleet/repo/backend/backend.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("greeting: hello", "greeting: good morning")).unwrap();
    follower.run_lesson_command("tidegate example commit fleet/repo");
    follower.run_lesson_command("tidegate app refresh backend");
    follower.wait_until("the new commit is synced", || {
        let status = follower.user.json("tidegate app get backend -o json")["status"].clone();
        let state = &status["operationState"];
        status["sync"]["status"] == "Synced"
            && state["phase"] == "Succeeded"
            && state["syncResult"]["revision"] != before
    });
    follower.stop();
}

#[test]
fn lesson_4_rolls_out_a_fleet_in_order() {
    let (follower, _) = ServiceUser::new("4-roll-out-a-fleet.md");
    let plan = follower.run_lesson_command("tidegate appset plan -f fleet/shops.yaml").out;
    let place = |stage: &str| plan.find(stage).unwrap_or_else(|| panic!("{stage}: {plan}"));
    assert!(place("dev") < place("qa") && place("qa") < place("prod"), "{plan}");
    follower.wait_until("prod waits for an approval", || {
        let told = follower.run_lesson_command("tidegate appset status shops").out;
        told.contains("needs approval: `tidegate appset approve argocd/shops`")
    });
    assert_eq!(follower.user.stages("apply"), ["dev", "qa"]);
    follower.run_lesson_command("tidegate appset approve argocd/shops");
    follower.run_lesson_command(
        "tidegate app wait prod-cart prod-catalog prod-checkout prod-search --timeout 10m",
    );
    follower.run_lesson_command("tidegate appset delete shops --yes");
    // The environments are in the order of the cluster's audit log.
    assert_eq!(follower.user.stages("apply"), ["dev", "qa", "prod"]);
    assert_eq!(follower.user.stages("delete"), ["prod", "qa", "dev"]);
    let left = follower.user.json("tidegate app list -o json");
    let left = left["items"].as_array().unwrap().iter().map(|app| app["metadata"]["name"].as_str().unwrap());
    assert_eq!(left.collect::<Vec<_>>(), ["backend", "database", "frontend"]);
    follower.stop();
}
