//! What is known of how repositories may be reached: the repository Secrets of Argo CD, its known hosts and its certificates.
//!
//! [`Credentials`] finds what is meant for a repository; it is plain data. `load` reads it from files of manifests. Who gives a
//! password for a while, where a Secret has none that lasts, is an `issuer`; `remote` asks it.

mod azure;
mod issuer;
mod load;
mod secret;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use tidegate_web::is_this_machine;

use crate::address::{Place, Site};
use crate::hidden::Hidden;
use crate::{Address, SourceError};
pub use azure::AzureWorkload;
pub(crate) use azure::{AzureIdentity, AzureProof};
pub(crate) use issuer::{GoogleAccount, Issuer, IssuerKind};
pub use load::CredentialsError;
use secret::{Secret, SecretKind};

/// What stands for a secret in words of a server.
const SHOWN: &str = "***";

/// How repositories may be reached, as Argo CD writes it down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    secrets: Vec<Secret>,
    /// The projects that have Secrets of their own.
    projects: BTreeSet<String>,
    /// Certificates in PEM by host: those alone are trusted of that host.
    certificates: BTreeMap<String, String>,
    /// Hosts and their keys, as `ssh` reads them.
    known_hosts: String,
    /// Public keys that signatures are checked with, by their ids.
    pub(crate) signing: BTreeMap<String, String>,
}

/// How one repository may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// The Secret that says so.
    pub secret: Option<String>,
    pub username: String,
    pub password: Hidden,
    pub bearer: Hidden,
    pub ssh_key: Hidden,
    /// A registry is asked by HTTP.
    pub plain_http: bool,
    /// Neither certificates nor host keys are checked.
    pub insecure: bool,
    /// What this side shows of itself: a certificate and its key, in PEM.
    pub client: Option<(Hidden, Hidden)>,
    /// The address of a proxy may have a password.
    pub proxy: Hidden,
    pub no_proxy: String,
    pub certificates: Option<String>,
    /// Who gives the password, where none is written down.
    pub issuer: Option<Issuer>,
    /// The repository that is asked with that.
    pub repository: String,
    /// The same as the certificates, for the host of the issuer.
    pub issuer_certificates: Option<String>,
    pub known_hosts: String,
    /// Addresses of this machine are not asked.
    pub bars_loopback: bool,
}

impl Access {
    /// The value of the `Authorization` header.
    pub fn authorization(&self) -> Option<String> {
        if let Some(token) = self.bearer.text() {
            return Some(format!("Bearer {token}"));
        }
        let password = self.password.text()?;
        Some(format!("Basic {}", STANDARD.encode(format!("{}:{password}", self.username))))
    }

    /// What to do, where others on the way to a site can read along.
    fn read_along(&self, site: &Site) -> Option<&'static str> {
        let hint = match site.scheme {
            "http" => "name the repository so",
            "oci" if self.plain_http => "take insecureOCIForceHttp away",
            _ => return None,
        };
        (!is_this_machine(&site.host)).then_some(hint)
    }

    /// The same access to the same server, showing nobody who asks.
    pub fn nameless(&self) -> Self {
        let (username, password, bearer) = Default::default();
        Self { username, password, bearer, ..self.clone() }
    }

    /// The same access, with a token of its issuer as password.
    pub fn with_token(&self, issuer: &Issuer, token: &str) -> Self {
        let token = Hidden(token.to_owned());
        let (password, bearer) =
            if issuer.kind.is_bearer() { (Hidden::default(), token) } else { (token, Hidden::default()) };
        Self {
            secret: Some(issuer.secret.clone()),
            username: issuer.kind.username().to_owned(),
            password,
            bearer,
            ..self.clone()
        }
    }

    /// A text without what is secret of it: a server may repeat what it was sent.
    pub fn hide(&self, text: String) -> String {
        let authorization = self.authorization().unwrap_or_default();
        let encoded = authorization.split_once(' ').map_or("", |(_, value)| value);
        let secrets = [self.password.text(), self.bearer.text(), self.proxy.text(), Some(encoded)];
        let secrets = secrets.into_iter().flatten().filter(|secret| !secret.is_empty());
        secrets.fold(text, |text, secret| text.replace(secret, SHOWN))
    }
}

impl Credentials {
    /// The address of the Helm repository, or the place of charts, to which a Secret gives a name: one of the project, or one
    /// for all.
    pub(crate) fn named_charts(&self, name: &str, project: &str) -> Option<String> {
        let named = |project: Option<&str>| self.repositories(project).find(|one| one.names_charts(name));
        named(Some(project)).or_else(|| named(None)).map(Secret::address)
    }

