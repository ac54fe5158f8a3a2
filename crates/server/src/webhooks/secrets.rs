//! Webhook secrets, with the same keys as in Argo CD's `argocd-secret`. They come from a file with keys and
//! values, a Secret manifest, or a folder with one file per key, which is how Kubernetes mounts Secrets.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::error::ServerError;
use crate::tls::check_permissions;

/// Maximum size of the file in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Key of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SecretKey {
    GitHub,
    GitLab,
    Bitbucket,
    BitbucketServer,
    Gogs,
    AzureUser,
    AzurePassword,
    Generic,
}

const KEYS: [SecretKey; 8] = [
    SecretKey::GitHub,
    SecretKey::GitLab,
    SecretKey::Bitbucket,
    SecretKey::BitbucketServer,
    SecretKey::Gogs,
    SecretKey::AzureUser,
    SecretKey::AzurePassword,
    SecretKey::Generic,
];

impl SecretKey {
    /// Returns the name of the key.
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

/// Webhook secrets, all non-empty.
pub(super) struct Secrets(BTreeMap<SecretKey, String>);

impl Secrets {
    /// Returns the secret with this key, if it is set.
    pub fn get(&self, key: SecretKey) -> Option<&str> {
        self.0.get(&key).map(String::as_str)
    }

    /// Reads a file or a folder. Errors never quote the content.
    pub fn read(path: &Path) -> Result<Self, ServerError> {
        let wrong = |source| ServerError::ReadFile { path: path.to_owned(), source };
        let mut found = BTreeMap::new();
        if fs::metadata(path).map_err(wrong)?.is_dir() {
            for key in KEYS {
                let file = path.join(key.name());
                match read_file(&file) {
                    Err(ServerError::ReadFile { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    }
                    text => drop(found.insert(key, text?.trim_end_matches(['\r', '\n']).to_owned())),
                }
            }
        } else {
            found = parse(&read_file(path)?)
                .map_err(|why| ServerError::InvalidWebhooks { path: path.to_owned(), why })?;
        }
        match found.iter().find(|(_, secret)| secret.is_empty()) {
            Some((key, _)) => Err(ServerError::InvalidWebhooks {
                path: path.to_owned(),
                why: format!("{} is empty", key.name()),
            }),
            None => Ok(Self(found)),
        }
    }
}

/// Returns the content of a file. Fails if other users have access to it.
fn read_file(path: &Path) -> Result<String, ServerError> {
    let wrong = |source| ServerError::ReadFile { path: path.to_owned(), source };
    let file = File::open(path).map_err(wrong)?;
    let found = file.metadata().map_err(wrong)?;
    if !found.is_file() {
        return Err(wrong(io::ErrorKind::InvalidInput.into()));
    }
    let reason = "other users could read or add a secret and send events";
    check_permissions(path, &found, reason, "run chmod go-w,o-r")?;
    let mut text = String::new();
    file.take(FILE_MAX.saturating_add(1)).read_to_string(&mut text).map_err(wrong)?;
    let is_small = u64::try_from(text.len()).is_ok_and(|length| length <= FILE_MAX);
    if is_small { Ok(text) } else { Err(wrong(io::ErrorKind::FileTooLarge.into())) }
}

/// Parses keys and values. From a Secret manifest, returns only the webhook keys.
fn parse(text: &str) -> Result<BTreeMap<SecretKey, String>, String> {
    // The parser's message may quote the content.
    let read: BTreeMap<String, Value> = serde_saphyr::from_str(text).map_err(|error| {
        let place = error.location().map(|place| format!(" at line {}", place.line())).unwrap_or_default();
        format!("invalid YAML{place}: expected lines such as `webhook.github.secret: SECRET`")
    })?;
    if read.get("kind").and_then(Value::as_str) != Some("Secret") {
        let of = |(name, value): (&String, &Value)| -> Result<_, String> {
            let key = parse_key(name).ok_or_else(|| {
                let known = KEYS.map(SecretKey::name).join(", ");
                format!("unknown key; supported keys: {known}")
            })?;
            Ok((key, secret_value(key, value)?))
        };
        return read.iter().map(of).collect();
    }
    let fields = |field: &str| read.get(field).and_then(Value::as_object).into_iter().flatten();
    let mut found = BTreeMap::new();
    for (name, value) in fields("data") {
        let Some(key) = parse_key(name) else { continue };
        let bytes = BASE64_STANDARD.decode(secret_value(key, value)?.trim()).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        found.insert(key, text.ok_or_else(|| format!("data.{} is not base64-encoded text", key.name()))?);
    }
    for (name, value) in fields("stringData") {
        let Some(key) = parse_key(name) else { continue };
        found.insert(key, secret_value(key, value)?);
    }
    Ok(found)
}

fn parse_key(name: &str) -> Option<SecretKey> {
    KEYS.into_iter().find(|key| key.name() == name)
}

fn secret_value(key: SecretKey, value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{} is not a string: use quotes", key.name()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_a_secret_and_a_folder_give_the_same_secrets() {
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
    fn errors_name_the_mistake_and_quote_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secrets");
        for (text, mode, part) in [
            ("webhook.github.secret: [hunter2]", 0o600, "webhook.github.secret is not a string"),
            ("webhook.github.secret: 12345", 0o600, "use quotes"),
            ("webhook.github.secret: ''", 0o600, "webhook.github.secret is empty"),
            ("webhook.github.token: hunter2", 0o600, "supported keys: webhook.github.secret, "),
            ("hunter2", 0o600, "invalid YAML"),
            ("webhook.github.secret: 'hunter2", 0o600, "invalid YAML"),
            ("kind: Secret\ndata: {webhook.gogs.secret: 'hunter2 ?'}", 0o600, "data.webhook.gogs.secret"),
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
