//! Credential programs (`client.authentication.k8s.io`), configured in a cluster's Secret.
//!
//! A program runs without a shell, in a reduced environment, and with resource limits. Its output is never
//! displayed.

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
use tidegate_program::{Limits, ProgramOutput, RunError, StopReason, run};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Supported versions of the protocol.
pub(crate) const API_VERSIONS: [&str; 2] =
    ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
const KIND: &str = "ExecCredential";
/// Environment variables that the program inherits from Tidegate, in addition to those in the Secret.
const INHERITED_VARIABLES: [&str; 2] = ["HOME", "PATH"];
/// Environment variable with the request to the program.
const EXEC_INFO_VARIABLE: &str = "KUBERNETES_EXEC_INFO";
/// Time before expiry to renew credentials.
const RENEW_BEFORE_EXPIRY: Duration = Duration::from_secs(30);
/// Delay before running a failed program again. Until then, everyone gets its error.
const FAILURE_DELAY: Duration = Duration::from_secs(5);

/// Resource limits for a program. Generous, because the programs of cloud providers are large and may include
/// an interpreter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    pub(crate) timeout: Duration,
    pub(crate) limits: Limits,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), limits: Limits { memory: 512 << 20, output: 256 << 10 } }
    }
}

/// Settings for running a credential program. Its `Debug` output omits the arguments and the environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ExecProvider {
    /// Secret that configures the program.
    pub secret: String,
    /// Program name to look up on the `PATH`, or an absolute path.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// API version of the program's output.
    pub api_version: String,
    /// Hint to show if the program isn't installed.
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

/// Error from a credential program.
#[derive(Clone, Debug, thiserror::Error)]
#[error("credential program {command:?} in Secret {secret} {why}")]
pub(crate) struct PluginError {
    secret: String,
    command: String,
    why: PluginFailure,
}

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum PluginFailure {
    #[error("was not found; {0}")]
    NotFound(String),
    #[error("returned no credentials: {0}")]
    RunFailed(#[from] RunError),
    #[error("failed ({0}); its output is hidden because it may contain a token")]
    ExitFailure(std::process::ExitStatus),
    #[error("did not print an ExecCredential as JSON; its output is hidden because it may contain a token")]
    InvalidJson,
    #[error("did not print an {KIND} of the requested version ({0})")]
    WrongVersion(String),
    #[error("returned neither a token nor a certificate with its key")]
    NoCredentials,
    #[error("returned a token with characters that are not allowed in an HTTP header")]
    InvalidToken,
    #[error("returned an invalid expirationTimestamp")]
    InvalidExpiry,
    #[error("could not be run because of an internal error in Tidegate; it will be retried")]
    Internal,
}

/// Credentials from a program. Their `Debug` output omits the values.
#[derive(PartialEq, Eq)]
pub(crate) struct ProgramCredentials {
    pub(crate) token: String,
    /// Certificate as PEM.
    pub(crate) certificate: String,
    pub(crate) key: String,
    expires_at: Option<Timestamp>,
}

impl ProgramCredentials {
    /// Returns true if the credentials need to be renewed.
    pub(crate) fn is_expired(&self) -> bool {
        self.expires_at.is_some_and(|ends| now() + RENEW_BEFORE_EXPIRY >= ends)
    }
}

/// Returns the current wall-clock time, used to check the expiry of credentials.
fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "credentials expire at a wall-clock time")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Credential program and its latest credentials, shared by all connections to a cluster.
#[derive(Clone)]
pub struct ExecPlugin(Arc<PluginState>);

struct PluginState {
    provider: ExecProvider,
    limits: RunLimits,
    /// Locked while the program runs, so that concurrent callers share the result.
    last_run: Mutex<LastRun>,
}

#[derive(Default)]
struct LastRun {
    credentials: Option<Arc<ProgramCredentials>>,
    failure: Option<(Instant, PluginError)>,
}

impl PartialEq for ExecPlugin {
    fn eq(&self, other: &Self) -> bool {
        self.0.provider == other.0.provider
    }
}

impl Eq for ExecPlugin {}

