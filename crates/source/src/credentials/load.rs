//! Reads credentials from Secrets and ConfigMaps.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_model::{Host, Object};

use super::Credentials;
use super::secret::{Secret, SecretKind};
use crate::secret_text::SecretText;

/// ConfigMap with trusted certificates by host.
const CERTIFICATES_CONFIG_MAP: &str = "argocd-tls-certs-cm";
/// ConfigMap with the SSH keys of known hosts.
const KNOWN_HOSTS_CONFIG_MAP: &str = "argocd-ssh-known-hosts-cm";

/// ConfigMap with the public keys for verifying signatures, by key ID.
const SIGNING_KEYS_CONFIG_MAP: &str = "argocd-gpg-keys-cm";

/// Error for an object with invalid credentials. Its message contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {reason}")]
pub struct CredentialsError {
    /// Kind and name of the object, such as `Secret argocd/github`.
    pub object: String,
    /// Reason the credentials are invalid.
    pub reason: String,
}

impl Credentials {
    /// Label on Secrets with repository credentials.
    pub const LABEL: &str = "argocd.argoproj.io/secret-type";

    /// Returns true if an object contains repository credentials.
    pub fn has_credentials(object: &Object) -> bool {
        match (object.group(), object.kind(), object.name()) {
            ("", "Secret", _) => matches!(object.label(Self::LABEL), Some("repository" | "repo-creds")),
            ("", "ConfigMap", CERTIFICATES_CONFIG_MAP | KNOWN_HOSTS_CONFIG_MAP | SIGNING_KEYS_CONFIG_MAP) => {
                true
            }
            _ => false,
        }
    }

    /// Merges in `others`, keeping existing certificates and signing keys.
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

    /// Adds the credentials in an object. Returns false if it has none.
    ///
    /// # Errors
    ///
    /// Returns an error if the object contains invalid repository credentials.
    pub fn add(&mut self, object: &Object) -> Result<bool, CredentialsError> {
        match (object.group(), object.kind(), object.name()) {
            ("", "Secret", _) => self.add_secret(object),
            ("", "ConfigMap", CERTIFICATES_CONFIG_MAP) => {
                for (host, pem) in secret_texts(object, "data")? {
                    self.certificates.insert(Host::parse(&host).to_string(), pem.0);
                }
                Ok(true)
            }
            ("", "ConfigMap", SIGNING_KEYS_CONFIG_MAP) => {
                for (id, key) in secret_texts(object, "data")? {
                    self.signing.insert(id, key.0);
                }
                Ok(true)
            }
            ("", "ConfigMap", KNOWN_HOSTS_CONFIG_MAP) => {
                if let Some(hosts) = secret_texts(object, "data")?.remove("ssh_known_hosts") {
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
        let wrong = |reason: String| CredentialsError { object: object_name(object), reason };
        let mut fields = BTreeMap::new();
        for (field, encoded) in secret_texts(object, "data")? {
            let compact: String = encoded.0.split_ascii_whitespace().collect();
            let decoded = STANDARD.decode(compact).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let decoded = decoded.ok_or_else(|| {
                wrong(format!("data.{field} is not base64-encoded text; put plain text under stringData"))
            })?;
            fields.insert(field, SecretText(decoded));
        }
        fields.extend(secret_texts(object, "stringData")?);
        let secret = Secret::new(object_text(object), kind, fields);
        if secret.address_length() == 0 {
            return Err(wrong("url is missing or is not the URL of a remote repository".to_owned()));
        }
        self.projects.extend(secret.project().map(str::to_owned));
        self.secrets.push(secret);
        Ok(true)
    }
}

fn object_text(object: &Object) -> String {
    match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    }
}

fn object_name(object: &Object) -> String {
    format!("{} {}", object.kind(), object_text(object))
}

fn secret_texts(object: &Object, section: &str) -> Result<BTreeMap<String, SecretText>, CredentialsError> {
    let wrong = |reason| CredentialsError { object: object_name(object), reason };
    let Some(found) = object.as_value().get(section).filter(|value| !value.is_null()) else {
        return Ok(BTreeMap::new());
    };
    let Some(found) = found.as_object() else { return Err(wrong(format!("{section} is not a map"))) };
    let text = |(field, value): (&String, &serde_json::Value)| {
        let text = value.as_str().ok_or_else(|| wrong(format!("{section}.{field} is not a string")))?;
        Ok((field.clone(), SecretText(text.to_owned())))
    };
    found.iter().map(text).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
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
    fn a_secret_in_the_format_of_a_cluster() {
        // Base64 text may be wrapped over several lines.
        let fields = json!({"url": "aHR0cHM6Ly9leGFtcGxlLmNvbS9hLmdpdA==", "password": "aHVu\ndGVyMg=="});
        let mut credentials = Credentials::default();
        assert_eq!(credentials.add(&secret("data", &fields)), Ok(true));
        let access =
            |url: &str| credentials.access_to(&Address::parse(url, Path::new("/")).unwrap()).unwrap();
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
    fn fields_that_are_not_texts_are_named() {
        for (section, fields, expected) in [
            (
                "data",
                json!({"password": "hunter2 ?"}),
                "Secret argocd/a: data.password is not base64-encoded text",
            ),
            ("data", json!({"password": "//79"}), "data.password is not base64-encoded text"),
            ("stringData", json!({"password": 7}), "stringData.password is not a string"),
            ("stringData", json!("hunter2"), "stringData is not a map"),
            ("stringData", json!({"password": "hunter2"}), "url is missing"),
            ("stringData", json!({"url": "/a/path"}), "url is missing"),
        ] {
            let error = Credentials::default().add(&secret(section, &fields)).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
