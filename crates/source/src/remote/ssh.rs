//! Git by SSH: the `ssh` program of this machine, without a shell and without anybody's configuration of it.

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
use super::{Attempt, Network, Problem, relay};
use crate::address::Site;
use crate::credentials::Access;
use crate::hidden::Hidden;

/// Folders of keys begin so; those that a killed process has left are removed by the next one.
const KEYS: &str = "ssh-";
/// So much of what the program says is kept.
const WORDS_MAX: u64 = 4 << 10;
/// Bytes of what a command says.
const ANSWER_MAX: u64 = 64 << 10;

/// A connection by SSH, for as long as it is used.
pub(crate) struct Session {
    child: Arc<Mutex<Child>>,
    words: Mutex<Option<JoinHandle<String>>>,
    secret: String,
    too_much: Arc<Mutex<bool>>,
    /// Key and known hosts.
    _files: TempDir,
}

/// Removes the keys that a killed process has left.
pub(crate) fn sweep(mirrors: &Path) {
    for entry in fs::read_dir(mirrors).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(KEYS) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A text as one word of the shell of a server.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''").replace('!', "'\\!'"))
}

/// Connects. Nothing is sent yet but what the program itself needs.
pub(crate) fn connect(
    site: &Site,
    access: &Access,
    network: &Network,
    attempt: &Arc<Attempt>,
    bytes: u64,
) -> Result<(Box<dyn Transport>, Session), Problem> {
    let path = site.path_there();
    let asked = format!("git-upload-pack {}", quoted(&path));
    let (input, output, session) = start((site, &asked), access, network, attempt, bytes)?;
    let none = None::<(&str, Option<u16>)>;
    let connection =
        Connection::new(output, input, Protocol::V2, path.as_str(), none, ConnectMode::Process, false);
    Ok((Box::new(connection), session))
}

/// Has a command done there, and reads what it says.
pub(crate) fn ask(
    asked: (&Site, &str),
    access: &Access,
    network: &Network,
    attempt: &Arc<Attempt>,
) -> Result<Vec<u8>, Problem> {
    let (input, mut output, session) = start(asked, access, network, attempt, ANSWER_MAX)?;
    drop(input);
    let mut said = Vec::new();
    let read = output.read_to_end(&mut said);
    match attempt.over() {
        Some(over) => Err(over.problem()),
        None if read.is_ok() && !said.is_empty() => Ok(said),
        None => Err(session.problem().unwrap_or_else(|| Problem::new("the server says nothing"))),
    }
}

/// Starts the program with a command for the server.
fn start(
    (site, asked): (&Site, &str),
    access: &Access,
    network: &Network,
    attempt: &Arc<Attempt>,
    bytes: u64,
) -> Result<(ChildStdin, Bounded, Session), Problem> {
    check_name(&site.host, network.barred(access))?;
    let secret = access.secret.clone().unwrap_or_default();
    let Some(key) = access.ssh_key.text() else {
        return Err(Problem::new("there is no key to show")
            .hint("give a Secret labelled argocd.argoproj.io/secret-type: repository or repo-creds with sshPrivateKey"));
    };
    if access.known_hosts.trim().is_empty() && !access.insecure {
        return Err(Problem::new("no keys of hosts are known")
            .hint("give the ConfigMap argocd-ssh-known-hosts-cm; ssh-keyscan shows what a host has"));
    }
    let failed = |error: io::Error| {
        Problem::new(format!("its key cannot be written into the state directory: {error}"))
    };
    fs::create_dir_all(&network.mirrors).map_err(failed)?;
    let files = tempfile::Builder::new().prefix(KEYS).tempdir_in(&network.mirrors).map_err(failed)?;
    let key = write(files.path(), "key", &format!("{}\n", key.trim_end())).map_err(failed)?;
    let hosts = write(files.path(), "known_hosts", &access.known_hosts).map_err(failed)?;
    let relay = relay::open((&site.host, site.port.unwrap_or(22)), access, network, attempt)?;
    let mut command = command(site, access, network, (&key, &hosts), relay);
    // The shell is that of the server.
    command.arg(asked);
    let program = network.ssh.display();
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::new(format!("there is no program {program} here"))
            .hint("Git by SSH needs an OpenSSH client; or name the repository by https://"),
        _ => Problem::new(format!("the program {program} cannot be started: {error}")),
    })?;
    let (Some(input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(Problem::new(format!("the program {program} cannot be talked to")));
    };
    let child = Arc::new(Mutex::new(child));
    let killed = Arc::clone(&child);
    attempt.when_over(move || drop(killed.lock().unwrap_or_else(PoisonError::into_inner).kill()));
    let words = thread::Builder::new().name("ssh-words".to_owned()).spawn(move || {
        let mut words = Vec::new();
        let _ = errors.take(WORDS_MAX).read_to_end(&mut words);
        String::from_utf8_lossy(&words).into_owned()
    });
    let words = Mutex::new(Some(words.map_err(failed)?));
    let too_much = Arc::new(Mutex::new(false));
    let output = Bounded { output, left: bytes, too_much: Arc::clone(&too_much) };
    let session = Session { child, words, secret, too_much, _files: files };
    Ok((input, output, session))
}

