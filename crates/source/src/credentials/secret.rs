//! Repository Secrets in the format of Argo CD.

use std::collections::BTreeMap;

use tidegate_web::GITHUB_APP_FIELDS;

use super::issuer::{AZURE_IDENTITY_NAME, GITHUB_APP_NAME, GOOGLE_ACCOUNT_NAME};
use super::{AccessSettings, AzureIdentity, Issuer, IssuerKind};
use crate::Address;
use crate::address::{AddressKind, RemoteLocation, parse_location};
use crate::secret_text::SecretText;

/// Fields that don't affect access to a repository.
const IGNORED_FIELDS: [&str; 6] =
    ["url", "name", "forceHttpBasicAuth", "depth", "webhookManifestCacheWarmDisabled", "type"];
/// Field that enables this process's workload identity.
const WORKLOAD: &str = "useAzureWorkloadIdentity";

/// Type of a Secret, according to its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// A single repository.
    Repository,
    /// Credential template for all repositories under a prefix.
    Credentials,
}

/// A Secret, not validated yet. Invalid fields are reported on use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    pub name: String,
    pub kind: SecretKind,
    url: String,
    /// Address as spelled in the Secret.
    written_address: SecretText,
    fields: BTreeMap<String, SecretText>,
}

impl Secret {
    pub fn new(name: String, kind: SecretKind, mut fields: BTreeMap<String, SecretText>) -> Self {
        let said = |name: &str, value: &str| fields.get(name).and_then(SecretText::text) == Some(value);
        let is_registry = said("enableOCI", "true") || said("type", "oci");
        let written = fields.remove("url").map(|url| SecretText(url.0.trim().to_owned())).unwrap_or_default();
        let url = written.text().map(|url| normalize_address(url, is_registry)).unwrap_or_default();
        Self { name, kind, url, written_address: written, fields }
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(SecretText::text)
    }

    fn secret_text(&self, field: &str) -> SecretText {
        self.fields.get(field).cloned().unwrap_or_default()
    }

