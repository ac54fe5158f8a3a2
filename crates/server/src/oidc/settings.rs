//! With whom people sign in, and who of them may what: a file, in YAML or JSON.
//!
//! ```yaml
//! issuer: https://id.example.com/realms/main
//! name: Example ID                      # on the button; the host of the issuer if left out
//! clientId: tidegate
//! clientSecretFile: client-secret       # beside this file; left out for a public client
//! url: https://deploy.example.com       # where people open the page
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
use tidegate_model::parse_duration;

use super::person::Naming;
use crate::access::Role;
use crate::error::ServerError;
use crate::front::is_here;
use crate::sessions::ENDS_AFTER;
use crate::tls::closed;

/// The largest file.
const FILE_MAX: u64 = 1 << 20;
/// The longest text of a field, in bytes.
const TEXT_MAX: usize = 512;
/// The shortest session.
const LASTS_MIN: Duration = Duration::from_secs(60);
/// What is asked for where nobody says it; and `groups`, where the provider has it.
const USUAL: [&str; 3] = [OPENID, "profile", "email"];
/// Without it there is no ID token.
const OPENID: &str = "openid";
/// The rights of others to write.
const OTHERS_WRITE: u32 = 0o022;
const RIGHTS: u32 = 0o777;

/// With whom people sign in, and who of them may what.
#[derive(Debug)]
pub(crate) struct OidcSettings {
    pub issuer: String,
    /// What people call the provider.
    pub name: String,
    pub client_id: String,
    /// The file of the secret; none for a public client.
    secret: Option<PathBuf>,
    /// Scheme and authority of the page; none where it is on this machine, under any name of it.
    pub url: Option<Uri>,
    /// What is asked for; `None` for the usual.
    scopes: Option<Vec<String>>,
    pub naming: Naming,
    /// Who vouches for the provider, in PEM; `None` for those whom this system trusts.
    pub authorities: Option<String>,
    pub lasts: Duration,
    pub roles: Roles,
}

/// Who may what.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Roles {
    groups: BTreeMap<String, Role>,
    people: BTreeMap<String, Role>,
}

