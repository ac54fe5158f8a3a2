//! An sshd on loopback, as whoever runs the tests, that gives out what is below one folder.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// It begins itself anew for each connection, and has to know where it is.
const PROGRAM: &str = "/usr/sbin/sshd";
/// Run by the administrator, it wants this folder to be there.
const PRIVATE: &str = "/run/sshd";
/// Newer ones keep whoever was refused from coming again for a while; older ones do not know this.
const LENIENT: &str = "PerSourcePenalties no";
/// Somebody else may take a port that was free a moment ago.
const PORTS_TRIED: usize = 20;

/// What is not here of what these tests need.
pub fn missing() -> Option<String> {
    let advice = "Debian has it in openssh-server and git";
    if !Path::new(PROGRAM).is_file() {
        return Some(format!("There is no {PROGRAM} here; {advice}."));
    }
    let is_there = |name: &&str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
    };
    let absent = ["ssh", "ssh-keygen", "git"].into_iter().find(|name| !is_there(name))?;
    Some(format!("There is no {absent} here; {advice}."))
}

/// Runs a program that must succeed, with nobody's configuration, and gives back what it prints.
pub fn run(command: &mut Command) -> String {
    let output = command.env("GIT_CONFIG_NOSYSTEM", "1").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A pair of keys.
pub struct Keys {
    file: PathBuf,
    /// As a Secret has it.
    pub private: String,
    /// Kind and key, without a comment.
    pub public: String,
}

impl Keys {
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

    /// The lines of the private key that tell it from others.
    pub fn secrets(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.private.lines().filter(|line| !line.starts_with("-----")).collect();
        // The first one says what kind of key it is.
        assert!(lines.len() > 2, "that is no private key");
        lines[1..].to_vec()
    }
}

/// A server. It ends when it is dropped.
pub struct Sshd {
    child: Child,
    port: u16,
    pub user: String,
    pub host: Keys,
    asked: PathBuf,
    log: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl Sshd {
    /// One that lets in whoever has the private key of `allowed`. `more`: what else its configuration says.
    pub fn start(folder: &Path, allowed: &Keys, more: &str) -> Self {
        let folder = folder.join("sshd");
        fs::create_dir(&folder).unwrap();
        let host = Keys::new(&folder, "host");
        fs::write(folder.join("authorized_keys"), format!("{}\n", allowed.public)).unwrap();
        let asked = folder.join("asked");
        let answer = folder.join("answer");
        let script = format!(
            "printf '%s %s\\n' \"${{GIT_PROTOCOL:-no}}\" \"$SSH_ORIGINAL_COMMAND\" >> '{}'\n\
             export GIT_CONFIG_NOSYSTEM=1 HOME='{}'\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
            asked.display(),
            folder.display()
        );
        fs::write(&answer, script).unwrap();
        fs::write(&asked, "").unwrap();
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            fs::create_dir_all(PRIVATE).unwrap();
        }
        let user = run(Command::new("id").arg("-un"));
        let path = |name: &str| folder.join(name).display().to_string();
        // Temporary folders are in one that everybody may write to, which strict modes refuse.
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
        is_lenient.arg("-tf").arg(config(1, LENIENT)).stdin(Stdio::null()).stderr(Stdio::null());
        let lenient = if is_lenient.status().unwrap().success() { LENIENT } else { "" };
        let begun = (0..PORTS_TRIED).find_map(|_| {
            let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
            let begun = begin(&config(port, &format!("{more}\n{lenient}")));
            begun.map(|(child, log, reading)| (port, child, log, reading))
        });
        let (port, child, log, reading) = begun.expect("there is a free port");
        Self { child, port, user, host, asked, log, reading: Some(reading) }
    }

    /// The address of a repository.
    pub fn url(&self, path: &Path) -> String {
        format!("ssh://{}@127.0.0.1:{}{}", self.user, self.port, path.display())
    }

    /// Where it listens: `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What is known of its host, where that has a key.
    pub fn known(&self, key: &str) -> String {
        format!("[127.0.0.1]:{} {key}\n", self.port)
    }

    /// What it was asked for since this was asked last: protocol and command.
    pub fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.asked).unwrap();
        fs::write(&self.asked, "").unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// All that it has written into its log until it ended.
    pub fn end(mut self) -> String {
        self.stop();
        self.log.lock().unwrap().clone()
    }

    fn stop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some(reading) = self.reading.take() {
            reading.join().unwrap();
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

type Begun = (Child, Arc<Mutex<String>>, JoinHandle<()>);

/// Nothing where it does not get so far as to listen, as when its port is taken; what else is wrong ends the test.
fn begin(config: &Path) -> Option<Begun> {
    let mut command = Command::new(PROGRAM);
    command.args(["-D", "-e", "-f"]).arg(config);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut said = String::new();
    for line in &mut lines {
        said.push_str(&format!("{line}\n"));
        if line.contains("Server listening on") {
            let log = Arc::new(Mutex::new(said));
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
    assert!(said.contains("already in use"), "{said}");
    None
}
