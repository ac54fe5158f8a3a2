//! Credentials from the objects they are written down as.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_model::Object;

use super::Credentials;
use super::secret::{Secret, SecretKind};
use crate::hidden::Hidden;

/// The ConfigMap of certificates, by host.
const CERTIFICATES: &str = "argocd-tls-certs-cm";
/// The ConfigMap of hosts and their keys.
const KNOWN_HOSTS: &str = "argocd-ssh-known-hosts-cm";

/// The ConfigMap of public keys that signatures are checked with, by their ids.
const SIGNING_KEYS: &str = "argocd-gpg-keys-cm";

/// What of an object cannot be used as credentials. Shows no value of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {reason}")]
pub struct CredentialsError {
    /// Which object: `Secret argocd/github`.
    pub object: String,
    /// What about it cannot be used.
    pub reason: String,
}

impl Credentials {
    /// What says that a Secret is about repositories.
    pub const LABEL: &str = "argocd.argoproj.io/secret-type";

    /// Whether an object is one of those that say how repositories are reached.
    pub fn is_said_by(object: &Object) -> bool {
        match (object.group(), object.kind(), object.name()) {
            ("", "Secret", _) => matches!(object.label(Self::LABEL), Some("repository" | "repo-creds")),
            ("", "ConfigMap", CERTIFICATES | KNOWN_HOSTS | SIGNING_KEYS) => true,
            _ => false,
        }
    }

    /// Takes what others say, where it is not said here.
    pub fn merge(&mut self, others: &Self) {
        self.secrets.extend(others.secrets.iter().cloned());
        self.projects.extend(others.projects.iter().cloned());
        for (host, pem) in &others.certificates {
            self.certificates.entry(host.clone()).or_insert_with(|| pem.clone());
        }
        for (id, key) in &others.signing {
            self.signing.entry(id.clone()).or_insert_with(|| key.clone());
        }
        if !others.known_hosts.is_empty() {
            self.known_hosts =
                format!("{}\n{}", self.known_hosts, others.known_hosts).trim_start().to_owned();
        }
    }

    /// Takes what an object says of repositories. Returns whether it says anything: other objects are left alone.
    ///
    /// # Errors
    ///
    /// It is meant for repositories, and its values are not such text as those of its kind are.
    pub fn add(&mut self, object: &Object) -> Result<bool, CredentialsError> {
        match (object.group(), object.kind(), object.name()) {
            ("", "Secret", _) => self.add_secret(object),
            ("", "ConfigMap", CERTIFICATES) => {
                for (host, pem) in texts(object, "data")? {
                    self.certificates.insert(host.to_ascii_lowercase(), pem.0);
                }
                Ok(true)
            }
            ("", "ConfigMap", SIGNING_KEYS) => {
                for (id, key) in texts(object, "data")? {
                    self.signing.insert(id, key.0);
                }
                Ok(true)
            }
            ("", "ConfigMap", KNOWN_HOSTS) => {
                if let Some(hosts) = texts(object, "data")?.remove("ssh_known_hosts") {
                    self.known_hosts = hosts.0;
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn add_secret(&mut self, object: &Object) -> Result<bool, CredentialsError> {
        let kind = match object.label(Self::LABEL) {
            Some("repository") => SecretKind::Repository,
            Some("repo-creds") => SecretKind::Credentials,
            _ => return Ok(false),
        };
        let wrong = |reason: String| CredentialsError { object: named(object), reason };
        let mut fields = BTreeMap::new();
        for (field, encoded) in texts(object, "data")? {
            let compact: String = encoded.0.split_ascii_whitespace().collect();
            let decoded = STANDARD.decode(compact).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let decoded = decoded.ok_or_else(|| {
                wrong(format!("data.{field} is not text in base64; write it as it is under stringData"))
            })?;
            fields.insert(field, Hidden(decoded));
        }
        fields.extend(texts(object, "stringData")?);
        let secret = Secret::new(name(object), kind, fields);
        if secret.length() == 0 {
            return Err(wrong(
                "its url is missing, or is no address of a repository over the network".to_owned(),
            ));
        }
        self.projects.extend(secret.project().map(str::to_owned));
        self.secrets.push(secret);
        Ok(true)
    }
}

fn name(object: &Object) -> String {
    match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    }
}

fn named(object: &Object) -> String {
    format!("{} {}", object.kind(), name(object))
}

fn texts(object: &Object, section: &str) -> Result<BTreeMap<String, Hidden>, CredentialsError> {
    let wrong = |reason| CredentialsError { object: named(object), reason };
    let Some(found) = object.as_value().get(section).filter(|value| !value.is_null()) else {
        return Ok(BTreeMap::new());
    };
    let Some(found) = found.as_object() else { return Err(wrong(format!("{section} is no map"))) };
    let text = |(field, value): (&String, &serde_json::Value)| {
        let text = value.as_str().ok_or_else(|| wrong(format!("{section}.{field} is not text")))?;
        Ok((field.clone(), Hidden(text.to_owned())))
    };
    found.iter().map(text).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::Address;

    fn secret(section: &str, fields: &Value) -> Object {
        let value = json!({
            "apiVersion": "v1", "kind": "Secret", section: fields,
            "metadata": {"name": "a", "namespace": "argocd", "labels": {Credentials::LABEL: "repository"}},
        });
        Object::try_from(value).unwrap()
    }

    #[test]
    fn a_secret_as_a_cluster_has_it() {
        // Lines are broken in some files.
        let fields = json!({"url": "aHR0cHM6Ly9leGFtcGxlLmNvbS9hLmdpdA==", "password": "aHVu\ndGVyMg=="});
        let mut credentials = Credentials::default();
        assert_eq!(credentials.add(&secret("data", &fields)), Ok(true));
        let access = |url: &str| credentials.access(&Address::parse(url, Path::new("/")).unwrap()).unwrap();
        for url in ["https://example.com/a", "https://EXAMPLE.com:443/a.git/", "https://me@example.com/A"] {
            let access = access(url);
            assert_eq!(
                (access.password.text(), access.secret.as_deref()),
                (Some("hunter2"), Some("argocd/a"))
            );
        }
        for url in [
            "http://example.com/a",
            "https://example.com/ab",
            "https://example.com:8443/a",
            "git@example.com:a",
        ] {
            assert_eq!(access(url).secret, None, "{url}");
        }
        assert_eq!(access("https://me@example.com/a").username, "me");
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }

    #[test]
    fn what_is_no_text_is_named() {
        for (section, fields, expected) in [
            (
                "data",
                json!({"password": "hunter2 ?"}),
                "Secret argocd/a: data.password is not text in base64",
            ),
            ("data", json!({"password": "//79"}), "data.password is not text in base64"),
            ("stringData", json!({"password": 7}), "stringData.password is not text"),
            ("stringData", json!("hunter2"), "stringData is no map"),
            ("stringData", json!({"password": "hunter2"}), "its url is missing"),
            ("stringData", json!({"url": "/a/path"}), "its url is missing"),
        ] {
            let error = Credentials::default().add(&secret(section, &fields)).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