    /// The Secrets of one repository each that are for a project alone, or for all.
    fn repositories(&self, project: Option<&str>) -> impl Iterator<Item = &Secret> {
        let is_meant = move |one: &&Secret| one.kind == SecretKind::Repository && one.project() == project;
        self.secrets.iter().filter(is_meant)
    }

    /// The addresses of the repositories that a project has Secrets of its own for, as they are written there.
    pub fn of_project(&self, project: &str) -> Vec<String> {
        if !self.projects.contains(project) {
            return Vec::new();
        }
        self.repositories(Some(project)).map(|one| one.written().to_owned()).collect()
    }

    /// The same of all projects that have any.
    pub fn by_project(&self) -> BTreeMap<String, Vec<String>> {
        self.projects.iter().map(|project| (project.clone(), self.of_project(project))).collect()
    }

    /// The repository as a project has it: its own, where it has a Secret of its own for it.
    pub(crate) fn as_of(&self, address: Address, project: &str) -> Address {
        let has_any = self.projects.contains(project);
        let is_own = |site| has_any && self.repositories(Some(project)).any(|one| one.is_of(site));
        match address.place().site().is_some_and(is_own) {
            true => address.of_project(project),
            false => address,
        }
    }

    /// How a repository may be reached: by the Secret that names it; what that does not say, by the longest of those that name
    /// the beginning of its address.
    pub(crate) fn access(&self, address: &Address) -> Result<Access, SourceError> {
        let Some(site) = address.place().site() else {
            let certificates = address.site().and_then(|site| self.certificates.get(&site.host).cloned());
            return Ok(Access { certificates, ..Access::default() });
        };
        let mut access = Access {
            certificates: self.certificates.get(&site.host).cloned(),
            known_hosts: self.known_hosts.clone(),
            repository: address.to_string(),
            ..Access::default()
        };
        // Once for what both say, and the one that is nearer last.
        for secret in self.meant_for(site, address.project()) {
            secret.give(&mut access, address.place()).map_err(|reason| SourceError::Credentials {
                repository: address.to_string(),
                secret: secret.name.clone(),
                reason,
            })?;
        }
        if let (Some(issuer), Some(hint)) = (&access.issuer, access.read_along(site)) {
            let what = issuer.kind.what();
            return Err(SourceError::Credentials {
                repository: address.to_string(),
                secret: issuer.secret.clone(),
                reason: format!("has {what}, which is for https:// alone; {hint}"),
            });
        }
        if access.username.is_empty() {
            access.username = user(site);
        }
        let asked = access.issuer.as_ref().and_then(|issuer| issuer.kind.address().parse::<Uri>().ok());
        let asked = asked.as_ref().and_then(Uri::host).map(str::to_ascii_lowercase);
        access.issuer_certificates = asked.and_then(|host| self.certificates.get(&host).cloned());
        Ok(access)
    }

    /// The Secrets that are meant for a site, the one that is nearer last. What a project has of its own is not for others, and
    /// what is for all is not for who has an own one.
    fn meant_for(&self, site: &Site, project: Option<&str>) -> impl Iterator<Item = &Secret> {
        let own = self.repositories(project).find(|one| one.is_of(site));
        let shared =
            self.secrets.iter().filter(|one| one.kind == SecretKind::Credentials && one.begins(site));
        let shared = shared.max_by_key(|one| one.length());
        let shared = shared.filter(|_| own.is_none_or(|own| !own.has_credentials()));
        [shared, own].into_iter().flatten()
    }

    /// Whether files of a repository that Git LFS keeps are fetched.
    pub(crate) fn enables_lfs(&self, address: &Address) -> bool {
        match address.place() {
            Place::Http(site) | Place::Ssh(site) => {
                self.meant_for(site, address.project()).any(Secret::enables_lfs)
            }
            _ => false,
        }
    }

    /// How a server beside that of a repository may be reached, which is shown nothing of who asks.
    pub(crate) fn elsewhere(&self, access: &Access, host: &str) -> Access {
        Access {
            secret: access.secret.clone(),
            insecure: access.insecure,
            proxy: access.proxy.clone(),
            no_proxy: access.no_proxy.clone(),
            certificates: self.certificates.get(&host.to_ascii_lowercase()).cloned(),
            bars_loopback: access.bars_loopback,
            ..Access::default()
        }
    }

    /// The Secrets that others have in the same words.
    pub(crate) fn unchanged(&self, others: &Self) -> BTreeSet<String> {
        let same = self.secrets.iter().filter(|one| others.secrets.contains(one));
        same.map(|one| one.name.clone()).collect()
    }
}

/// Who asks, where nobody says: most servers ask for some name beside a token.
fn user(site: &Site) -> String {
    let user = site.user.as_ref().and_then(Hidden::text);
    user.unwrap_or("git").to_owned()
}