impl ExecPlugin {
    /// Creates the plugin without running the program.
    pub fn new(provider: ExecProvider) -> Self {
        Self::with_limits(provider, RunLimits::default())
    }

    pub(crate) fn with_limits(provider: ExecProvider, limits: RunLimits) -> Self {
        Self(Arc::new(PluginState { provider, limits, last_run: Mutex::default() }))
    }

    /// Returns the settings for running the program.
    pub fn provider(&self) -> &ExecProvider {
        &self.0.provider
    }

    /// Returns valid credentials. Reuses the latest ones unless they have expired or the server has refused
    /// them. Dropping the future doesn't stop the program, so that a slow one isn't restarted over and over.
    pub(crate) async fn credentials(
        &self,
        refused: Option<&Arc<ProgramCredentials>>,
    ) -> Result<Arc<ProgramCredentials>, PluginError> {
        let (state, refused) = (Arc::clone(&self.0), refused.cloned());
        let asking = tokio::spawn(async move { state.credentials(refused).await });
        asking.await.unwrap_or_else(|_| Err(self.0.plugin_error(PluginFailure::Internal)))
    }
}

impl PluginState {
    async fn credentials(
        self: Arc<Self>,
        refused: Option<Arc<ProgramCredentials>>,
    ) -> Result<Arc<ProgramCredentials>, PluginError> {
        let mut last = self.last_run.lock().await;
        let is_refused = |credentials: &Arc<ProgramCredentials>| {
            refused.as_ref().is_some_and(|one| Arc::ptr_eq(credentials, one))
        };
        if let Some(credentials) = last
            .credentials
            .as_ref()
            .filter(|credentials| !credentials.is_expired() && !is_refused(credentials))
        {
            return Ok(Arc::clone(credentials));
        }
        if let Some((_, error)) = last.failure.as_ref().filter(|(at, _)| at.elapsed() < FAILURE_DELAY) {
            return Err(error.clone());
        }
        let state = Arc::clone(&self);
        let running = tokio::task::spawn_blocking(move || state.fetch_credentials()).await;
        let result =
            running.unwrap_or_else(|_| Err(self.plugin_error(PluginFailure::Internal))).map(Arc::new);
        *last = match &result {
            Ok(credentials) => LastRun { credentials: Some(Arc::clone(credentials)), failure: None },
            Err(error) => LastRun { credentials: None, failure: Some((Instant::now(), error.clone())) },
        };
        result
    }

    fn plugin_error(&self, why: PluginFailure) -> PluginError {
        let ExecProvider { secret, command, .. } = &self.provider;
        PluginError { secret: secret.clone(), command: command.clone(), why }
    }

    fn fetch_credentials(&self) -> Result<ProgramCredentials, PluginError> {
        let printed = self.run_program().map_err(|reason| self.plugin_error(reason))?;
        parse_credentials(&self.provider.api_version, &printed).map_err(|reason| self.plugin_error(reason))
    }

    fn build_command(&self) -> Result<Command, PluginFailure> {
        let ExecProvider { command, args, env, api_version, install_hint, .. } = &self.provider;
        let program = find_program(command).ok_or_else(|| match install_hint.trim() {
            "" => PluginFailure::NotFound(
                "install it in a directory on the PATH of `tidegate serve`".to_owned(),
            ),
            hint => PluginFailure::NotFound(hint.to_owned()),
        })?;
        let info = json!({"kind": KIND, "apiVersion": api_version, "spec": {"interactive": false}});
        let mut command = Command::new(program);
        command.args(args).current_dir("/").env_clear();
        command.envs(INHERITED_VARIABLES.iter().filter_map(|name| Some((name, env::var_os(name)?))));
        command.envs(env).env(EXEC_INFO_VARIABLE, info.to_string());
        Ok(command)
    }

    /// Runs the program to completion and returns its output. Standard error may contain secrets and is
    /// discarded.
    fn run_program(&self) -> Result<Vec<u8>, PluginFailure> {
        let RunLimits { timeout, limits } = self.limits;
        let started = Instant::now();
        let stop = || (started.elapsed() >= timeout).then_some(StopReason::Timeout(timeout));
        let ProgramOutput { status, stdout, .. } = run(&mut self.build_command()?, &limits, stop)?;
        if status.success() { Ok(stdout) } else { Err(PluginFailure::ExitFailure(status)) }
    }
}

