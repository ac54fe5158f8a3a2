//! Git over SSH, using the machine's `ssh` program without a shell and without the user's configuration.

use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use gix_transport::Protocol;
use gix_transport::client::blocking_io::Transport;
use gix_transport::client::git::ConnectMode;
use gix_transport::client::git::blocking_io::Connection;
use tempfile::TempDir;

use super::http::check_name;
use super::{Attempt, Network, Problem, proxy_relay};
use crate::address::RemoteLocation;
use crate::credentials::AccessSettings;
use crate::secret_text::SecretText;

/// Name prefix of key folders. A killed process leaves its folders behind for the next one to delete.
const KEY_FOLDER_PREFIX: &str = "ssh-";
/// Maximum number of bytes of standard error to keep.
const STDERR_BYTES_MAX: u64 = 4 << 10;
/// Maximum output of a command, in bytes.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// An SSH connection.
pub(crate) struct Session {
    child: Arc<Mutex<Child>>,
    stderr: Mutex<Option<JoinHandle<String>>>,
    secret: String,
    has_exceeded_limit: Arc<Mutex<bool>>,
    /// Folder with the private key and the known hosts. Deleted on drop.
    _files: TempDir,
}

/// Deletes keys left behind by a killed process.
pub(crate) fn delete_stale_keys(mirrors: &Path) {
    for entry in fs::read_dir(mirrors).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(KEY_FOLDER_PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Quotes a string so that the server's shell parses it as one word.
pub(crate) fn quote_for_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''").replace('!', "'\\!'"))
}

/// Connects to the server and starts its Git command, without sending a Git request.
pub(crate) fn connect_ssh(
    site: &RemoteLocation,
    access: &AccessSettings,
    network: &Network,
    attempt: &Arc<Attempt>,
    bytes: u64,
) -> Result<(Box<dyn Transport>, Session), Problem> {
    let path = site.server_path();
    let asked = format!("git-upload-pack {}", quote_for_shell(&path));
    let (input, output, session) = start_ssh(site, &asked, access, network, attempt, bytes)?;
    let none = None::<(&str, Option<u16>)>;
    let connection =
        Connection::new(output, input, Protocol::V2, path.as_str(), none, ConnectMode::Process, false);
    Ok((Box::new(connection), session))
}

/// Runs a command on the server and returns its output.
pub(crate) fn run_command(
    site: &RemoteLocation,
    command: &str,
    access: &AccessSettings,
    network: &Network,
    attempt: &Arc<Attempt>,
) -> Result<Vec<u8>, Problem> {
    let (input, mut output, session) = start_ssh(site, command, access, network, attempt, OUTPUT_BYTES_MAX)?;
    drop(input);
    let mut said = Vec::new();
    let read = output.read_to_end(&mut said);
    match attempt.end_reason() {
        Some(over) => Err(over.to_problem()),
        None if read.is_ok() && !said.is_empty() => Ok(said),
        None => Err(session.problem().unwrap_or_else(|| Problem::new("the server sent no response"))),
    }
}

/// Starts the `ssh` program, which runs a command on the server.
fn start_ssh(
    site: &RemoteLocation,
    asked: &str,
    access: &AccessSettings,
    network: &Network,
    attempt: &Arc<Attempt>,
    bytes: u64,
) -> Result<(ChildStdin, LimitedOutput, Session), Problem> {
    check_name(&site.host, network.blocked_addresses(access))?;
    let secret = access.secret.clone().unwrap_or_default();
    let Some(key) = access.ssh_key.text() else {
        return Err(Problem::new("no SSH key is configured")
            .with_hint("add a Secret with sshPrivateKey, labeled argocd.argoproj.io/secret-type: repository or repo-creds"));
    };
    if access.known_hosts.trim().is_empty() && !access.is_insecure {
        return Err(Problem::new("no known host keys are configured").with_hint(
            "add the server's keys to the argocd-ssh-known-hosts-cm ConfigMap; ssh-keyscan prints them",
        ));
    }
    let failed = |error: io::Error| {
        Problem::new(format!("cannot write the SSH key into the state directory: {error}"))
    };
    fs::create_dir_all(&network.mirrors).map_err(failed)?;
    let files =
        tempfile::Builder::new().prefix(KEY_FOLDER_PREFIX).tempdir_in(&network.mirrors).map_err(failed)?;
    let key = write_private(files.path(), "key", &format!("{}\n", key.trim_end())).map_err(failed)?;
    let hosts = write_private(files.path(), "known_hosts", &access.known_hosts).map_err(failed)?;
    let relay = proxy_relay::open_relay(&site.host, site.port.unwrap_or(22), access, network, attempt)?;
    let mut command = ssh_command(site, access, network, &key, &hosts, relay);
    // Parsed by the server's shell.
    command.arg(asked);
    let program = network.ssh.display();
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::new(format!("the program {program} was not found"))
            .with_hint("install an OpenSSH client for Git over SSH, or use an https:// URL"),
        _ => Problem::new(format!("cannot start the program {program}: {error}")),
    })?;
    let (Some(input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(Problem::new(format!("cannot open pipes to the program {program}")));
    };
    let child = Arc::new(Mutex::new(child));
    let killed = Arc::clone(&child);
    attempt.on_end(move || drop(killed.lock().unwrap_or_else(PoisonError::into_inner).kill()));
    let text = thread::Builder::new().name("ssh-words".to_owned()).spawn(move || {
        let mut text = Vec::new();
        let _ = errors.take(STDERR_BYTES_MAX).read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let text = Mutex::new(Some(text.map_err(failed)?));
    let too_much = Arc::new(Mutex::new(false));
    let output = LimitedOutput { output, bytes_left: bytes, has_exceeded_limit: Arc::clone(&too_much) };
    let session = Session { child, stderr: text, secret, has_exceeded_limit: too_much, _files: files };
    Ok((input, output, session))
}

/// Writes a new file that only its owner can read and write.
fn write_private(folder: &Path, name: &str, content: &str) -> io::Result<PathBuf> {
    let path = folder.join(name);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(content.as_bytes())?;
    Ok(path)
}

fn ssh_command(
    site: &RemoteLocation,
    access: &AccessSettings,
    network: &Network,
    key: &Path,
    hosts: &Path,
    relay: Option<u16>,
) -> Command {
    let mut command = Command::new(&network.ssh);
    command.env_clear();
    for kept in ["PATH", "HOME"] {
        command.envs(std::env::var_os(kept).map(|value| (kept, value)));
    }
    command.env("LC_ALL", "C").env("GIT_PROTOCOL", "version=2");
    command.args(["-F", "none", "-T", "-x", "-a"]);
    let mut option = |name: &str, value: &str| {
        command.arg("-o").arg(format!("{name}={value}"));
    };
    for (name, value) in [
        ("BatchMode", "yes"),
        ("PreferredAuthentications", "publickey"),
        ("IdentitiesOnly", "yes"),
        ("IdentityAgent", "none"),
        ("ControlMaster", "no"),
        ("ClearAllForwardings", "yes"),
        ("PermitLocalCommand", "no"),
        ("UpdateHostKeys", "no"),
        ("SendEnv", "GIT_PROTOCOL"),
        ("ServerAliveCountMax", "2"),
        ("GlobalKnownHostsFile", "none"),
    ] {
        option(name, value);
    }
    option("ConnectTimeout", &network.limits.connect.as_secs().max(1).to_string());
    option("ServerAliveInterval", &(network.limits.idle.as_secs() / 2).max(1).to_string());
    option("StrictHostKeyChecking", if access.is_insecure { "no" } else { "yes" });
    let hosts = if access.is_insecure { Path::new("none") } else { hosts };
    option("UserKnownHostsFile", &hosts.display().to_string());
    if relay.is_some() {
        // With a relay, `ssh` connects to a local port but still has to verify the real server's host key.
        let host = site.host.trim_matches(['[', ']']);
        let name = site.port.map_or_else(|| host.to_owned(), |port| format!("[{host}]:{port}"));
        option("HostName", "127.0.0.1");
        option("HostKeyAlias", &name);
        option("CheckHostIP", "no");
    }
    command.arg("-i").arg(key);
    if let Some(port) = relay.or(site.port) {
        command.arg("-p").arg(port.to_string());
    }
    let user = site.user.as_ref().and_then(SecretText::text).unwrap_or(&access.username);
    command.arg("-l").arg(user).arg("--").arg(site.host.trim_matches(['[', ']']));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Session {
    /// Returns the problem that `ssh` reported on standard error.
    pub fn problem(&self) -> Option<Problem> {
        if *self.has_exceeded_limit.lock().unwrap_or_else(PoisonError::into_inner) {
            return Some(Problem::new("the server's response is too large"));
        }
        self.end();
        let text = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).take()?.join().ok()?;
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let says = |part: &str| lines.iter().any(|line| line.contains(part));
        let secret = &self.secret;
        if says("Host key verification failed")
            || says("host key is known")
            || says("HOST IDENTIFICATION HAS CHANGED")
        {
            let what = if says("HAS CHANGED") {
                "the server's host key differs from the key in argocd-ssh-known-hosts-cm"
            } else {
                "the server's host key is unknown"
            };
            return Some(
                Problem::new(what)
                    .with_hint("verify the host, and add its key to the argocd-ssh-known-hosts-cm ConfigMap"),
            );
        }
        if says("Permission denied") {
            return Some(Problem::new(format!(
                "the server does not accept the sshPrivateKey in Secret {secret}"
            )));
        }
        if says("invalid format") || says("error in libcrypto") || says("incorrect passphrase") {
            return Some(Problem::new(format!(
                "sshPrivateKey in Secret {secret} is invalid or has a passphrase; use a private key without \
                 a passphrase"
            )));
        }
        let last = lines.last()?;
        Some(Problem::new(format!("ssh reported: {last}")).with_hint("the next comparison will try again"))
    }

    fn end(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// Output of a program. Reads fail past the limit.
struct LimitedOutput {
    output: ChildStdout,
    bytes_left: u64,
    has_exceeded_limit: Arc<Mutex<bool>>,
}

impl Read for LimitedOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.output.read(buffer)?;
        match self.bytes_left.checked_sub(u64::try_from(read).unwrap_or(u64::MAX)) {
            Some(left) => self.bytes_left = left,
            None => {
                *self.has_exceeded_limit.lock().unwrap_or_else(PoisonError::into_inner) = true;
                return Err(io::Error::other("the response is too large"));
            }
        }
        Ok(read)
    }
}
