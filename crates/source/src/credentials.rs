//! Repository credentials from Argo CD's repository Secrets, known hosts and certificates.
//!
//! [`Credentials`] is plain data, read from objects by `load`, that selects the credentials for a repository.
//! If a Secret has no permanent password, an `Issuer` tells `remote` where to get temporary ones.

mod azure;
mod issuer;
mod load;
mod secret;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use tidegate_model::Host;
use tidegate_web::is_local_host;

use crate::address::{AddressKind, RemoteLocation};
use crate::secret_text::SecretText;
use crate::{Address, SourceError};
pub use azure::AzureWorkload;
pub(crate) use azure::{AzureIdentity, AzureProof};
pub(crate) use issuer::{GoogleAccount, Issuer, IssuerKind};
pub use load::CredentialsError;
use secret::{Secret, SecretKind};

/// Replacement for secrets in server messages.
const MASK: &str = "***";

/// Repository credentials, as configured for Argo CD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    secrets: Vec<Secret>,
    /// Projects with their own Secrets.
    projects: BTreeSet<String>,
    /// Trusted certificates (PEM) by host. For a host with an entry, no other certificates are trusted.
    certificates: BTreeMap<String, String>,
    /// Known hosts, in `ssh` format.
    known_hosts: String,
    /// Public keys for verifying signatures, by key ID.
    pub(crate) signing: BTreeMap<String, String>,
}

/// Settings for access to one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessSettings {
    /// Name of the most specific Secret behind the settings.
    pub secret: Option<String>,
    pub username: String,
    pub password: SecretText,
    pub bearer: SecretText,
    pub ssh_key: SecretText,
    /// True if the registry uses plain HTTP.
    pub uses_plain_http: bool,
    /// True if certificates and SSH host keys aren't verified.
    pub is_insecure: bool,
    /// Client certificate and its private key (PEM).
    pub client: Option<(SecretText, SecretText)>,
    /// Proxy URL, which may include a password.
    pub proxy: SecretText,
    pub no_proxy: String,
    pub certificates: Option<String>,
    /// Issuer of temporary passwords, if the Secret has no permanent one.
    pub issuer: Option<Issuer>,
    /// Repository these settings apply to.
    pub repository: String,
    /// Trusted certificates (PEM) for the issuer's host.
    pub issuer_certificates: Option<String>,
    pub known_hosts: String,
    /// True if loopback addresses are blocked.
    pub blocks_loopback: bool,
}

impl AccessSettings {
    /// Returns the value of the `Authorization` header.
    pub fn authorization(&self) -> Option<String> {
        if let Some(token) = self.bearer.text() {
            return Some(format!("Bearer {token}"));
        }
        let password = self.password.text()?;
        Some(format!("Basic {}", STANDARD.encode(format!("{}:{password}", self.username))))
    }

    /// Returns advice on protecting the credentials if connecting to the site would expose them.
    fn exposure_remedy(&self, site: &RemoteLocation) -> Option<&'static str> {
        let hint = match site.scheme {
            "http" => "use an https:// URL",
            "oci" if self.uses_plain_http => "remove insecureOCIForceHttp",
            _ => return None,
        };
        (!is_local_host(&site.host)).then_some(hint)
    }

    pub fn without_credentials(&self) -> Self {
        let (username, password, bearer) = Default::default();
        Self { username, password, bearer, ..self.clone() }
    }

    /// Returns the settings with the issuer's token as the password.
    pub fn with_token(&self, issuer: &Issuer, token: &str) -> Self {
        let token = SecretText(token.to_owned());
        let (password, bearer) = if issuer.kind.is_bearer() {
            (SecretText::default(), token)
        } else {
            (token, SecretText::default())
        };
        Self {
            secret: Some(issuer.secret.clone()),
            username: issuer.kind.username().to_owned(),
            password,
            bearer,
            ..self.clone()
        }
    }

    /// Masks secrets in a message. Servers may echo parts of a request.
    pub fn mask_secrets(&self, text: String) -> String {
        let authorization = self.authorization().unwrap_or_default();
        let encoded = authorization.split_once(' ').map_or("", |(_, value)| value);
        let secrets = [self.password.text(), self.bearer.text(), self.proxy.text(), Some(encoded)];
        let secrets = secrets.into_iter().flatten().filter(|secret| !secret.is_empty());
        secrets.fold(text, |text, secret| text.replace(secret, MASK))
    }
}

impl Credentials {
    /// Returns the address of the Helm repository or registry that a Secret declares as `name`. The project's
    /// own Secrets take precedence over shared ones.
    pub(crate) fn find_chart_repository(&self, name: &str, project: &str) -> Option<String> {
        let named =
            |project: Option<&str>| self.repositories(project).find(|one| one.names_chart_repository(name));
        named(Some(project)).or_else(|| named(None)).map(Secret::address)
    }