    fn parse_flag(&self, field: &str) -> Result<bool, String> {
        match self.text(field) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(format!("has an invalid {field}; use true or false")),
        }
    }

    /// Returns true if the Secret names exactly this repository.
    pub fn names_repository(&self, site: &RemoteLocation) -> bool {
        let plain = location_text(site);
        // For registries, the Secret has the address of the charts' folder, not of a single chart.
        let place = plain.rsplit_once('/').map(|(place, _)| place).filter(|_| site.scheme == "oci");
        !self.url.is_empty() && (self.url == plain || place == Some(&self.url))
    }

    /// Returns the Secret's project, or `None` if it applies to all projects.
    pub fn project(&self) -> Option<&str> {
        self.text("project").map(str::trim).filter(|project| !project.is_empty())
    }

    /// Returns true if the Secret's address is a prefix of the repository's. The prefix must not end within
    /// the host.
    pub fn is_prefix_of(&self, site: &RemoteLocation) -> bool {
        let Some(rest) = location_text(site).strip_prefix(self.url.as_str()).map(str::to_owned) else {
            return false;
        };
        let names_host = self.url.split_once("://").is_some_and(|(_, rest)| {
            let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
            !rest.is_empty() && rest != "/"
        });
        let ends_host = self.url.matches('/').count() > 2 || rest.is_empty() || rest.starts_with('/');
        names_host && ends_host
    }

    /// Returns true if the Secret declares a Helm repository or registry with this name.
    pub fn names_chart_repository(&self, name: &str) -> bool {
        let is_of_charts =
            matches!(self.text("type"), Some("helm" | "oci")) || self.text("enableOCI") == Some("true");
        is_of_charts && self.text("name") == Some(name)
    }

    /// Returns the address as spelled in the Secret.
    pub fn written_address(&self) -> &str {
        &self.written_address.0
    }

    /// Returns the address, prefixed with `oci://` if it has no scheme.
    pub fn address(&self) -> String {
        let scheme = if self.written_address.0.contains("://") { "" } else { "oci://" };
        format!("{scheme}{}", self.written_address.0)
    }

    pub fn enables_lfs(&self) -> bool {
        self.text("enableLfs") == Some("true")
    }

    pub fn address_length(&self) -> usize {
        self.url.len()
    }

    /// Returns true if the Secret has a user name or any credentials.
    pub fn has_credentials(&self) -> bool {
        let fields = [
            "username",
            "password",
            "bearerToken",
            "sshPrivateKey",
            "tlsClientCertData",
            "githubAppID",
            "githubAppPrivateKey",
            "gcpServiceAccountKey",
        ];
        let fields = fields.iter().chain(&AzureIdentity::PRINCIPAL_FIELDS);
        fields.into_iter().any(|field| self.text(field).is_some())
            || self.text(WORKLOAD).is_some_and(|value| value != "false")
    }

    /// Overrides access settings with the Secret's fields. The error continues a sentence that starts with
    /// the Secret's name.
    pub fn apply_to(&self, access: &mut AccessSettings, place: &AddressKind) -> Result<(), String> {
        self.validate(place)?;
        access.secret = Some(self.name.clone());
        if let Some(username) = self.text("username") {
            username.clone_into(&mut access.username);
        }
        for (field, place) in [
            ("password", &mut access.password),
            ("bearerToken", &mut access.bearer),
            ("sshPrivateKey", &mut access.ssh_key),
            ("proxy", &mut access.proxy),
        ] {
            if self.text(field).is_some() {
                *place = self.secret_text(field);
            }
        }
        if let Some(kind) = self.issuer(place)? {
            access.issuer = Some(Issuer { secret: self.name.clone(), kind });
        }
        if let Some(no_proxy) = self.text("noProxy") {
            no_proxy.clone_into(&mut access.no_proxy);
        }
        // Only validated here; `enables_lfs` reads the value.
        self.parse_flag("enableLfs")?;
        access.uses_plain_http |= self.parse_flag("insecureOCIForceHttp")?;
        access.is_insecure |= self.parse_flag("insecure")? || self.parse_flag("insecureIgnoreHostKey")?;
        match (self.text("tlsClientCertData"), self.text("tlsClientCertKey")) {
            (None, None) => {}
            (Some(_), Some(_)) => {
                access.client =
                    Some((self.secret_text("tlsClientCertData"), self.secret_text("tlsClientCertKey")));
            }
            _ => return Err("has only one of tlsClientCertData and tlsClientCertKey; set both".to_owned()),
        }
        Ok(())
    }

    /// Returns the issuer of temporary passwords, or `None` if the Secret has a permanent one. As in Argo CD,
    /// that takes precedence.
    fn issuer(&self, place: &AddressKind) -> Result<Option<IssuerKind>, String> {
        let has = |fields: &[&str]| fields.iter().any(|field| self.text(field).is_some());
        if has(&["password", "bearerToken", "sshPrivateKey"]) {
            return Ok(None);
        }
        let is_app = has(&["githubAppID", "githubAppInstallationID", "githubAppPrivateKey"]);
        let is_account = has(&["gcpServiceAccountKey"]);
        let is_workload = self.parse_flag(WORKLOAD)?;
        let what = match (is_app, is_account) {
            (true, _) => GITHUB_APP_NAME,
            (false, true) => GOOGLE_ACCOUNT_NAME,
            (false, false) if is_workload || has(&AzureIdentity::PRINCIPAL_FIELDS) => AZURE_IDENTITY_NAME,
            (false, false) => return Ok(None),
        };
        let text = |field: &str| self.text(field).unwrap_or_default();
        match place {
            AddressKind::Http(_) | AddressKind::Registry(_) if what == AZURE_IDENTITY_NAME && is_workload => {
                Ok(Some(IssuerKind::Azure(AzureIdentity::workload(place))))
            }
            AddressKind::Http(_) if what == AZURE_IDENTITY_NAME => {
                AzureIdentity::principal(text).map(|identity| Some(IssuerKind::Azure(identity)))
            }
            AddressKind::Charts(_) if what == AZURE_IDENTITY_NAME && is_workload => {
                Err(format!("has {what}, which works only for Git repositories and registries (oci://)"))
            }
            AddressKind::Http(site) | AddressKind::Charts(site) | AddressKind::Registry(site) if is_app => {
                IssuerKind::github(text, site).map(Some)
            }
            AddressKind::Http(_) => IssuerKind::google(text("gcpServiceAccountKey")).map(Some),
            AddressKind::Charts(_) | AddressKind::Registry(_) => {
                Err(format!("has {what}, which works only for Git repositories"))
            }
            _ => {
                Err(format!("has {what}, which requires https://; use an https:// URL, or set sshPrivateKey"))
            }
        }
    }

    fn validate(&self, place: &AddressKind) -> Result<(), String> {
        let is_of_charts = matches!(place, AddressKind::Charts(_) | AddressKind::Registry(_));
        match self.text("type") {
            None => {}
            Some("git") if !is_of_charts => {}
            Some("helm" | "oci") if is_of_charts => {}
            Some(kind @ ("git" | "helm" | "oci")) => {
                return Err(format!(
                    "is for repositories of type {kind}, but this repository has a different type"
                ));
            }
            Some(_) => return Err("has an unknown type; use git, helm or oci".to_owned()),
        }
        if self.kind == SecretKind::Credentials && self.project().is_some() {
            return Err(
                "has a project, which is not allowed in a Secret of type repo-creds; remove the project field".to_owned()
            );
        }
        let known = [
            "project",
            "username",
            "password",
            "bearerToken",
            "sshPrivateKey",
            "insecure",
            "insecureIgnoreHostKey",
            "tlsClientCertData",
            "tlsClientCertKey",
            "proxy",
            "noProxy",
            "gcpServiceAccountKey",
            WORKLOAD,
            "enableOCI",
            "insecureOCIForceHttp",
            "enableLfs",
        ];
        let is_known = |field: &str| {
            let all = IGNORED_FIELDS.into_iter().chain(known).chain(GITHUB_APP_FIELDS);
            let all = all.chain(AzureIdentity::PRINCIPAL_FIELDS);
            all.into_iter().any(|one| one == field)
        };
        match self.fields.keys().find(|field| !is_known(field)) {
            Some(field) => Err(format!("has an unknown field {field:?}")),
            None => Ok(()),
        }
    }
}

