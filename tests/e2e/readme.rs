//! The section "Run it as a service" of the README, as somebody follows it who has the command and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::bench::{Ran, Running};

/// A section of README.md, without its heading.
fn section(heading: &str) -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = fs::read_to_string(readme).unwrap();
    let mut sections =
        text.split("\n## ").filter_map(|section| section.strip_prefix(heading)?.strip_prefix('\n'));
    let found = sections.next().unwrap_or_else(|| panic!("README.md has no section {heading:?}"));
    assert!(sections.next().is_none(), "two sections {heading:?}");
    found.to_owned()
}

/// The lines of its blocks of commands, block by block.
fn blocks(section: &str) -> Vec<Vec<String>> {
    let parts = section.split("```sh\n").skip(1).map(|part| part.split("\n```").next().unwrap());
    parts.map(|block| block.lines().map(str::to_owned).collect()).collect()
}

/// A user with an empty folder, and the command on their PATH.
struct Newcomer(TempDir);

impl Newcomer {
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

    /// What a shell makes of a line; the command takes its place.
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
    fn run(&self, line: &str) -> Ran {
        Running::start(self.command(line)).finish().expect_code(0)
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(line).out).unwrap()
    }

    /// What the simulated cluster was asked to write for good.
    fn writes(&self) -> Vec<Value> {
        let audit = self.json("tidegate sim audit -o json");
        audit.as_array().unwrap().iter().filter(|one| one["dryRun"] == false).cloned().collect()
    }

    /// The stages of the shops in the order in which their Deployments were dealt with.
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

/// One for whom the service is at work.
struct Follower {
    user: Newcomer,
    serving: Running,
    section: String,
}

impl Follower {
    /// Follows the first block, whose last command serves for as long as it lives.
    fn new() -> (Self, Vec<Vec<String>>) {
        let user = Newcomer::new();
        let section = section("Run it as a service");
        let mut blocks = blocks(&section);
        let mut first = blocks.remove(0);
        let serve = first.pop().unwrap();
        assert!(serve.starts_with("tidegate serve ") && !first.is_empty(), "{serve}");
        for line in first {
            user.run(&line);
        }
        let mut serving = Running::start(user.command(&serve));
        serving.await_line("serving");
        (Self { user, serving, section }, blocks)
    }

    /// Runs a command that the section names in a sentence.
    #[track_caller]
    fn told(&self, line: &str) -> Ran {
        assert!(self.section.contains(&format!("`{line}`")), "README.md does not say `{line}`");
        self.user.run(line)
    }

    fn made(&self, kind: &str, name: &str) -> usize {
        let of = |one: &&Value| one["kind"] == kind && one["name"] == name && one["code"] == 201;
        self.user.writes().iter().filter(of).count()
    }

    fn until(&self, what: &str, is_met: impl Fn() -> bool) {
        assert!((0..3000).any(|_| is_met()), "{what}");
    }

    fn end(self) {
        self.serving.signal("TERM");
        self.serving.finish().expect_code(0);
    }
}

#[test]
fn what_is_typed_in_the_other_terminal_does_what_is_said() {
    let (follower, blocks) = Follower::new();
    let [lines] = blocks.as_slice() else { panic!("one block follows: {blocks:?}") };
    let mut seen = 0;
    for line in lines {
        let before = follower.made("Deployment", "frontend");
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
                follower.until("it is put back", || follower.made("Deployment", "frontend") == before + 1);
            }
            "tidegate ops list" => {
                assert!(ran.out.contains("frontend") && ran.out.contains("Succeeded"), "{}", ran.out)
            }
            _ => panic!("nobody says here what {command:?} is to do"),
        }
        seen += 1;
    }
    assert_eq!(seen, 5);
    // And then the new commit.
    let before = follower.user.json("tidegate app get backend -o json")["status"]["sync"]["revision"].clone();
    let file = follower.user.work().join("fleet/repo/backend/backend.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("greeting: hello", "greeting: good morning")).unwrap();
    follower.told("tidegate example commit fleet/repo");
    follower.told("tidegate app refresh backend");
    follower.until("the new commit is synced", || {
        let status = follower.user.json("tidegate app get backend -o json")["status"].clone();
        let state = &status["operationState"];
        status["sync"]["status"] == "Synced"
            && state["phase"] == "Succeeded"
            && state["syncResult"]["revision"] != before
    });
    follower.end();
}

#[test]
fn the_set_waits_for_its_approval_and_goes_in_order() {
    let (follower, _) = Follower::new();
    let plan = follower.told("tidegate appset plan -f fleet/shops.yaml").out;
    let place = |stage: &str| plan.find(stage).unwrap_or_else(|| panic!("{stage}: {plan}"));
    assert!(place("dev") < place("qa") && place("qa") < place("prod"), "{plan}");
    follower.until("prod waits for an approval", || {
        let told = follower.told("tidegate appset status shops").out;
        told.contains("waits for a person: `tidegate appset approve argocd/shops`")
    });
    assert_eq!(follower.user.stages("apply"), ["dev", "qa"]);
    follower.told("tidegate appset approve argocd/shops");
    follower.user.run("tidegate app wait prod-cart prod-catalog prod-checkout prod-search --timeout 10m");
    follower.told("tidegate appset delete shops --yes");
    // As the cluster was asked to.
    assert_eq!(follower.user.stages("apply"), ["dev", "qa", "prod"]);
    assert_eq!(follower.user.stages("delete"), ["prod", "qa", "dev"]);
    let left = follower.user.json("tidegate app list -o json");
    let left = left["items"].as_array().unwrap().iter().map(|app| app["metadata"]["name"].as_str().unwrap());
    assert_eq!(left.collect::<Vec<_>>(), ["backend", "database", "frontend"]);
    follower.end();
}
