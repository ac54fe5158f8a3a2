//! OpenID provider settings and roles, defined in a YAML or JSON file.
//!
//! ```yaml
//! issuer: https://id.example.com/realms/main
//! name: Example ID                      # on the button; the host of the issuer if omitted
//! clientId: tidegate
//! clientSecretFile: client-secret       # relative to this file; omitted for a public client
//! url: https://deploy.example.com       # public address of the page
//! roles:
//!   groups: {platform: operator, developers: read-only}
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidegate_model::parse_duration;

use super::identity::ClaimNames;
use crate::access::Role;
use crate::error::ServerError;
use crate::loopback::is_loopback_host;
use crate::sessions::LIFETIME_MAX;
use crate::tls::check_permissions;

/// Maximum size of the file in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Maximum length of a text field in bytes.
const TEXT_MAX: usize = 512;
/// Minimum lifetime of a session.
const SESSION_LIFETIME_MIN: Duration = Duration::from_secs(60);
/// Default scopes. `groups` is added if the provider supports it.
const DEFAULT_SCOPES: [&str; 3] = [OPENID_SCOPE, "profile", "email"];
/// Scope that requests an ID token.
const OPENID_SCOPE: &str = "openid";
/// Permission bits that allow other users to write.
const OTHERS_WRITE: u32 = 0o022;
const PERMISSION_BITS: u32 = 0o777;

/// OpenID provider settings and roles.
#[derive(Debug)]
pub(crate) struct OidcSettings {
    pub issuer: String,
    /// Display name of the provider.
    pub name: String,
    pub client_id: String,
    /// File with the client secret, or `None` for a public client.
    secret_file: Option<PathBuf>,
    /// Scheme and authority of the page. `None` if it is only available on this machine, under any of the
    /// machine's names.
    pub url: Option<Uri>,
    /// Scopes to request, or `None` for the default.
    scopes: Option<Vec<String>>,
    pub claim_names: ClaimNames,
    /// Trusted certificate authorities in PEM, or `None` for the system's.
    pub authorities: Option<String>,
    pub session_lifetime: Duration,
    pub roles: Roles,
    /// Digest of the file.
    pub digest: [u8; 32],
}

/// Roles for users and groups.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Roles {
    groups: BTreeMap<String, Role>,
    people: BTreeMap<String, Role>,
}

