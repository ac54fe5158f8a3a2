//! An sshd on loopback, running as the current user, which provides the repositories below one folder.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// sshd executes itself again for each connection, and needs its absolute path for this.
const PROGRAM: &str = "/usr/sbin/sshd";
/// `sshd` requires this folder when it runs as root.
const PRIVATE: &str = "/run/sshd";
/// Newer versions temporarily block rejected clients. Older versions don't have this option.
const NO_PENALTIES: &str = "PerSourcePenalties no";
/// Maximum number of attempts, because another process may take a free port.
const PORTS_TRIED: usize = 20;

/// Returns the missing requirement of these tests, if any.
pub fn missing_requirement() -> Option<String> {
    let advice = "Debian has it in openssh-server and git";
    if !Path::new(PROGRAM).is_file() {
        return Some(format!("{PROGRAM} is missing; {advice}."));
    }
    let is_there = |name: &&str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
    };
    let absent = ["ssh", "ssh-keygen", "git"].into_iter().find(|name| !is_there(name))?;
    Some(format!("{absent} is missing; {advice}."))
}

/// Runs a program that must succeed, without user configuration, and returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command.env("GIT_CONFIG_NOSYSTEM", "1").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A key pair.
pub struct KeyPair {
    file: PathBuf,
    /// Private key, in the form that a Secret contains.
    pub private: String,
    /// Type and key, without a comment.
    pub public: String,
}

impl KeyPair {
    pub fn new(folder: &Path, name: &str) -> Self {
        let file = folder.join(name);
        run(Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", ""])
            .arg("-f")
            .arg(&file));
        let private = fs::read_to_string(&file).unwrap();
        let public = fs::read_to_string(file.with_extension("pub")).unwrap();
        let public = public.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        Self { file, private, public }
    }

    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Returns the lines of the private key that occur only in this key.
    pub fn secrets(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.private.lines().filter(|line| !line.starts_with("-----")).collect();
        // The first line only encodes the type.
        assert!(lines.len() > 2, "invalid private key");
        lines[1..].to_vec()
    }
}

/// A server, which stops when dropped.
pub struct Sshd {
    child: Child,
    port: u16,
    pub user: String,
    pub host: KeyPair,
    request_file: PathBuf,
    log: Arc<Mutex<String>>,
    log_reader: Option<JoinHandle<()>>,
}

impl Sshd {
    /// Starts a server that accepts the private key of `allowed`. `more` is additional configuration.
    pub fn start(folder: &Path, allowed: &KeyPair, more: &str) -> Self {
        let folder = folder.join("sshd");
        fs::create_dir(&folder).unwrap();
        let host = KeyPair::new(&folder, "host");
        fs::write(folder.join("authorized_keys"), format!("{}\n", allowed.public)).unwrap();
        let request_file = folder.join("asked");
        let answer = folder.join("answer");
        let script = format!(
            "printf '%s %s\\n' \"${{GIT_PROTOCOL:-no}}\" \"$SSH_ORIGINAL_COMMAND\" >> '{}'\n\
             export GIT_CONFIG_NOSYSTEM=1 HOME='{}'\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
            request_file.display(),
            folder.display()
        );
        fs::write(&answer, script).unwrap();
        fs::write(&request_file, "").unwrap();
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            fs::create_dir_all(PRIVATE).unwrap();
        }
        let user = run(Command::new("id").arg("-un"));
        let path = |name: &str| folder.join(name).display().to_string();
        // Temporary folders have a world-writable parent, which sshd rejects in strict mode.
        let config = |port: u16, more: &str| {
            let text = format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\n\
                 StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 PermitRootLogin prohibit-password\nLogLevel VERBOSE\nForceCommand sh {}\n{more}\n",
                host.file.display(),
                path("authorized_keys"),
                answer.display()
            );
            fs::write(folder.join("config"), text).unwrap();
            folder.join("config")
        };
        let mut is_lenient = Command::new(PROGRAM);
        is_lenient.arg("-tf").arg(config(1, NO_PENALTIES)).stdin(Stdio::null()).stderr(Stdio::null());
        let lenient = if is_lenient.status().unwrap().success() { NO_PENALTIES } else { "" };
        let started = (0..PORTS_TRIED).find_map(|_| {
            let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
            let started = try_start(&config(port, &format!("{more}\n{lenient}")));
            started.map(|(child, log, reading)| (port, child, log, reading))
        });
        let (port, child, log, reading) = started.expect("there is a free port");
        Self { child, port, user, host, request_file, log, log_reader: Some(reading) }
    }

    /// Returns the address of a repository.
    pub fn url(&self, path: &Path) -> String {
        format!("ssh://{}@127.0.0.1:{}{}", self.user, self.port, path.display())
    }

    /// Returns the server's address: `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the known-hosts entry for the server's host with a key.
    pub fn known_hosts_entry(&self, key: &str) -> String {
        format!("[127.0.0.1]:{} {key}\n", self.port)
    }

    /// Returns the requests since the last call: protocol and command.
    pub fn take_requests(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.request_file).unwrap();
        fs::write(&self.request_file, "").unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Stops the server and returns its log.
    pub fn end(mut self) -> String {
        self.stop();
        self.log.lock().unwrap().clone()
    }

    fn stop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some(reading) = self.log_reader.take() {
            reading.join().unwrap();
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

type StartedServer = (Child, Arc<Mutex<String>>, JoinHandle<()>);

/// Starts the server. Returns `None` if the server can't listen, for example because its port is in use. Any
/// other error makes the test fail.
fn try_start(config: &Path) -> Option<StartedServer> {
    let mut command = Command::new(PROGRAM);
    command.args(["-D", "-e", "-f"]).arg(config);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut text = String::new();
    for line in &mut lines {
        text.push_str(&format!("{line}\n"));
        if line.contains("Server listening on") {
            let log = Arc::new(Mutex::new(text));
            let kept = Arc::clone(&log);
            let reading = thread::spawn(move || {
                for line in lines {
                    kept.lock().unwrap().push_str(&format!("{line}\n"));
                }
            });
            return Some((child, log, reading));
        }
    }
    drop(child.wait());
    assert!(text.contains("already in use"), "{text}");
    None
}
