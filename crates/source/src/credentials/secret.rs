//! One repository Secret.

use std::collections::BTreeMap;

use tidegate_web::GITHUB_APP_FIELDS;

use super::issuer::{ACCOUNT, APP, IDENTITY};
use super::{Access, AzureIdentity, Issuer, IssuerKind};
use crate::Address;
use crate::address::{Place, Site};
use crate::hidden::Hidden;

/// Fields that make no difference to reading a repository.
const IDLE: [&str; 6] =
    ["url", "name", "forceHttpBasicAuth", "depth", "webhookManifestCacheWarmDisabled", "type"];
/// Whether the identity of this process is asked for.
const WORKLOAD: &str = "useAzureWorkloadIdentity";

/// What a Secret is for: the value of its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// The one repository whose address it gives.
    Repository,
    /// All repositories whose address begins so.
    Credentials,
}

/// A Secret as it is written down. What of it cannot be used is said when it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    pub name: String,
    pub kind: SecretKind,
    url: String,
    /// The address as it was written.
    written: Hidden,
    fields: BTreeMap<String, Hidden>,
}

impl Secret {
    pub fn new(name: String, kind: SecretKind, mut fields: BTreeMap<String, Hidden>) -> Self {
        let said = |name: &str, value: &str| fields.get(name).and_then(Hidden::text) == Some(value);
        let is_registry = said("enableOCI", "true") || said("type", "oci");
        let written = fields.remove("url").map(|url| Hidden(url.0.trim().to_owned())).unwrap_or_default();
        let url = written.text().map(|url| normal(url, is_registry)).unwrap_or_default();
        Self { name, kind, url, written, fields }
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Hidden::text)
    }

    fn hidden(&self, field: &str) -> Hidden {
        self.fields.get(field).cloned().unwrap_or_default()
    }

    fn flag(&self, field: &str) -> Result<bool, String> {
        match self.text(field) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(format!("has a field {field} that is neither true nor false")),
        }
    }

    /// Whether it names this repository.
    pub fn is_of(&self, site: &Site) -> bool {
        let plain = plain(site);
        // Of a registry, what is written is the place of charts, and not one of them.
        let place = plain.rsplit_once('/').map(|(place, _)| place).filter(|_| site.scheme == "oci");
        !self.url.is_empty() && (self.url == plain || place == Some(&self.url))
    }

    /// The project whose Applications alone it is for.
    pub fn project(&self) -> Option<&str> {
        self.text("project").map(str::trim).filter(|project| !project.is_empty())
    }

    /// Whether it names the beginning of this repository's address. Of a host it has to name all.
    pub fn begins(&self, site: &Site) -> bool {
        let Some(rest) = plain(site).strip_prefix(self.url.as_str()).map(str::to_owned) else { return false };
        let names_host = self.url.split_once("://").is_some_and(|(_, rest)| {
            let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
            !rest.is_empty() && rest != "/"
        });
        let ends_host = self.url.matches('/').count() > 2 || rest.is_empty() || rest.starts_with('/');
        names_host && ends_host
    }

    /// Whether it is of charts, and has this name for people.
    pub fn names_charts(&self, name: &str) -> bool {
        let is_of_charts =
            matches!(self.text("type"), Some("helm" | "oci")) || self.text("enableOCI") == Some("true");
        is_of_charts && self.text("name") == Some(name)
    }

    /// The address that it is for, as it is written.
    pub fn written(&self) -> &str {
        &self.written.0
    }

    /// The address that it is for, with its scheme.
    pub fn address(&self) -> String {
        let scheme = if self.written.0.contains("://") { "" } else { "oci://" };
        format!("{scheme}{}", self.written.0)
    }

    /// Whether files that Git LFS keeps are fetched.
    pub fn enables_lfs(&self) -> bool {
        self.text("enableLfs") == Some("true")
    }

    pub fn length(&self) -> usize {
        self.url.len()
    }

    /// Whether it says who asks, or how that is proved.
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

    /// Writes what it says over what is known. The error goes on after the name of the Secret.
    pub fn give(&self, access: &mut Access, place: &Place) -> Result<(), String> {
        self.check(place)?;
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
                *place = self.hidden(field);
            }
        }
        if let Some(kind) = self.issuer(place)? {
            access.issuer = Some(Issuer { secret: self.name.clone(), kind });
        }
        if let Some(no_proxy) = self.text("noProxy") {
            no_proxy.clone_into(&mut access.no_proxy);
        }
        // What it says is asked for by itself; that it says it well is told with the rest.
        self.flag("enableLfs")?;
        access.plain_http |= self.flag("insecureOCIForceHttp")?;
        access.insecure |= self.flag("insecure")? || self.flag("insecureIgnoreHostKey")?;
        match (self.text("tlsClientCertData"), self.text("tlsClientCertKey")) {
            (None, None) => {}
            (Some(_), Some(_)) => {
                access.client = Some((self.hidden("tlsClientCertData"), self.hidden("tlsClientCertKey")));
            }
            _ => return Err("has only one of tlsClientCertData and tlsClientCertKey".to_owned()),
        }
        Ok(())
    }

    /// Who gives a password for a while. What lasts goes before it, as Argo CD has it: then nobody is asked.
    fn issuer(&self, place: &Place) -> Result<Option<IssuerKind>, String> {
        let has = |fields: &[&str]| fields.iter().any(|field| self.text(field).is_some());
        if has(&["password", "bearerToken", "sshPrivateKey"]) {
            return Ok(None);
        }
        let is_app = has(&["githubAppID", "githubAppInstallationID", "githubAppPrivateKey"]);
        let is_account = has(&["gcpServiceAccountKey"]);
        let is_workload = self.flag(WORKLOAD)?;
        let what = match (is_app, is_account) {
            (true, _) => APP,
            (false, true) => ACCOUNT,
            (false, false) if is_workload || has(&AzureIdentity::PRINCIPAL_FIELDS) => IDENTITY,
            (false, false) => return Ok(None),
        };
        let text = |field: &str| self.text(field).unwrap_or_default();
        match place {
            Place::Http(_) | Place::Registry(_) if what == IDENTITY && is_workload => {
                Ok(Some(IssuerKind::Azure(AzureIdentity::workload(place))))
            }
            Place::Http(_) if what == IDENTITY => {
                AzureIdentity::principal(text).map(|identity| Some(IssuerKind::Azure(identity)))
            }
            Place::Charts(_) if what == IDENTITY && is_workload => {
                Err(format!("has {what}, which is for Git repositories and registries (oci://) alone"))
            }
            Place::Http(site) | Place::Charts(site) | Place::Registry(site) if is_app => {
                IssuerKind::github(text, site).map(Some)
            }
            Place::Http(_) => IssuerKind::google(text("gcpServiceAccountKey")).map(Some),
            Place::Charts(_) | Place::Registry(_) => {
                Err(format!("has {what}, which is for Git repositories alone"))
            }
            _ => Err(format!(
                "has {what}, which is for https:// alone; name the repository so, or give sshPrivateKey"
            )),
        }
    }

    fn check(&self, place: &Place) -> Result<(), String> {
        let is_of_charts = matches!(place, Place::Charts(_) | Place::Registry(_));
        match self.text("type") {
            None => {}
            Some("git") if !is_of_charts => {}
            Some("helm" | "oci") if is_of_charts => {}
            Some(kind @ ("git" | "helm" | "oci")) => {
                return Err(format!("is for a repository of type {kind}, and this is another one"));
            }
            Some(_) => return Err("has a type that is none of git, helm and oci".to_owned()),
        }
        if self.kind == SecretKind::Credentials && self.project().is_some() {
            return Err(
                "has a project, which only a Secret of one repository can have; take that away".to_owned()
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
            let all = IDLE.into_iter().chain(known).chain(GITHUB_APP_FIELDS);
            let all = all.chain(AzureIdentity::PRINCIPAL_FIELDS);
            all.into_iter().any(|one| one == field)
        };
        match self.fields.keys().find(|field| !is_known(field)) {
            Some(field) => Err(format!("has a field {field:?} that is not known")),
            None => Ok(()),
        }
    }
}

/// An address as it is compared, however it was written: `scheme://[user@]host[:port]/path`, without `.git`.
fn normal(url: &str, is_registry: bool) -> String {
    let of_charts = is_registry || url.starts_with("oci://");
    let parsed = match of_charts {
        true => Address::of_chart(url, ""),
        false => Address::parse(url, std::path::Path::new("/")),
    };
    match parsed {
        Ok(address) => match address.place() {
            Place::Http(site) | Place::Ssh(site) | Place::Charts(site) | Place::Registry(site) => plain(site),
            Place::Local(_) | Place::File(_) => String::new(),
        },
        // A registry alone.
        Err(_) if of_charts && !url.contains("://") => format!("oci://{}", url.to_ascii_lowercase()),
        // The beginning of an address, without a path.
        Err(_) => url.to_ascii_lowercase(),
    }
}

fn plain(site: &Site) -> String {
    // However it is written: what is at home is on the same server.
    let url = Site { at_home: false, ..site.clone() }.to_string().to_ascii_lowercase();
    url.strip_suffix(".git").map(str::to_owned).unwrap_or(url)
}