/// Normalizes an address to `scheme://[user@]host[:port]/path` without `.git`, for comparison.
fn normalize_address(url: &str, is_registry: bool) -> String {
    let of_charts = is_registry || url.starts_with("oci://");
    let parsed = match of_charts {
        true => Address::parse_chart(url, ""),
        false => Address::parse(url, std::path::Path::new("/")),
    };
    match parsed {
        Ok(address) => match address.kind() {
            AddressKind::Http(site)
            | AddressKind::Ssh(site)
            | AddressKind::Charts(site)
            | AddressKind::Registry(site) => location_text(site),
            AddressKind::Local(_) | AddressKind::File(_) => String::new(),
        },
        // A registry without a scheme or a path.
        Err(_) if of_charts && !url.contains("://") => normalize_server(&format!("oci://{url}")),
        Err(_) => normalize_server(url),
    }
}

/// Normalizes an address prefix that is only a server.
fn normalize_server(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let known = match scheme.to_ascii_lowercase().as_str() {
        "https" => Some(("https", 443)),
        "http" => Some(("http", 80)),
        "ssh" | "git+ssh" => Some(("ssh", 22)),
        "oci" => Some(("oci", 443)),
        _ => None,
    };
    let site = known.and_then(|(scheme, usual)| parse_location(url, scheme, usual, rest, false).ok());
    site.map_or_else(|| url.to_owned(), |site| site.to_string()).to_ascii_lowercase()
}

fn location_text(site: &RemoteLocation) -> String {
    // A path relative to the home folder counts as the same, since it is on the same server.
    let url = RemoteLocation { is_relative_to_home: false, ..site.clone() }.to_string().to_ascii_lowercase();
    url.strip_suffix(".git").map(str::to_owned).unwrap_or(url)
}