/// Returns `command` if it is an absolute path, or else the first match on Tidegate's `PATH`.
fn find_program(command: &str) -> Option<PathBuf> {
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
struct ExecCredential {
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

fn parse_credentials(version: &str, printed: &[u8]) -> Result<ProgramCredentials, PluginFailure> {
    // Don't quote the parser's message: it may contain the input.
    let ExecCredential { api_version, kind, status } =
        serde_json::from_slice(printed).map_err(|_| PluginFailure::InvalidJson)?;
    if kind != KIND || api_version != version {
        return Err(PluginFailure::WrongVersion(version.to_owned()));
    }
    let status = status.unwrap_or_default();
    let token = status.token.unwrap_or_default();
    let certificate = status.client_certificate_data.unwrap_or_default();
    let key = status.client_key_data.unwrap_or_default();
    if certificate.is_empty() != key.is_empty() || (token.is_empty() && key.is_empty()) {
        return Err(PluginFailure::NoCredentials);
    }
    if !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(PluginFailure::InvalidToken);
    }
    let ends = status.expiration_timestamp.filter(|text| !text.is_empty());
    let expires_at = ends.map(|text| text.parse()).transpose().map_err(|_| PluginFailure::InvalidExpiry)?;
    Ok(ProgramCredentials { token, certificate, key, expires_at })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    const V1: &str = API_VERSIONS[0];

    fn script_plugin(script: &str) -> ExecPlugin {
        let provider = ExecProvider {
            secret: "argocd/staging".to_owned(),
            command: "sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]),
            api_version: V1.to_owned(),
            install_hint: String::new(),
        };
        let limits = Limits { memory: 1 << 30, output: 4 << 10 };
        ExecPlugin::with_limits(provider, RunLimits { timeout: Duration::from_secs(60), limits })
    }

    fn script_that_prints(status: &str) -> String {
        format!("echo '{{\"kind\": \"{KIND}\", \"apiVersion\": \"{V1}\", \"status\": {status}}}'")
    }

    async fn credentials_error(plugin: ExecPlugin) -> String {
        let error = plugin.credentials(None).await.err().unwrap().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(error.contains("in Secret argocd/staging"), "{error}");
        error
    }

    #[tokio::test]
    async fn invalid_output_is_named_and_no_token_is_displayed() {
        for (script, text) in [
            (
                "echo hunter2".to_owned(),
                "\"sh\" in Secret argocd/staging did not print an ExecCredential as JSON",
            ),
            ("echo '[\"hunter2\"]'".to_owned(), "did not print an ExecCredential as JSON"),
            (script_that_prints("{\"token\": [\"hunter2\"]}"), "did not print an ExecCredential as JSON"),
            (
                "echo '{\"kind\": \"Secret\", \"status\": {\"token\": \"hunter2\"}}'".to_owned(),
                "did not print an ExecCredential of the requested version",
            ),
            (
                script_that_prints("{\"token\": \"hunter2\"}").replace("/v1\"", "/v1beta1\""),
                "of the requested version",
            ),
            (script_that_prints("{}"), "neither a token nor a certificate"),
            (script_that_prints("null"), "neither a token nor a certificate"),
            (script_that_prints("{\"token\": \"\"}"), "neither a token nor a certificate"),
            (script_that_prints("{\"clientKeyData\": \"hunter2\"}"), "neither a token nor a certificate"),
            (script_that_prints("{\"token\": \"hunter2 \\u0007\"}"), "not allowed in an HTTP header"),
            (
                script_that_prints("{\"token\": \"hunter2\", \"expirationTimestamp\": \"soon\"}"),
                "an invalid expirationTimestamp",
            ),
            ("echo hunter2; echo hunter2 >&2; exit 3".to_owned(), "failed (exit status: 3)"),
            (
                "while true; do echo hunter2; done".to_owned(),
                "returned no credentials: the program was stopped because it printed more than 4 KiB",
            ),
        ] {
            let error = credentials_error(script_plugin(&script)).await;
            assert!(error.contains(text), "{script}: {error}");
        }
        for command in ["nothing-of-this-name", "/nowhere/login", "relative/login"] {
            let provider =
                ExecProvider { command: command.to_owned(), ..script_plugin("").provider().clone() };
            assert!(
                credentials_error(ExecPlugin::new(provider.clone()))
                    .await
                    .contains("was not found; install it in a directory on the PATH")
            );
            let hinted = ExecProvider { install_hint: "ask Ann for it".to_owned(), ..provider };
            assert!(
                credentials_error(ExecPlugin::new(hinted)).await.ends_with("was not found; ask Ann for it")
            );
        }
    }

    #[tokio::test]
    async fn a_hanging_program_is_stopped() {
        let hangs = script_plugin("sleep 3600");
        let bounds = RunLimits { timeout: Duration::from_millis(300), ..hangs.0.limits };
        let error = credentials_error(ExecPlugin::with_limits(hangs.provider().clone(), bounds)).await;
        assert!(
            error.ends_with(
                "returned no credentials: the program did not finish within 0.3 s and was stopped"
            ),
            "{error}"
        );
    }

    #[tokio::test]
    async fn the_program_receives_only_the_environment_of_the_secret() {
        let script = format!(
            "test \"$CARGO_MANIFEST_DIR\" = '' && test -n \"$PATH\" && test \"$(pwd)\" = / || exit 7; \
             case \"$KUBERNETES_EXEC_INFO\" in *'\"interactive\":false'*) ;; *) exit 8;; esac; \
             printf '{{\"kind\": \"{KIND}\", \"apiVersion\": \"{V1}\", \"status\": {{\"token\": \"%s\"}}}}' \"$TOKEN\""
        );
        let credentials =
            script_plugin(&script).credentials(None).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((credentials.token.as_str(), credentials.is_expired()), ("hunter2", false));
    }

    #[tokio::test]
    async fn the_program_runs_again_after_expiry_or_refusal_of_its_credentials() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        // The program returns a different token each time, with this expiry.
        let counting = |ends: &str| {
            let script = format!(
                "echo x >> {0}; n=$(wc -l < {0}); {1}",
                count.display(),
                script_that_prints(&format!("{{\"token\": \"t'$n'\", \"expirationTimestamp\": \"{ends}\"}}"))
            );
            script_plugin(&script)
        };
        let plugin = counting("2999-01-01T00:00:00Z");
        let first = plugin.credentials(None).await.unwrap_or_else(|error| panic!("{error}"));
        let same = plugin.clone().credentials(None).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(first.token == "t1" && Arc::ptr_eq(&first, &same));
        // The first caller with refused credentials triggers a run, and the others receive its result.
        let (one, two) = tokio::join!(plugin.credentials(Some(&first)), plugin.credentials(Some(&first)));
        let tokens =
            [one, two].map(|credentials| credentials.unwrap_or_else(|error| panic!("{error}")).token.clone());
        assert_eq!(tokens, ["t2", "t2"]);
        let plugin = counting("2020-01-01T00:00:00Z");
        for expected in ["t3", "t4"] {
            let credentials = plugin.credentials(None).await.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((credentials.token.as_str(), credentials.is_expired()), (expected, true));
        }
    }

    #[tokio::test]
    async fn a_dropped_call_neither_stops_a_run_nor_starts_a_second_one() {
        let dir = tempfile::tempdir().unwrap();
        let (count, go) = (dir.path().join("count"), dir.path().join("go"));
        let script = format!(
            "echo x >> {}; while [ ! -e {} ]; do :; done; {}",
            count.display(),
            go.display(),
            script_that_prints("{\"token\": \"t\"}")
        );
        let slow = script_plugin(&script);
        let mut asking = Box::pin(slow.credentials(None));
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(asking);
        std::fs::write(&go, "").unwrap();
        assert_eq!(slow.credentials(None).await.unwrap_or_else(|error| panic!("{error}")).token, "t");
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_failure() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let failing = script_plugin(&format!("echo x >> {}; exit 3", count.display()));
        let results = futures_util::future::join_all((0..8).map(|_| failing.credentials(None))).await;
        assert!(results.iter().all(Result::is_err));
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
    }
}
