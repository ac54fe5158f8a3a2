//! A program that gives credentials for a cluster (`client.authentication.k8s.io`), as the Secret of that cluster names it.
//!
//! It is run without a shell, with little of our environment, and with limits. Nothing that it prints shows.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::json;
use tidegate_model::Timestamp;
use tidegate_program::{Limits, Over, Ran, RunError, run};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The versions of what it is asked and answers.
pub(crate) const VERSIONS: [&str; 2] =
    ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
const KIND: &str = "ExecCredential";
/// What of our environment it sees, beside what the Secret gives it.
const KEPT: [&str; 2] = ["HOME", "PATH"];
/// Tells the program what is wanted of it.
const INFO: &str = "KUBERNETES_EXEC_INFO";
/// Credentials are asked for again so long before they end.
const BEFORE_END: Duration = Duration::from_secs(30);
/// One that has failed is not run again before; meanwhile everybody is told how it failed.
const FAILED_FOR: Duration = Duration::from_secs(5);

/// What a program may take. Those of clouds are large: some bring an interpreter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) time: Duration,
    pub(crate) limits: Limits,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { time: Duration::from_secs(30), limits: Limits { memory: 512 << 20, output: 256 << 10 } }
    }
}

/// How a program is called. Shows nothing of its arguments and its environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ExecProvider {
    /// The Secret that names it.
    pub secret: String,
    /// The program: a name on the `PATH`, or an absolute path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What it has in its environment.
    pub env: BTreeMap<String, String>,
    /// The version of what it answers.
    pub api_version: String,
    /// What people are told where it is not there.
    pub install_hint: String,
}

impl fmt::Debug for ExecProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecProvider")
            .field("secret", &self.secret)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

/// Why a program has given nothing.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the program {command:?} that Secret {secret} names for credentials {why}")]
pub(crate) struct PluginError {
    secret: String,
    command: String,
    why: Why,
}

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Why {
    #[error("is not there; {0}")]
    Absent(String),
    #[error("gave none: {0}")]
    Ended(#[from] RunError),
    #[error("failed ({0}); what it says is not shown, because it may hold a token")]
    Failed(std::process::ExitStatus),
    #[error("did not print an ExecCredential as JSON; its answer is not shown, because it may hold a token")]
    NoJson,
    #[error("did not print an {KIND} of the version that the Secret asks for ({0})")]
    Another(String),
    #[error("gave neither a token nor a certificate with its key")]
    Nothing,
    #[error("gave a token that cannot be sent")]
    Unsendable,
    #[error("gave an expirationTimestamp that is no time")]
    End,
    #[error("met a fault in Tidegate; it is run again")]
    Fault,
}

/// What a program has given. Shows nothing of it.
#[derive(PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) token: String,
    /// As PEM.
    pub(crate) certificate: String,
    pub(crate) key: String,
    ends: Option<Timestamp>,
}

impl Given {
    /// Whether it is time for another.
    pub(crate) fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| now() + BEFORE_END >= ends)
    }
}

/// The moment by the clock of the machine, which is what credentials end by.
fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "credentials end at a time of the clock, however long a process sleeps"
    )]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A program, and what it has given last: for all connections to a cluster.
#[derive(Clone)]
pub struct Plugin(Arc<Kept>);

struct Kept {
    provider: ExecProvider,
    bounds: Bounds,
    /// Held while it runs: whoever comes meanwhile takes what it gives then.
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    given: Option<Arc<Given>>,
    failed: Option<(Instant, PluginError)>,
}

impl PartialEq for Plugin {
    fn eq(&self, other: &Self) -> bool {
        self.0.provider == other.0.provider
    }
}

impl Eq for Plugin {}

impl Plugin {
    /// Nothing is run yet.
    pub fn new(provider: ExecProvider) -> Self {
        Self::with(provider, Bounds::default())
    }

    pub(crate) fn with(provider: ExecProvider, bounds: Bounds) -> Self {
        Self(Arc::new(Kept { provider, bounds, last: Mutex::default() }))
    }

    /// How it is called.
    pub fn provider(&self) -> &ExecProvider {
        &self.0.provider
    }

    /// Credentials that are good for now: those it has given last, but for those that were refused. Who stops waiting ends no
    /// run, so that a slow program is not begun again and again.
    pub(crate) async fn credentials(&self, refused: Option<&Arc<Given>>) -> Result<Arc<Given>, PluginError> {
        let (kept, refused) = (Arc::clone(&self.0), refused.cloned());
        let asking = tokio::spawn(async move { kept.credentials(refused).await });
        asking.await.unwrap_or_else(|_| Err(self.0.error(Why::Fault)))
    }
}

