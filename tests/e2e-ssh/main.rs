//! `tidegate serve` with a repository over SSH, using the real `ssh` and a real sshd on loopback with its own
//! keys. The tests read the requests from sshd's log and from the program that sshd runs.
//!
//! If there is no OpenSSH server, each test is reported by name as ignored; with `TIDEGATE_REQUIRE_SSHD=1`,
//! it fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, clippy::disallowed_methods, missing_docs, reason = "tests may panic")]

#[path = "../e2e/bench.rs"]
#[allow(dead_code, reason = "shared with the tests of the command")]
mod bench;

mod repositories;
mod sshd;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// A test and its name.
type Test = (&'static str, fn());

/// Creates a list of tests from the paths of functions.
macro_rules! tests {
    ($($path:path),* $(,)?) => {
        [$((stringify!($path), $path as fn())),*]
    };
}

const REQUIRED: &str = "TIDEGATE_REQUIRE_SSHD";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = sshd::missing_requirement();
    let is_required = std::env::var_os(REQUIRED).is_some_and(|value| !value.is_empty() && value != "0");
    if let Some(missing) = &missing {
        eprintln!("SKIPPED: tests of repositories over SSH. {missing}");
    }
    let trial = |(name, test): Test| {
        let reason = missing.clone().unwrap_or_default();
        let (is_absent, name) = (missing.is_some(), name.to_owned());
        let shown = if is_absent && !is_required { format!("{name} (no sshd)") } else { name };
        let run = move || {
            if is_absent {
                return Err(Failed::from(reason));
            }
            test();
            Ok(())
        };
        Trial::test(shown, run).with_ignored_flag(is_absent && !is_required)
    };
    libtest_mimic::run(&arguments, tests().into_iter().map(trial).collect()).exit_code()
}

fn tests() -> Vec<Test> {
    tests![
        repositories::a_push_is_synced_with_any_git_protocol,
        repositories::a_host_behind_a_proxy_is_reached_and_its_key_is_checked,
        repositories::a_wrong_or_unknown_host_key_is_refused_and_nothing_is_applied,
        repositories::a_key_that_the_server_refuses_is_named_by_its_secret,
    ]
    .to_vec()
}
