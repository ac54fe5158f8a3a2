//! Test runner for binaries that need a control plane. Runs the tests on each available version of
//! Kubernetes.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use super::assets::{AssetInventory, Assets};
use crate::effort;

type Body = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Test and its name.
pub struct Test {
    name: String,
    body: Body,
    input: Option<PathBuf>,
}

impl Test {
    /// Creates a test that fails by panicking.
    pub fn new<F: Future<Output = ()> + 'static>(
        name: impl Into<String>,
        body: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        Self { name: name.into(), body: Box::new(move || Box::pin(body())), input: None }
    }

    /// Declares an input file outside the project. Without it, the test is reported as ignored.
    pub fn with_input(self, input: PathBuf) -> Self {
        Self { input: Some(input), ..self }
    }
}

/// Creates a list of [`Test`]s from the paths of async functions: `tests![waves::in_order, waves::at_once]`.
#[macro_export]
macro_rules! kube_tests {
    ($($path:path),* $(,)?) => {
        vec![$($crate::kube::suite::Test::new(stringify!($path), || $path())),*]
    };
}

/// Number of concurrent tests unless `--test-threads` is set. Tests mostly wait for servers.
const CONCURRENT_TESTS: usize = 6;

/// Maximum time of one test. A test that waits for something that never happens fails under its name.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Reason for not running the tests on an available version.
const DEFERRED_REASON: &str =
    "the quick form runs on the newest version here; TIDEGATE_LONG_TESTS=1 runs on all";

/// Version of Kubernetes, and the reason tests can't run on it, if any.
struct TestedVersion {
    minor: u32,
    skip_reason: Option<String>,
    /// True if tests must fail when they can't run.
    is_required: bool,
}

/// Runs tests, each on its own runtime and with the version in its name, such as `1.36::waves::in_order`.
/// Accepts the arguments of `cargo test`. Tests of a missing version are reported as ignored, or as failed if
/// `TIDEGATE_REQUIRE_KUBE` requires it. The quick form of the suites runs on the newest version, and on
/// versions that are required or named in the filter.
pub fn main(tests: fn() -> Vec<Test>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CONCURRENT_TESTS);
    let inventory = RequiredVersions::from_environment().and_then(|required| {
        let inventory = AssetInventory::find().map_err(|error| error.to_string())?;
        Ok((required, inventory))
    });
    let (required, AssetInventory { available, missing: absent, instructions }) = match inventory {
        Ok(inventory) => inventory,
        Err(reason) => {
            eprintln!("the Kubernetes suite cannot run: {reason}");
            return ExitCode::FAILURE;
        }
    };
    if available.is_empty() {
        eprintln!("SKIPPED: the Kubernetes suite. {instructions}");
    }
    let present =
        |assets: &Assets| TestedVersion { minor: assets.minor(), skip_reason: None, is_required: false };
    let missing = |minor: u32| {
        let reason =
            if available.is_empty() { instructions.clone() } else { missing_binaries_message(minor) };
        TestedVersion { minor, skip_reason: Some(reason), is_required: required.is_required(minor) }
    };
    let minors: Vec<u32> = available.iter().map(Assets::minor).collect();
    let mut own: Vec<TestedVersion> =
        required.missing_versions(&minors, absent).into_iter().map(missing).collect();
    let is_named =
        |minor: u32| arguments.filter.as_deref().is_some_and(|one| one.starts_with(&version_prefix(minor)));
    let is_due = |minor: u32| {
        effort::is_long()
            || arguments.list
            || required.is_required(minor)
            || is_named(minor)
            || minors.last() == Some(&minor)
    };
    let (here, put_off): (Vec<Assets>, Vec<Assets>) =
        available.into_iter().partition(|one| is_due(one.minor()));
    own.extend(
        put_off
            .iter()
            .map(|assets| TestedVersion { skip_reason: Some(DEFERRED_REASON.to_owned()), ..present(assets) }),
    );
    let others = match &here[..] {
        [] => &[],
        _ if arguments.list => {
            own.extend(here.iter().map(present));
            &[][..]
        }
        [only] if own.is_empty() => {
            own.push(present(only));
            &[]
        }
        several => several,
    };
    let mut succeeded = others.iter().filter(|one| !run_in_subprocess(one)).count() == 0;
    if !own.is_empty() {
        let trials = own.iter().flat_map(|generation| build_trials(generation, tests()));
        succeeded &= !libtest_mimic::run(&arguments, trials.collect()).has_failed();
    }
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the name prefix of this version's tests.
fn version_prefix(minor: u32) -> String {
    format!("1.{minor}::")
}

fn missing_binaries_message(minor: u32) -> String {
    format!("the binaries of Kubernetes 1.{minor} are missing; run scripts/kube-assets --build")
}