/// A file that its owner alone can read.
fn write(folder: &Path, name: &str, content: &str) -> io::Result<PathBuf> {
    let path = folder.join(name);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(content.as_bytes())?;
    Ok(path)
}

fn command(
    site: &Site,
    access: &Access,
    network: &Network,
    (key, hosts): (&Path, &Path),
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
    option("ServerAliveInterval", &(network.limits.silence.as_secs() / 2).max(1).to_string());
    option("StrictHostKeyChecking", if access.insecure { "no" } else { "yes" });
    let hosts = if access.insecure { Path::new("none") } else { hosts };
    option("UserKnownHostsFile", &hosts.display().to_string());
    if relay.is_some() {
        // The key is that of the host itself, under the name that it has without a proxy.
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
    let user = site.user.as_ref().and_then(Hidden::text).unwrap_or(&access.username);
    command.arg("-l").arg(user).arg("--").arg(site.host.trim_matches(['[', ']']));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Session {
    /// What went wrong, as the program says it.
    pub fn problem(&self) -> Option<Problem> {
        if *self.too_much.lock().unwrap_or_else(PoisonError::into_inner) {
            return Some(Problem::new("the server's answer is longer than anybody reads"));
        }
        self.end();
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner).take()?.join().ok()?;
        let lines: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let says = |part: &str| lines.iter().any(|line| line.contains(part));
        let secret = &self.secret;
        if says("Host key verification failed")
            || says("host key is known")
            || says("HOST IDENTIFICATION HAS CHANGED")
        {
            let what = if says("HAS CHANGED") {
                "the key of its host is another one than argocd-ssh-known-hosts-cm says"
            } else {
                "the key of its host is not known"
            };
            return Some(Problem::new(what).hint(
                "make sure that it is the right host, and write its key into the ConfigMap argocd-ssh-known-hosts-cm",
            ));
        }
        if says("Permission denied") {
            return Some(Problem::new(format!(
                "the server does not accept sshPrivateKey of Secret {secret}"
            )));
        }
        if says("invalid format") || says("error in libcrypto") || says("incorrect passphrase") {
            return Some(Problem::new(format!(
                "sshPrivateKey of Secret {secret} is no private key without a passphrase"
            )));
        }
        let last = lines.last()?;
        Some(Problem::new(format!("ssh says: {last}")).hint("it is tried again at the next look"))
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

/// What the program gives out, up to a limit.
struct Bounded {
    output: ChildStdout,
    left: u64,
    too_much: Arc<Mutex<bool>>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.output.read(buffer)?;
        match self.left.checked_sub(u64::try_from(read).unwrap_or(u64::MAX)) {
            Some(left) => self.left = left,
            None => {
                *self.too_much.lock().unwrap_or_else(PoisonError::into_inner) = true;
                return Err(io::Error::other("the answer is too long"));
            }
        }
        Ok(read)
    }
}
