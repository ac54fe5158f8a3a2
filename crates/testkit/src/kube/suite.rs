//! Runs the tests of a binary that needs a control plane, on each version of Kubernetes that is here.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use super::assets::{Assets, Inventory};
use crate::effort;

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

/// Why the tests of a version do not run that is here.
const PUT_OFF: &str = "the quick form runs on the newest version here; TIDEGATE_LONG_TESTS=1 runs on all";

/// A version of Kubernetes, and why its tests cannot run.
struct Generation {
    minor: u32,
    absent: Option<String>,
    /// Then they fail.
    is_required: bool,
}

/// Runs tests, each on a runtime of its own, and named with the version it runs on: `1.36::waves::in_order`.
/// Understands the arguments of `cargo test`. The tests of a version that is not here are reported as ignored, each by
/// its name; those of a version that `TIDEGATE_REQUIRE_KUBE` requires as failed. The quick form of the suites runs on the newest
/// version, and on those that are required or that the filter names.
pub fn main(tests: fn() -> Vec<Test>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let inventory = Required::from_environment().and_then(|required| {
        let inventory = Inventory::take().map_err(|error| error.to_string())?;
        Ok((required, inventory))
    });
    let (required, Inventory { here, absent, advice }) = match inventory {
        Ok(inventory) => inventory,
        Err(why) => {
            eprintln!("the Kubernetes suite cannot run: {why}");
            return ExitCode::FAILURE;
        }
    };
    if here.is_empty() {
        eprintln!("SKIPPED: the Kubernetes suite. {advice}");
    }
    let present = |assets: &Assets| Generation { minor: assets.minor(), absent: None, is_required: false };
    let missing = |minor: u32| {
        let why = if here.is_empty() { advice.clone() } else { no_binaries(minor) };
        Generation { minor, absent: Some(why), is_required: required.names(minor) }
    };
    let minors: Vec<u32> = here.iter().map(Assets::minor).collect();
    let mut own: Vec<Generation> = required.absent(&minors, absent).into_iter().map(missing).collect();
    let is_named =
        |minor: u32| arguments.filter.as_deref().is_some_and(|one| one.starts_with(&prefix(minor)));
    let is_due = |minor: u32| {
        effort::is_long()
            || arguments.list
            || required.names(minor)
            || is_named(minor)
            || minors.last() == Some(&minor)
    };
    let (here, put_off): (Vec<Assets>, Vec<Assets>) = here.into_iter().partition(|one| is_due(one.minor()));
    own.extend(
        put_off.iter().map(|assets| Generation { absent: Some(PUT_OFF.to_owned()), ..present(assets) }),
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
    let mut succeeded = others.iter().filter(|one| !run_apart(one)).count() == 0;
    if !own.is_empty() {
        let trials = own.iter().flat_map(|generation| trials(generation, tests()));
        succeeded &= !libtest_mimic::run(&arguments, trials.collect()).has_failed();
    }
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the names of the tests on a version begin with.
fn prefix(minor: u32) -> String {
    format!("1.{minor}::")
}

fn no_binaries(minor: u32) -> String {
    format!("there are no binaries of Kubernetes 1.{minor} on this machine; see scripts/kube-assets")
}

/// Runs the tests on one version in a process of its own, so that its servers are gone before those of the next start.
fn run_apart(assets: &Assets) -> bool {
    println!("\nKubernetes 1.{}", assets.minor());
    let program = std::env::current_exe().expect("the system knows which program this is");
    let status = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env("TIDEGATE_KUBE_ASSETS", assets.folder())
        .env_remove(REQUIRED)
        .status();
    status.expect("this very program starts").success()
}

fn trials(generation: &Generation, tests: Vec<Test>) -> impl Iterator<Item = Trial> + use<'_> {
    let Generation { minor, absent, is_required } = generation;
    tests.into_iter().map(move |test| {
        let name = format!("{}{}", prefix(*minor), test.name);
        trial(Test { name, ..test }, absent.clone(), *is_required)
    })
}

/// `missing`: why there is no control plane.
fn trial(test: Test, missing: Option<String>, is_required: bool) -> Trial {
    let absent = test.input.filter(|input| !input.exists());
    let absent = absent.map(|input| format!("{} is not there", input.display()));
    Trial::ignorable_test(test.name, move || match missing.as_ref().or(absent.as_ref()) {
        // What is beside the project may be absent; a control plane can be had everywhere.
        Some(why) if is_required && missing.is_some() => Err(Failed::from(why)),
        Some(why) => Ok(Completion::ignored_with(why.lines().next().unwrap_or_default())),
        None => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime starts").block_on((test.body)());
            Ok(Completion::Completed)
        }
    })
}

/// Names the versions that must be here.
const REQUIRED: &str = "TIDEGATE_REQUIRE_KUBE";

/// The versions that must be here.
#[derive(Debug, PartialEq, Eq)]
enum Required {
    /// All that the tests are meant for.
    All,
    /// These minor versions.
    Named(Vec<u32>),
}

impl Required {
    fn from_environment() -> Result<Self, String> {
        Self::read(&std::env::var(REQUIRED).unwrap_or_default())
    }

    /// Nothing or `0`, `1` for all, or `1.20,1.36`.
    fn read(text: &str) -> Result<Self, String> {
        let minor = |version: &str| version.strip_prefix("1.")?.parse().ok();
        match text {
            "" | "0" => Ok(Self::Named(Vec::new())),
            "1" => Ok(Self::All),
            list => list.split(',').map(minor).collect::<Option<_>>().map(Self::Named).ok_or_else(|| {
                format!("{REQUIRED} is {list:?}; it must be 1, or versions such as 1.20,1.36")
            }),
        }
    }

    fn names(&self, minor: u32) -> bool {
        match self {
            Self::All => true,
            Self::Named(minors) => minors.contains(&minor),
        }
    }

    /// The versions to report as absent: those that were looked for in vain, and those required that nobody looked for.
    fn absent(&self, here: &[u32], looked_for: Vec<u32>) -> Vec<u32> {
        let mut absent = looked_for;
        if let Self::Named(minors) = self {
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
    fn each_required_version_must_be_here() {
        let (all, both) = (Required::read("1").unwrap(), Required::read("1.20,1.36").unwrap());
        assert!(all.names(20) && all.names(36) && both.names(20) && both.names(36));
        assert!(!Required::read("1.20").unwrap().names(36));
        assert!(!Required::read("").unwrap().names(20) && !Required::read("0").unwrap().names(20));
        // What was looked for in vain is told of in any case.
        assert_eq!(Required::read("").unwrap().absent(&[20], vec![36]), [36]);
        assert_eq!(all.absent(&[20], vec![36]), [36]);
        // Nobody looks for other versions than those named by hand.
        assert_eq!(both.absent(&[20], Vec::new()), [36]);
        assert_eq!(both.absent(&[], vec![20, 36]), [20, 36]);
        assert_eq!(both.absent(&[20, 36], Vec::new()), [0_u32; 0]);
        for wrong in ["yes", "1.20,", "1.20 1.36", "20"] {
            assert!(Required::read(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