impl Roles {
    /// What somebody may: the most that their name and their groups allow.
    pub fn of(&self, name: &str, groups: &[String]) -> Option<Role> {
        let by_groups = groups.iter().filter_map(|group| self.groups.get(group));
        by_groups.chain(self.people.get(name)).max().copied()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Written {
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
    /// Reads a file. `is_here` says that the service is offered to this machine alone.
    pub fn read(path: &Path, is_here: bool) -> Result<Self, ServerError> {
        let wrong = |why: String| ServerError::Oidc { path: path.to_owned(), why };
        let text = content(path, "they could give themselves a role")?;
        // What the parser says may show a line, and somebody may have put a secret into it: its place is enough.
        let read: Value = serde_saphyr::from_str(&text).map_err(|error| {
            let place =
                error.location().map(|place| format!(" at line {}", place.line())).unwrap_or_default();
            wrong(format!("it is not understood{place}; it is to be YAML, with issuer, clientId and roles"))
        })?;
        let written: Written = serde_path_to_error::deserialize(read).map_err(|error| {
            let at = error.path().to_string();
            wrong(if at == "." { error.into_inner().to_string() } else { format!("{at}: {}", error.inner()) })
        })?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let ca = written.ca_file.as_ref().map(|path| folder.join(path));
        let authorities =
            ca.map(|path| content(&path, "they could stand in for the provider")).transpose()?;
        let settings = Self::check(written, folder, authorities, is_here).map_err(wrong)?;
        settings.secret()?;
        Ok(settings)
    }

    fn check(
        written: Written,
        folder: &Path,
        authorities: Option<String>,
        is_here: bool,
    ) -> Result<Self, String> {
        let at = |field: &'static str| move |why: String| format!("{field}: {why}");
        let issuer = issuer(&written.issuer).map_err(at("issuer"))?;
        let name = written.name.unwrap_or_else(|| issuer.host().unwrap_or_default().to_owned());
        text(&name).map_err(at("name"))?;
        text(&written.client_id).map_err(at("clientId"))?;
        let url = written.url.as_deref().map(page).transpose().map_err(at("url"))?;
        if url.is_none() && !is_here {
            return Err("url: it is missing; where others can reach the service, name the address at which they open \
                 the page, such as https://deploy.example.com"
                .to_owned());
        }
        if let Some(scopes) = &written.scopes {
            let is_plain =
                |scope: &String| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic());
            if !scopes.iter().all(is_plain) || !scopes.iter().any(|scope| scope == OPENID) {
                return Err("scopes: it is a list of words, one of which is openid".to_owned());
            }
        }
        for (field, claim) in [("nameClaim", &written.name_claim), ("groupsClaim", &written.groups_claim)] {
            claim.as_deref().map(text).transpose().map_err(at(field))?;
        }
        let lasts = lasts(written.session_lasts.as_deref()).map_err(at("sessionLasts"))?;
        let roles = written.roles;
        if roles.groups.is_empty() && roles.people.is_empty() {
            return Err("roles: nobody has one, so nobody could sign in; name groups, such as `groups: {platform: operator}`".to_owned());
        }
        // Of the usual claims some are chosen by people themselves, and one could stand in for another.
        if !roles.people.is_empty() && written.name_claim.is_none() {
            return Err("nameClaim: it is missing; roles.people has names, so say which claim they are in: one that the \
                 provider gives to one person alone, such as sub or email"
                .to_owned());
        }
        Ok(Self {
            issuer: written.issuer,
            name,
            client_id: written.client_id,
            secret: written.client_secret_file.map(|path| folder.join(path)),
            url,
            scopes: written.scopes,
            naming: Naming::new(written.name_claim, written.groups_claim),
            authorities,
            lasts,
            roles,
        })
    }

    /// The secret by which the service proves who it is; it is read each time, so that it can be exchanged.
    pub fn secret(&self) -> Result<Option<String>, ServerError> {
        let Some(path) = &self.secret else { return Ok(None) };
        let wrong = |source| ServerError::File { path: path.clone(), source };
        let found = fs::metadata(path).map_err(wrong)?;
        let why = "whoever knows the secret of the client can sign people in elsewhere in our name";
        closed(path, &found, why, "its owner can close it: chmod go-w,o-r")?;
        let secret = content(path, why)?.trim().to_owned();
        match secret.is_empty() {
            true => Err(ServerError::Oidc {
                path: path.clone(),
                why: "it is empty; it is to hold the secret of the client".to_owned(),
            }),
            false => Ok(Some(secret)),
        }
    }

    /// What is asked for of a provider that has these scopes.
    pub fn scopes(&self, supported: &[String]) -> String {
        match &self.scopes {
            Some(scopes) => scopes.join(" "),
            None => {
                let groups = supported.iter().any(|scope| scope == "groups").then_some("groups");
                USUAL.into_iter().chain(groups).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// What a file holds that others may not write.
fn content(path: &Path, why: &'static str) -> Result<String, ServerError> {
    let wrong = |source| ServerError::File { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(wrong)?;
    if found.len() > FILE_MAX {
        return Err(wrong(io::ErrorKind::FileTooLarge.into()));
    }
    let mode = found.permissions().mode() & RIGHTS;
    if mode & OTHERS_WRITE != 0 {
        let advice = "its owner can close it: chmod go-w";
        return Err(ServerError::Exposed { path: path.to_owned(), mode, why, advice });
    }
    fs::read_to_string(path).map_err(wrong)
}

fn text(text: &str) -> Result<(), String> {
    let is_shown = !text.trim().is_empty() && text.len() <= TEXT_MAX && !text.chars().any(char::is_control);
    is_shown.then_some(()).ok_or_else(|| format!("it is a text of 1 to {TEXT_MAX} bytes, in one line"))
}

fn lasts(text: Option<&str>) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(ENDS_AFTER) };
    let lasts = parse_duration(text).map_err(|error| error.to_string())?;
    match (LASTS_MIN..=ENDS_AFTER).contains(&lasts) {
        true => Ok(lasts),
        false => Err("a session lasts from 1m to 12h".to_owned()),
    }
}

/// The address of a provider, or of something of it.
pub(super) fn server(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|_| "it is no address".to_owned())?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let names_somebody = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    match uri.scheme_str() {
        _ if host.is_empty() || names_somebody || text.contains('#') => {
            Err("it is to be an address with a host, and without user, password and what follows a #"
                .to_owned())
        }
        Some("https") => Ok(uri),
        Some("http") if is_here(host) => Ok(uri),
        _ => Err("it is to begin with https://; http:// is for this machine alone".to_owned()),
    }
}

fn issuer(text: &str) -> Result<Uri, String> {
    let uri = server(text)?;
    match uri.query() {
        None => Ok(uri),
        Some(_) => Err("an issuer has no query".to_owned()),
    }
}

/// Where people open the page, as their browsers write it.
fn page(text: &str) -> Result<Uri, String> {
    let uri = server(text)?;
    if !matches!(uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str), "" | "/") {
        return Err(
            "it has a path, and the page needs an address of its own, such as https://deploy.example.com"
                .to_owned(),
        );
    }
    match (uri.scheme_str(), uri.port_u16()) {
        (Some("https"), Some(443)) | (Some("http"), Some(80)) => {
            Err("its port is the usual one, which browsers leave out; leave it out here too".to_owned())
        }
        _ => Ok(uri),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const GOOD: &str = "issuer: https://id.example.com/realms/main\nclientId: tidegate\nurl: https://deploy.example.com\n\
        roles: {groups: {platform: operator, developers: read-only}}\n";

    fn read(text: &str, mode: u32) -> Result<OidcSettings, String> {
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
    fn what_is_not_said_is_the_usual() {
        let settings = read(GOOD, 0o644).unwrap();
        assert_eq!((settings.name.as_str(), settings.lasts), ("id.example.com", ENDS_AFTER));
        assert_eq!(settings.scopes(&[]), "openid profile email");
        assert_eq!(
            settings.scopes(&["groups".to_owned(), "phone".to_owned()]),
            "openid profile email groups"
        );
        assert_eq!(settings.secret().unwrap(), None);
        let more = format!(
            "{GOOD}name: Example ID\nclientSecretFile: secret\nscopes: [openid, roles]\nsessionLasts: 8h\nnameClaim: email\n"
        );
        let settings = read(&more, 0o600).unwrap();
        assert_eq!((settings.name.as_str(), settings.lasts), ("Example ID", Duration::from_secs(8 * 3600)));
        assert_eq!(settings.scopes(&["groups".to_owned()]), "openid roles");
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn the_most_that_name_and_groups_allow_counts() {
        let people = GOOD.replace("}}", "}, people: {ann@example.com: operator}}") + "nameClaim: email\n";
        let roles = read(&people, 0o600).unwrap().roles;
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
            assert_eq!(roles.of(name, &groups), role, "{name} {groups:?}");
        }
    }

    #[test]
    fn mistakes_name_their_field_and_no_secret_is_repeated() {
        let with = |line: &str| format!("{GOOD}{line}\n");
        let instead = |from: &str, to: &str| GOOD.replace(from, to);
        for (text, part) in [
            ("issuer: [".to_owned(), "not understood"),
            ("issuer: https://id.example.com\n".to_owned(), "missing field `clientId`"),
            (with("colour: hunter2"), "unknown field `colour`"),
            (with("clientSecret: hunter2"), "clientSecretFile"),
            (with("clientSecretFile: nowhere"), "nowhere"),
            (with("clientSecretFile: open"), "chmod go-w,o-r"),
            (with("clientSecretFile: empty"), "it is empty"),
            (with("caFile: nowhere"), "nowhere"),
            (with("scopes: [profile]"), "scopes: "),
            (with("scopes: [openid, 'a b']"), "scopes: "),
            (with("scopes: openid"), "scopes: invalid type"),
            (with("sessionLasts: 13h"), "sessionLasts: a session lasts from 1m to 12h"),
            (with("sessionLasts: 0s"), "sessionLasts: "),
            (with("sessionLasts: soon"), "sessionLasts: "),
            (with("nameClaim: ''"), "nameClaim: "),
            (with("groupsClaim: ' '"), "groupsClaim: "),
            (with("name: \"a\\nb\""), "name: "),
            (instead("clientId: tidegate", "clientId: ''"), "clientId: "),
            (
                instead("https://id.example.com/realms/main", "http://id.example.com"),
                "issuer: it is to begin with https://",
            ),
            (instead("https://id.example.com/realms/main", "ftp://id.example.com"), "issuer: "),
            (instead("https://id.example.com/realms/main", "id.example.com"), "issuer: "),
            (instead("https://id.example.com/realms/main", "https://me:hunter2@id.example.com"), "issuer: "),
            (instead("https://id.example.com/realms/main", "https://id.example.com/?a=b"), "issuer: "),
            (instead("https://id.example.com/realms/main", "https://id.example.com/#a"), "issuer: "),
            (instead("url: https://deploy.example.com\n", ""), "url: it is missing"),
            (
                instead("https://deploy.example.com", "http://deploy.example.com"),
                "url: it is to begin with https://",
            ),
            (
                instead("https://deploy.example.com", "https://deploy.example.com/tidegate"),
                "url: it has a path",
            ),
            (
                instead("https://deploy.example.com", "https://deploy.example.com:443"),
                "url: its port is the usual one",
            ),
            (instead("operator", "admin"), "roles.groups.platform: unknown variant `admin`"),
            (instead("groups: {platform: operator, developers: read-only}", ""), "roles: nobody"),
            (instead("groups:", "people:"), "nameClaim: it is missing"),
            (instead("groups:", "teams:"), "roles.teams: unknown field `teams`"),
        ] {
            let problem = read(&text, 0o644).unwrap_err();
            assert!(problem.contains(part) && !problem.contains("hunter2"), "{text}: {problem}");
        }
        let problem = read(GOOD, 0o664).unwrap_err();
        assert!(problem.contains("chmod go-w"), "{problem}");
        let local = instead("https://deploy.example.com", "http://localhost:8480");
        assert!(read(&local, 0o644).is_ok());
    }
}