/// Runs the tests on a version in a separate process, so that its servers exit before the next version's
/// start.
fn run_in_subprocess(assets: &Assets) -> bool {
    println!("\nKubernetes 1.{}", assets.minor());
    let program = std::env::current_exe().expect("the path of this executable is known");
    let status = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env("TIDEGATE_KUBE_ASSETS", assets.folder())
        .env_remove(REQUIRED_VARIABLE)
        .status();
    status.expect("this program starts again").success()
}

fn build_trials(generation: &TestedVersion, tests: Vec<Test>) -> impl Iterator<Item = Trial> + use<'_> {
    let TestedVersion { minor, skip_reason, is_required } = generation;
    tests.into_iter().map(move |test| {
        let name = format!("{}{}", version_prefix(*minor), test.name);
        build_trial(Test { name, ..test }, skip_reason.clone(), *is_required)
    })
}

/// Creates the trial for a test. If there is no control plane, or tests on its version are deferred,
/// `missing` says why.
fn build_trial(test: Test, missing: Option<String>, is_required: bool) -> Trial {
    let absent = test.input.filter(|input| !input.exists());
    let absent = absent.map(|input| format!("{} does not exist", input.display()));
    Trial::ignorable_test(test.name, move || match missing.as_ref().or(absent.as_ref()) {
        // Only a missing control plane is an error, because it can be installed anywhere. Input files outside
        // the project may be missing.
        Some(why) if is_required && missing.is_some() => Err(Failed::from(why)),
        Some(why) => Ok(Completion::ignored_with(why.lines().next().unwrap_or_default())),
        None => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let body = async { tokio::time::timeout(TIMEOUT, (test.body)()).await };
            match runtime.expect("the runtime starts").block_on(body) {
                Ok(()) => Ok(Completion::Completed),
                Err(_) => Err(Failed::from(format!("the test has not finished after {TIMEOUT:?}"))),
            }
        }
    })
}

/// Environment variable with the required versions.
const REQUIRED_VARIABLE: &str = "TIDEGATE_REQUIRE_KUBE";

/// The required versions.
#[derive(Debug, PartialEq, Eq)]
enum RequiredVersions {
    /// All tested versions.
    All,
    /// The listed minor versions.
    Listed(Vec<u32>),
}

impl RequiredVersions {
    fn from_environment() -> Result<Self, String> {
        Self::parse(&std::env::var(REQUIRED_VARIABLE).unwrap_or_default())
    }

    /// Parses an empty string or `0` (no version), `1` (all versions), or a list such as `1.20,1.36`.
    fn parse(text: &str) -> Result<Self, String> {
        let minor = |version: &str| version.strip_prefix("1.")?.parse().ok();
        match text {
            "" | "0" => Ok(Self::Listed(Vec::new())),
            "1" => Ok(Self::All),
            list => list.split(',').map(minor).collect::<Option<_>>().map(Self::Listed).ok_or_else(|| {
                format!("invalid {REQUIRED_VARIABLE} {list:?}: use 1, or versions such as 1.20,1.36")
            }),
        }
    }

    fn is_required(&self, minor: u32) -> bool {
        match self {
            Self::All => true,
            Self::Listed(minors) => minors.contains(&minor),
        }
    }

    /// Returns the versions to report as missing: those not found, and required ones that weren't searched
    /// for.
    fn missing_versions(&self, here: &[u32], looked_for: Vec<u32>) -> Vec<u32> {
        let mut absent = looked_for;
        if let Self::Listed(minors) = self {
            absent.extend(minors.iter().filter(|minor| !here.contains(minor)));
        }
        absent.sort_unstable();
        absent.dedup();
        absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_required_version_must_be_available() {
        let (all, both) =
            (RequiredVersions::parse("1").unwrap(), RequiredVersions::parse("1.20,1.36").unwrap());
        assert!(all.is_required(20) && all.is_required(36) && both.is_required(20) && both.is_required(36));
        assert!(!RequiredVersions::parse("1.20").unwrap().is_required(36));
        assert!(
            !RequiredVersions::parse("").unwrap().is_required(20)
                && !RequiredVersions::parse("0").unwrap().is_required(20)
        );
        // A version that wasn't found is always reported.
        assert_eq!(RequiredVersions::parse("").unwrap().missing_versions(&[20], vec![36]), [36]);
        assert_eq!(all.missing_versions(&[20], vec![36]), [36]);
        // Only explicitly named versions are searched for.
        assert_eq!(both.missing_versions(&[20], Vec::new()), [36]);
        assert_eq!(both.missing_versions(&[], vec![20, 36]), [20, 36]);
        assert_eq!(both.missing_versions(&[20, 36], Vec::new()), [0_u32; 0]);
        for wrong in ["yes", "1.20,", "1.20 1.36", "20"] {
            assert!(RequiredVersions::parse(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