impl Kept {
    async fn credentials(self: Arc<Self>, refused: Option<Arc<Given>>) -> Result<Arc<Given>, PluginError> {
        let mut last = self.last.lock().await;
        let is_refused = |given: &Arc<Given>| refused.as_ref().is_some_and(|one| Arc::ptr_eq(given, one));
        if let Some(given) = last.given.as_ref().filter(|given| !given.is_over() && !is_refused(given)) {
            return Ok(Arc::clone(given));
        }
        if let Some((_, error)) = last.failed.as_ref().filter(|(at, _)| at.elapsed() < FAILED_FOR) {
            return Err(error.clone());
        }
        let kept = Arc::clone(&self);
        let running = tokio::task::spawn_blocking(move || kept.ask()).await;
        let made = running.unwrap_or_else(|_| Err(self.error(Why::Fault))).map(Arc::new);
        *last = match &made {
            Ok(given) => Last { given: Some(Arc::clone(given)), failed: None },
            Err(error) => Last { given: None, failed: Some((Instant::now(), error.clone())) },
        };
        made
    }

    fn error(&self, why: Why) -> PluginError {
        let ExecProvider { secret, command, .. } = &self.provider;
        PluginError { secret: secret.clone(), command: command.clone(), why }
    }

    fn ask(&self) -> Result<Given, PluginError> {
        let printed = self.run().map_err(|why| self.error(why))?;
        read(&self.provider.api_version, &printed).map_err(|why| self.error(why))
    }

    fn command(&self) -> Result<Command, Why> {
        let ExecProvider { command, args, env, api_version, install_hint, .. } = &self.provider;
        let program = find(command).ok_or_else(|| match install_hint.trim() {
            "" => Why::Absent("install it on the PATH of `tidegate serve`".to_owned()),
            hint => Why::Absent(hint.to_owned()),
        })?;
        let info = json!({"kind": KIND, "apiVersion": api_version, "spec": {"interactive": false}});
        let mut command = Command::new(program);
        command.args(args).current_dir("/").env_clear();
        command.envs(KEPT.iter().filter_map(|name| Some((name, env::var_os(name)?))));
        command.envs(env).env(INFO, info.to_string());
        Ok(command)
    }

    /// Runs it to its end; what it prints. What it says of itself may hold anything, and is dropped.
    fn run(&self) -> Result<Vec<u8>, Why> {
        let Bounds { time, limits } = self.bounds;
        let begun = Instant::now();
        let over = || (begun.elapsed() >= time).then_some(Over::Late(time));
        let Ran { status, output, .. } = run(&mut self.command()?, &limits, over)?;
        if status.success() { Ok(output) } else { Err(Why::Failed(status)) }
    }
}