    /// Returns a project's repository Secrets, or the shared ones if `project` is `None`.
    fn repositories(&self, project: Option<&str>) -> impl Iterator<Item = &Secret> {
        let is_meant = move |one: &&Secret| one.kind == SecretKind::Repository && one.project() == project;
        self.secrets.iter().filter(is_meant)
    }

    /// Returns the addresses in a project's own repository Secrets, as written.
    pub fn addresses_of_project(&self, project: &str) -> Vec<String> {
        if !self.projects.contains(project) {
            return Vec::new();
        }
        self.repositories(Some(project)).map(|one| one.written_address().to_owned()).collect()
    }

    /// Returns [`Self::addresses_of_project`] for every project with its own Secrets.
    pub fn addresses_by_project(&self) -> BTreeMap<String, Vec<String>> {
        self.projects.iter().map(|project| (project.clone(), self.addresses_of_project(project))).collect()
    }

    /// Returns the address as seen by a project, which differs if the project has its own Secret for the
    /// repository.
    pub(crate) fn address_for_project(&self, address: Address, project: &str) -> Address {
        let has_any = self.projects.contains(project);
        let is_own = |site| has_any && self.repositories(Some(project)).any(|one| one.names_repository(site));
        match address.kind().location().is_some_and(is_own) {
            true => address.for_project(project),
            false => address,
        }
    }

    /// Returns the settings for accessing a repository: its own Secret, completed by the credential template
    /// with the longest matching prefix.
    pub(crate) fn access_to(&self, address: &Address) -> Result<AccessSettings, SourceError> {
        let Some(site) = address.kind().location() else {
            let certificates = address.site().and_then(|site| self.certificates.get(&site.host).cloned());
            return Ok(AccessSettings { certificates, ..AccessSettings::default() });
        };
        let mut access = AccessSettings {
            certificates: self.certificates.get(&site.host).cloned(),
            known_hosts: self.known_hosts.clone(),
            repository: address.to_string(),
            ..AccessSettings::default()
        };
        // The most specific Secret comes last and overrides the others.
        for secret in self.matching_secrets(site, address.project()) {
            secret.apply_to(&mut access, address.kind()).map_err(|reason| SourceError::Credentials {
                repository: address.to_string(),
                secret: secret.name.clone(),
                reason,
            })?;
        }
        if let (Some(issuer), Some(hint)) = (&access.issuer, access.exposure_remedy(site)) {
            let what = issuer.kind.credential_name();
            return Err(SourceError::Credentials {
                repository: address.to_string(),
                secret: issuer.secret.clone(),
                reason: format!("has {what}, which requires https://; {hint}"),
            });
        }
        if access.username.is_empty() {
            access.username = default_user(site);
        }
        let asked = access.issuer.as_ref().and_then(|issuer| issuer.kind.token_server().parse::<Uri>().ok());
        let asked = asked.as_ref().and_then(Uri::host).map(|host| Host::parse(host).to_string());
        access.issuer_certificates = asked.and_then(|host| self.certificates.get(&host).cloned());
        Ok(access)
    }

    /// Returns the Secrets that apply to a repository, most specific last. A repository Secret must have the
    /// same project, or likewise none.
    fn matching_secrets(
        &self,
        site: &RemoteLocation,
        project: Option<&str>,
    ) -> impl Iterator<Item = &Secret> {
        let own = self.repositories(project).find(|one| one.names_repository(site));
        let shared =
            self.secrets.iter().filter(|one| one.kind == SecretKind::Credentials && one.is_prefix_of(site));
        let shared = shared.max_by_key(|one| one.address_length());
        let shared = shared.filter(|_| own.is_none_or(|own| !own.has_credentials()));
        [shared, own].into_iter().flatten()
    }

    pub(crate) fn enables_lfs(&self, address: &Address) -> bool {
        match address.kind() {
            AddressKind::Http(site) | AddressKind::Ssh(site) => {
                self.matching_secrets(site, address.project()).any(Secret::enables_lfs)
            }
            _ => false,
        }
    }

    /// Returns credential-free settings for a server other than the repository's own.
    pub(crate) fn access_to_other_host(&self, access: &AccessSettings, host: &str) -> AccessSettings {
        AccessSettings {
            secret: access.secret.clone(),
            is_insecure: access.is_insecure,
            proxy: access.proxy.clone(),
            no_proxy: access.no_proxy.clone(),
            certificates: self.certificates.get(&Host::parse(host).to_string()).cloned(),
            blocks_loopback: access.blocks_loopback,
            ..AccessSettings::default()
        }
    }

    /// Returns the names of the Secrets unchanged between the two.
    pub(crate) fn unchanged_secrets(&self, others: &Self) -> BTreeSet<String> {
        let same = self.secrets.iter().filter(|one| others.secrets.contains(one));
        same.map(|one| one.name.clone()).collect()
    }
}

/// Returns the default user name. Most servers want one along with a token.
fn default_user(site: &RemoteLocation) -> String {
    let user = site.user.as_ref().and_then(SecretText::text);
    user.unwrap_or("git").to_owned()
}
