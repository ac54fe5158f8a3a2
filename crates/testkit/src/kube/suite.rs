//! Runs the tests of a binary that needs a control plane.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use super::{Assets, KubeError};

type Body = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A test and its name.
pub struct Test {
    name: String,
    body: Body,
    input: Option<PathBuf>,
}

impl Test {
    /// A test that fails by panicking.
    pub fn new<F: Future<Output = ()> + 'static>(
        name: impl Into<String>,
        body: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        Self { name: name.into(), body: Box::new(move || Box::pin(body())), input: None }
    }

    /// It reads a file that is not part of the project; where that is absent, the test is reported as ignored.
    pub fn reading(self, input: PathBuf) -> Self {
        Self { input: Some(input), ..self }
    }
}

/// A list of [`Test`]s from the paths of async functions: `tests![waves::in_order, waves::at_once]`.
#[macro_export]
macro_rules! kube_tests {
    ($($path:path),* $(,)?) => {
        vec![$($crate::kube::suite::Test::new(stringify!($path), || $path())),*]
    };
}

/// How many tests run at once unless `--test-threads` says otherwise: they wait for servers most of the time.
const AT_ONCE: usize = 6;

/// Runs tests, each on a runtime of its own. Understands the arguments of `cargo test`. Without binaries, each test
/// is reported as ignored by its name, or as failed when `TIDEGATE_REQUIRE_KUBE=1`.
pub fn main(tests: Vec<Test>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let missing = if arguments.list { None } else { missing() };
    if let Some(why) = &missing {
        eprintln!("SKIPPED: the Kubernetes suite. {why}");
    }
    let trials = tests.into_iter().map(|test| trial(test, missing.clone())).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Why the tests cannot run.
fn missing() -> Option<String> {
    match Assets::find() {
        Err(error @ KubeError::NoAssets(_)) => Some(error.to_string()),
        // Anything else is for the test to fail with.
        _ => None,
    }
}

fn trial(test: Test, missing: Option<String>) -> Trial {
    let absent = test.input.filter(|input| !input.exists());
    let absent = absent.map(|input| format!("{} is not there", input.display()));
    Trial::ignorable_test(test.name, move || match missing.as_ref().or(absent.as_ref()) {
        // What is beside the project may be absent; a control plane can be had everywhere.
        Some(why) if is_required() && missing.is_some() => Err(Failed::from(why)),
        Some(why) => Ok(Completion::ignored_with(why.lines().next().unwrap_or_default())),
        None => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime starts").block_on((test.body)());
            Ok(Completion::Completed)
        }
    })
}

fn is_required() -> bool {
    std::env::var_os("TIDEGATE_REQUIRE_KUBE").is_some_and(|value| value == "1")
}