impl Roles {
    /// Returns a user's highest role, by name and by groups.
    pub fn find_role(&self, name: &str, groups: &[String]) -> Option<Role> {
        let by_groups = groups.iter().filter_map(|group| self.groups.get(group));
        by_groups.chain(self.people.get(name)).max().copied()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SettingsFile {
    issuer: String,
    name: Option<String>,
    client_id: String,
    client_secret_file: Option<PathBuf>,
    url: Option<String>,
    scopes: Option<Vec<String>>,
    name_claim: Option<String>,
    groups_claim: Option<String>,
    ca_file: Option<PathBuf>,
    session_lasts: Option<String>,
    roles: Roles,
}

impl OidcSettings {
    /// Reads the settings. `is_here` is true if the service only listens on this machine.
    pub fn read(path: &Path, is_here: bool) -> Result<Self, ServerError> {
        let wrong = |why: String| ServerError::InvalidOidc { path: path.to_owned(), why };
        let text = read_file(path, "other users could give themselves a role")?;
        // The parser's message may quote a line with a misplaced secret, so report only the position.
        let read: Value = serde_saphyr::from_str(&text).map_err(|error| {
            let place =
                error.location().map(|place| format!(" at line {}", place.line())).unwrap_or_default();
            wrong(format!("invalid YAML{place}: expected issuer, clientId and roles"))
        })?;
        let written: SettingsFile = serde_path_to_error::deserialize(read).map_err(|error| {
            let at = error.path().to_string();
            wrong(if at == "." { error.into_inner().to_string() } else { format!("{at}: {}", error.inner()) })
        })?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let ca = written.ca_file.as_ref().map(|path| folder.join(path));
        let authorities =
            ca.map(|path| read_file(&path, "other users could impersonate the provider")).transpose()?;
        let settings = Self::from_file(written, folder, authorities, is_here).map_err(wrong)?;
        settings.read_secret()?;
        Ok(Self { digest: Sha256::digest(text.as_bytes()).into(), ..settings })
    }

    fn from_file(
        written: SettingsFile,
        folder: &Path,
        authorities: Option<String>,
        is_here: bool,
    ) -> Result<Self, String> {
        let at = |field: &'static str| move |reason: String| format!("{field}: {reason}");
        let issuer = parse_issuer(&written.issuer).map_err(at("issuer"))?;
        let name = written.name.unwrap_or_else(|| issuer.host().unwrap_or_default().to_owned());
        check_text(&name).map_err(at("name"))?;
        check_text(&written.client_id).map_err(at("clientId"))?;
        let url = written.url.as_deref().map(parse_page_url).transpose().map_err(at("url"))?;
        if url.is_none() && !is_here {
            return Err(
                "url: missing; it is required if the service is reachable from other machines: use the \
                 page's address, such as https://deploy.example.com"
                    .to_owned(),
            );
        }
        if let Some(scopes) = &written.scopes {
            let is_plain =
                |scope: &String| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic());
            if !scopes.iter().all(is_plain) || !scopes.iter().any(|scope| scope == OPENID_SCOPE) {
                return Err("scopes: invalid list: use words without spaces, and include openid".to_owned());
            }
        }
        for (field, claim) in [("nameClaim", &written.name_claim), ("groupsClaim", &written.groups_claim)] {
            claim.as_deref().map(check_text).transpose().map_err(at(field))?;
        }
        let session_lifetime =
            parse_session_lifetime(written.session_lasts.as_deref()).map_err(at("sessionLasts"))?;
        let roles = written.roles;
        if roles.groups.is_empty() && roles.people.is_empty() {
            return Err(
                "roles: empty, so no user could sign in: add groups, such as `groups: {platform: operator}`"
                    .to_owned(),
            );
        }
        // Users can choose the values of some default claims and could impersonate others.
        if !roles.people.is_empty() && written.name_claim.is_none() {
            return Err("nameClaim: missing; roles.people requires it: use a claim that is unique for each \
                 user, such as sub or email"
                .to_owned());
        }
        Ok(Self {
            issuer: written.issuer,
            name,
            client_id: written.client_id,
            secret_file: written.client_secret_file.map(|path| folder.join(path)),
            url,
            scopes: written.scopes,
            claim_names: ClaimNames::new(written.name_claim, written.groups_claim),
            authorities,
            session_lifetime,
            roles,
            digest: [0; 32],
        })
    }

    /// Returns the client secret. Reads the file each time, so that the secret can be rotated.
    pub fn read_secret(&self) -> Result<Option<String>, ServerError> {
        let Some(path) = &self.secret_file else { return Ok(None) };
        let wrong = |source| ServerError::ReadFile { path: path.clone(), source };
        let found = fs::metadata(path).map_err(wrong)?;
        let reason = "other users could use the client secret to impersonate this service";
        check_permissions(path, &found, reason, "run chmod go-w,o-r")?;
        let secret = read_file(path, reason)?.trim().to_owned();
        match secret.is_empty() {
            true => Err(ServerError::InvalidOidc {
                path: path.clone(),
                why: "the file is empty: write the client secret to it".to_owned(),
            }),
            false => Ok(Some(secret)),
        }
    }

    /// Returns the scopes to request from a provider that supports `supported`.
    pub fn scopes(&self, supported: &[String]) -> String {
        match &self.scopes {
            Some(scopes) => scopes.join(" "),
            None => {
                let groups = supported.iter().any(|scope| scope == "groups").then_some("groups");
                DEFAULT_SCOPES.into_iter().chain(groups).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// Returns the content of a file. Rejects a file that other users can write to.
fn read_file(path: &Path, why: &'static str) -> Result<String, ServerError> {
    let wrong = |source| ServerError::ReadFile { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(wrong)?;
    if found.len() > FILE_MAX {
        return Err(wrong(io::ErrorKind::FileTooLarge.into()));
    }
    let mode = found.permissions().mode() & PERMISSION_BITS;
    if mode & OTHERS_WRITE != 0 {
        let advice = "run chmod go-w";
        return Err(ServerError::FilePermissions { path: path.to_owned(), mode, why, advice });
    }
    fs::read_to_string(path).map_err(wrong)
}

fn check_text(text: &str) -> Result<(), String> {
    let is_shown = !text.trim().is_empty() && text.len() <= TEXT_MAX && !text.chars().any(char::is_control);
    is_shown.then_some(()).ok_or_else(|| format!("invalid text: use 1 to {TEXT_MAX} bytes in one line"))
}

fn parse_session_lifetime(text: Option<&str>) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(LIFETIME_MAX) };
    let lifetime = parse_duration(text).map_err(|error| error.to_string())?;
    match (SESSION_LIFETIME_MIN..=LIFETIME_MAX).contains(&lifetime) {
        true => Ok(lifetime),
        false => Err("out of range: use 1m to 12h".to_owned()),
    }
}

/// Parses the URL of a provider, or of one of its endpoints.
pub(super) fn parse_server_url(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|_| "invalid URL".to_owned())?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let names_somebody = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    match uri.scheme_str() {
        _ if host.is_empty() || names_somebody || text.contains('#') => {
            Err("invalid URL: it must have a host, and no user, password or fragment".to_owned())
        }
        Some("https") => Ok(uri),
        Some("http") if is_loopback_host(host) => Ok(uri),
        _ => {
            Err("invalid URL: it must start with https://; http:// is allowed only for this machine"
                .to_owned())
        }
    }
}

fn parse_issuer(text: &str) -> Result<Uri, String> {
    let uri = parse_server_url(text)?;
    match uri.query() {
        None => Ok(uri),
        Some(_) => Err("invalid issuer: it must not have a query".to_owned()),
    }
}

/// Parses the page's URL and normalizes it as browsers do.
fn parse_page_url(text: &str) -> Result<Uri, String> {
    let uri = parse_server_url(text)?;
    if !matches!(uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str), "" | "/") {
        return Err(
            "invalid URL: it must not have a path; use an address such as https://deploy.example.com"
                .to_owned(),
        );
    }
    match (uri.scheme_str(), uri.port_u16()) {
        (Some("https"), Some(443)) | (Some("http"), Some(80)) => {
            Err("invalid URL: omit the default port".to_owned())
        }
        _ => Ok(uri),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const GOOD: &str = "issuer: https://id.example.com/realms/main\nclientId: tidegate\nurl: https://deploy.example.com\n\
        roles: {groups: {platform: operator, developers: read-only}}\n";

    fn read_settings(text: &str, mode: u32) -> Result<OidcSettings, String> {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        write("secret", "hunter2\n", 0o640);
        write("open", "hunter2", 0o644);
        write("empty", " \n", 0o600);
        OidcSettings::read(&write("oidc.yaml", text, mode), false).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_fields_have_defaults() {
        let settings = read_settings(GOOD, 0o644).unwrap();
        assert_eq!((settings.name.as_str(), settings.session_lifetime), ("id.example.com", LIFETIME_MAX));
        assert_eq!(settings.scopes(&[]), "openid profile email");
        assert_eq!(
            settings.scopes(&["groups".to_owned(), "phone".to_owned()]),
            "openid profile email groups"
        );
        assert_eq!(settings.read_secret().unwrap(), None);
        let more = format!(
            "{GOOD}name: Example ID\nclientSecretFile: secret\nscopes: [openid, roles]\nsessionLasts: 8h\nnameClaim: email\n"
        );
        let settings = read_settings(&more, 0o600).unwrap();
        assert_eq!(
            (settings.name.as_str(), settings.session_lifetime),
            ("Example ID", Duration::from_secs(8 * 3600))
        );
        assert_eq!(settings.scopes(&["groups".to_owned()]), "openid roles");
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn the_highest_role_of_name_and_groups_applies() {
        let people = GOOD.replace("}}", "}, people: {ann@example.com: operator}}") + "nameClaim: email\n";
        let roles = read_settings(&people, 0o600).unwrap().roles;
        for (name, groups, role) in [
            ("ann@example.com", &[][..], Some(Role::Operator)),
            ("ann@example.com", &["developers"][..], Some(Role::Operator)),
            ("ben@example.com", &["developers", "platform"][..], Some(Role::Operator)),
            ("ben@example.com", &["others", "developers"][..], Some(Role::ReadOnly)),
            ("ben@example.com", &["others", "Platform", ""][..], None),
            ("platform", &[][..], None),
            ("Ann@example.com", &["ann@example.com"][..], None),
        ] {
            let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
            assert_eq!(roles.find_role(name, &groups), role, "{name} {groups:?}");
        }
    }

    #[test]
    fn errors_name_their_field_and_quote_no_secret() {
        let with = |line: &str| format!("{GOOD}{line}\n");
        let instead = |from: &str, to: &str| GOOD.replace(from, to);
        for (text, part) in [
            ("issuer: [".to_owned(), "invalid YAML"),
            ("issuer: https://id.example.com\n".to_owned(), "missing field `clientId`"),
            (with("colour: hunter2"), "unknown field `colour`"),
            (with("clientSecret: hunter2"), "clientSecretFile"),
            (with("clientSecretFile: nowhere"), "nowhere"),
            (with("clientSecretFile: open"), "chmod go-w,o-r"),
            (with("clientSecretFile: empty"), "the file is empty"),
            (with("caFile: nowhere"), "nowhere"),
            (with("scopes: [profile]"), "scopes: "),
            (with("scopes: [openid, 'a b']"), "scopes: "),
            (with("scopes: openid"), "scopes: invalid type"),
            (with("sessionLasts: 13h"), "sessionLasts: out of range: use 1m to 12h"),
            (with("sessionLasts: 0s"), "sessionLasts: "),
            (with("sessionLasts: soon"), "sessionLasts: "),
            (with("nameClaim: ''"), "nameClaim: "),
            (with("groupsClaim: ' '"), "groupsClaim: "),
            (with("name: \"a\\nb\""), "name: "),
            (instead("clientId: tidegate", "clientId: ''"), "clientId: "),
            (
                instead("https://id.example.com/realms/main", "http://id.example.com"),
                "issuer: invalid URL: it must start with https://",
            ),
            (instead("https://id.example.com/realms/main", "ftp://id.example.com"), "issuer: "),
            (instead("https://id.example.com/realms/main", "id.example.com"), "issuer: "),
            (instead("https://id.example.com/realms/main", "https://me:hunter2@id.example.com"), "issuer: "),
            (instead("https://id.example.com/realms/main", "https://id.example.com/?a=b"), "issuer: "),
            (instead("https://id.example.com/realms/main", "https://id.example.com/#a"), "issuer: "),
            (instead("url: https://deploy.example.com\n", ""), "url: missing"),
            (
                instead("https://deploy.example.com", "http://deploy.example.com"),
                "url: invalid URL: it must start with https://",
            ),
            (
                instead("https://deploy.example.com", "https://deploy.example.com/tidegate"),
                "url: invalid URL: it must not have a path",
            ),
            (
                instead("https://deploy.example.com", "https://deploy.example.com:443"),
                "url: invalid URL: omit the default port",
            ),
            (instead("operator", "admin"), "roles.groups.platform: unknown variant `admin`"),
            (instead("groups: {platform: operator, developers: read-only}", ""), "roles: empty"),
            (instead("groups:", "people:"), "nameClaim: missing"),
            (instead("groups:", "teams:"), "roles.teams: unknown field `teams`"),
        ] {
            let problem = read_settings(&text, 0o644).unwrap_err();
            assert!(problem.contains(part) && !problem.contains("hunter2"), "{text}: {problem}");
        }
        let problem = read_settings(GOOD, 0o664).unwrap_err();
        assert!(problem.contains("chmod go-w"), "{problem}");
        let local = instead("https://deploy.example.com", "http://localhost:8480");
        assert!(read_settings(&local, 0o644).is_ok());
    }
}
