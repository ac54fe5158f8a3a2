//! The secrets of webhooks, under the keys that Argo CD's Secret `argocd-secret` has for them: a file of keys and texts,
//! such a Secret itself, or a folder with a file for each, as a cluster mounts it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::error::ServerError;
use crate::tls::closed;

/// The largest file.
const FILE_MAX: u64 = 1 << 20;

/// Which secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    GitHub,
    GitLab,
    Bitbucket,
    BitbucketServer,
    Gogs,
    AzureUser,
    AzurePassword,
    Generic,
}

const KEYS: [Key; 8] = [
    Key::GitHub,
    Key::GitLab,
    Key::Bitbucket,
    Key::BitbucketServer,
    Key::Gogs,
    Key::AzureUser,
    Key::AzurePassword,
    Key::Generic,
];

impl Key {
    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::GitHub => "webhook.github.secret",
            Self::GitLab => "webhook.gitlab.secret",
            Self::Bitbucket => "webhook.bitbucket.uuid",
            Self::BitbucketServer => "webhook.bitbucketserver.secret",
            Self::Gogs => "webhook.gogs.secret",
            Self::AzureUser => "webhook.azuredevops.username",
            Self::AzurePassword => "webhook.azuredevops.password",
            Self::Generic => "webhook.generic.secret",
        }
    }
}

/// The secrets of webhooks; none of them is empty.
pub(super) struct Secrets(BTreeMap<Key, String>);

impl Secrets {
    /// One of them, if it is there.
    pub fn get(&self, key: Key) -> Option<&str> {
        self.0.get(&key).map(String::as_str)
    }

    /// Reads a file or a folder. No error holds anything of what was read.
    pub fn read(path: &Path) -> Result<Self, ServerError> {
        let wrong = |source| ServerError::File { path: path.to_owned(), source };
        let mut found = BTreeMap::new();
        if fs::metadata(path).map_err(wrong)?.is_dir() {
            for key in KEYS {
                let file = path.join(key.name());
                match content(&file) {
                    Err(ServerError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                    text => drop(found.insert(key, text?.trim_end_matches(['\r', '\n']).to_owned())),
                }
            }
        } else {
            found =
                parse(&content(path)?).map_err(|why| ServerError::Webhooks { path: path.to_owned(), why })?;
        }
        match found.iter().find(|(_, secret)| secret.is_empty()) {
            Some((key, _)) => {
                Err(ServerError::Webhooks { path: path.to_owned(), why: format!("{} is empty", key.name()) })
            }
            None => Ok(Self(found)),
        }
    }
}

/// What a file holds that is closed to others.
fn content(path: &Path) -> Result<String, ServerError> {
    let wrong = |source| ServerError::File { path: path.to_owned(), source };
    let file = File::open(path).map_err(wrong)?;
    let found = file.metadata().map_err(wrong)?;
    if !found.is_file() {
        return Err(wrong(io::ErrorKind::InvalidInput.into()));
    }
    let why = "whoever knows a secret of it, or puts one into it, can have repositories asked";
    closed(path, &found, why, "its owner can close it: chmod go-w,o-r")?;
    let mut text = String::new();
    file.take(FILE_MAX.saturating_add(1)).read_to_string(&mut text).map_err(wrong)?;
    let is_small = u64::try_from(text.len()).is_ok_and(|length| length <= FILE_MAX);
    if is_small { Ok(text) } else { Err(wrong(io::ErrorKind::FileTooLarge.into())) }
}

/// Keys and texts; of a Secret, those of webhooks.
fn parse(text: &str) -> Result<BTreeMap<Key, String>, String> {
    // What the parser says may repeat what it has read.
    let read: BTreeMap<String, Value> = serde_saphyr::from_str(text).map_err(|error| {
        let place = error.location().map(|place| format!(" at line {}", place.line())).unwrap_or_default();
        format!("it is not understood{place}; it is to have lines such as `webhook.github.secret: SECRET`")
    })?;
    if read.get("kind").and_then(Value::as_str) != Some("Secret") {
        let of = |(name, value): (&String, &Value)| -> Result<_, String> {
            let key = key(name).ok_or_else(|| {
                let known = KEYS.map(Key::name).join(", ");
                format!("it has a key that means nothing; known are {known}")
            })?;
            Ok((key, said(key, value)?))
        };
        return read.iter().map(of).collect();
    }
    let fields = |field: &str| read.get(field).and_then(Value::as_object).into_iter().flatten();
    let mut found = BTreeMap::new();
    for (name, value) in fields("data") {
        let Some(key) = key(name) else { continue };
        let bytes = BASE64_STANDARD.decode(said(key, value)?.trim()).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        found.insert(key, text.ok_or_else(|| format!("data of {} is no text in base64", key.name()))?);
    }
    for (name, value) in fields("stringData") {
        let Some(key) = key(name) else { continue };
        found.insert(key, said(key, value)?);
    }
    Ok(found)
}

fn key(name: &str) -> Option<Key> {
    KEYS.into_iter().find(|key| key.name() == name)
}

fn said(key: Key, value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{} is no text; write it in quotes", key.name()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_a_secret_and_a_folder_say_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (file, secret, folder) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        write(&file, "webhook.github.secret: hunter2\nwebhook.azuredevops.username: 'me'\n", 0o600);
        let manifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: argocd-secret}\n\
            data: {webhook.github.secret: aHVudGVyMg==, server.secretkey: bm90IG91cnM=}\n\
            stringData: {webhook.azuredevops.username: me, admin.password: other}\n";
        write(&secret, manifest, 0o640);
        fs::create_dir(&folder).unwrap();
        write(&folder.join("webhook.github.secret"), "hunter2\n", 0o440);
        write(&folder.join("webhook.azuredevops.username"), "me", 0o440);
        write(&folder.join("server.secretkey"), "not ours", 0o440);
        for path in [file, secret, folder] {
            let read = Secrets::read(&path).unwrap();
            let found = KEYS.map(|key| read.get(key).unwrap_or_default().to_owned());
            assert_eq!(found, ["hunter2", "", "", "", "", "me", "", ""], "{}", path.display());
        }
    }

    #[test]
    fn mistakes_are_named_and_never_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secrets");
        for (text, mode, part) in [
            ("webhook.github.secret: [hunter2]", 0o600, "webhook.github.secret is no text"),
            ("webhook.github.secret: 12345", 0o600, "in quotes"),
            ("webhook.github.secret: ''", 0o600, "webhook.github.secret is empty"),
            ("webhook.github.token: hunter2", 0o600, "known are webhook.github.secret, "),
            ("hunter2", 0o600, "it is not understood"),
            ("webhook.github.secret: 'hunter2", 0o600, "it is not understood"),
            ("kind: Secret\ndata: {webhook.gogs.secret: 'hunter2 ?'}", 0o600, "data of webhook.gogs.secret"),
            ("webhook.github.secret: hunter2", 0o644, "chmod"),
            ("webhook.github.secret: hunter2", 0o620, "chmod"),
        ] {
            write(&path, text, mode);
            let message = Secrets::read(&path).err().unwrap().to_string();
            assert!(message.contains(part) && !message.contains("hunter2"), "{text}: {message}");
            assert!(message.contains("secrets"), "{message}");
        }
        assert!(Secrets::read(&dir.path().join("none")).is_err());
    }
}