/// An absolute path, or the first program of that name on our `PATH`.
fn find(command: &str) -> Option<PathBuf> {
    let path = Path::new(command);
    if path.is_absolute() {
        return path.is_file().then(|| path.to_owned());
    }
    if command.contains('/') {
        return None;
    }
    let folders = env::var_os("PATH")?;
    let mut folders = env::split_paths(&folders).filter(|folder| folder.is_absolute());
    folders.find_map(|folder| Some(folder.join(command)).filter(|program| program.is_file()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

fn read(version: &str, printed: &[u8]) -> Result<Given, Why> {
    // The words of the parser may hold what it has read.
    let Answer { api_version, kind, status } = serde_json::from_slice(printed).map_err(|_| Why::NoJson)?;
    if kind != KIND || api_version != version {
        return Err(Why::Another(version.to_owned()));
    }
    let status = status.unwrap_or_default();
    let token = status.token.unwrap_or_default();
    let certificate = status.client_certificate_data.unwrap_or_default();
    let key = status.client_key_data.unwrap_or_default();
    if certificate.is_empty() != key.is_empty() || (token.is_empty() && key.is_empty()) {
        return Err(Why::Nothing);
    }
    if !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(Why::Unsendable);
    }
    let ends = status.expiration_timestamp.filter(|text| !text.is_empty());
    let ends = ends.map(|text| text.parse()).transpose().map_err(|_| Why::End)?;
    Ok(Given { token, certificate, key, ends })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    const V1: &str = VERSIONS[0];

    fn plugin(script: &str) -> Plugin {
        let provider = ExecProvider {
            secret: "argocd/staging".to_owned(),
            command: "sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]),
            api_version: V1.to_owned(),
            install_hint: String::new(),
        };
        let limits = Limits { memory: 1 << 30, output: 4 << 10 };
        Plugin::with(provider, Bounds { time: Duration::from_secs(60), limits })
    }

    fn says(status: &str) -> String {
        format!("echo '{{\"kind\": \"{KIND}\", \"apiVersion\": \"{V1}\", \"status\": {status}}}'")
    }

    async fn refused(plugin: Plugin) -> String {
        let error = plugin.credentials(None).await.err().unwrap().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(error.contains("that Secret argocd/staging names"), "{error}");
        error
    }

    #[tokio::test]
    async fn what_is_no_answer_is_named_and_no_token_shows() {
        for (script, words) in [
            (
                "echo hunter2".to_owned(),
                "\"sh\" that Secret argocd/staging names for credentials did not print an ExecCredential as JSON",
            ),
            ("echo '[\"hunter2\"]'".to_owned(), "did not print an ExecCredential as JSON"),
            (says("{\"token\": [\"hunter2\"]}"), "did not print an ExecCredential as JSON"),
            (
                "echo '{\"kind\": \"Secret\", \"status\": {\"token\": \"hunter2\"}}'".to_owned(),
                "did not print an ExecCredential of the version",
            ),
            (
                says("{\"token\": \"hunter2\"}").replace("/v1\"", "/v1beta1\""),
                "of the version that the Secret asks for",
            ),
            (says("{}"), "neither a token nor a certificate"),
            (says("null"), "neither a token nor a certificate"),
            (says("{\"token\": \"\"}"), "neither a token nor a certificate"),
            (says("{\"clientKeyData\": \"hunter2\"}"), "neither a token nor a certificate"),
            (says("{\"token\": \"hunter2 \\u0007\"}"), "cannot be sent"),
            (
                says("{\"token\": \"hunter2\", \"expirationTimestamp\": \"soon\"}"),
                "expirationTimestamp that is no time",
            ),
            ("echo hunter2; echo hunter2 >&2; exit 3".to_owned(), "failed (exit status: 3)"),
            ("while true; do echo hunter2; done".to_owned(), "gave none: it printed more than 4 KiB"),
        ] {
            let error = refused(plugin(&script)).await;
            assert!(error.contains(words), "{script}: {error}");
        }
        for command in ["nothing-of-this-name", "/nowhere/login", "relative/login"] {
            let provider = ExecProvider { command: command.to_owned(), ..plugin("").provider().clone() };
            assert!(
                refused(Plugin::new(provider.clone())).await.contains("is not there; install it on the PATH")
            );
            let hinted = ExecProvider { install_hint: "ask Ann for it".to_owned(), ..provider };
            assert!(refused(Plugin::new(hinted)).await.ends_with("is not there; ask Ann for it"));
        }
    }

    #[tokio::test]
    async fn one_that_hangs_is_ended() {
        let hangs = plugin("sleep 3600");
        let bounds = Bounds { time: Duration::from_millis(300), ..hangs.0.bounds };
        let error = refused(Plugin::with(hangs.provider().clone(), bounds)).await;
        assert!(error.ends_with("gave none: it was not over after 0.3 s, and was ended"), "{error}");
    }

    #[tokio::test]
    async fn it_sees_what_the_secret_gives_it_and_little_else() {
        let script = format!(
            "test \"$CARGO_MANIFEST_DIR\" = '' && test -n \"$PATH\" && test \"$(pwd)\" = / || exit 7; \
             case \"$KUBERNETES_EXEC_INFO\" in *'\"interactive\":false'*) ;; *) exit 8;; esac; \
             printf '{{\"kind\": \"{KIND}\", \"apiVersion\": \"{V1}\", \"status\": {{\"token\": \"%s\"}}}}' \"$TOKEN\""
        );
        let given = plugin(&script).credentials(None).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((given.token.as_str(), given.is_over()), ("hunter2", false));
    }

    #[tokio::test]
    async fn it_is_run_again_when_what_it_gave_has_ended_or_was_refused() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        // Each time another token; good until then.
        let counting = |ends: &str| {
            let script = format!(
                "echo x >> {0}; n=$(wc -l < {0}); {1}",
                count.display(),
                says(&format!("{{\"token\": \"t'$n'\", \"expirationTimestamp\": \"{ends}\"}}"))
            );
            plugin(&script)
        };
        let plugin = counting("2999-01-01T00:00:00Z");
        let first = plugin.credentials(None).await.unwrap_or_else(|error| panic!("{error}"));
        let same = plugin.clone().credentials(None).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(first.token == "t1" && Arc::ptr_eq(&first, &same));
        // Whoever was refused first has it run; whoever comes after takes what was given then.
        let (one, two) = tokio::join!(plugin.credentials(Some(&first)), plugin.credentials(Some(&first)));
        let tokens = [one, two].map(|given| given.unwrap_or_else(|error| panic!("{error}")).token.clone());
        assert_eq!(tokens, ["t2", "t2"]);
        let plugin = counting("2020-01-01T00:00:00Z");
        for expected in ["t3", "t4"] {
            let given = plugin.credentials(None).await.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((given.token.as_str(), given.is_over()), (expected, true));
        }
    }

    #[tokio::test]
    async fn who_stops_waiting_ends_no_run_and_begins_no_second_one() {
        let dir = tempfile::tempdir().unwrap();
        let (count, go) = (dir.path().join("count"), dir.path().join("go"));
        let script = format!(
            "echo x >> {}; while [ ! -e {} ]; do :; done; {}",
            count.display(),
            go.display(),
            says("{\"token\": \"t\"}")
        );
        let slow = plugin(&script);
        let mut asking = Box::pin(slow.credentials(None));
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(asking);
        std::fs::write(&go, "").unwrap();
        assert_eq!(slow.credentials(None).await.unwrap_or_else(|error| panic!("{error}")).token, "t");
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
    }

    #[tokio::test]
    async fn many_are_told_of_one_failure() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let failing = plugin(&format!("echo x >> {}; exit 3", count.display()));
        let asked = futures_util::future::join_all((0..8).map(|_| failing.credentials(None))).await;
        assert!(asked.iter().all(Result::is_err));
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
    }
}
