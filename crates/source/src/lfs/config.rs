//! `.lfsconfig`: where a repository says that its objects are.

use gix::config::File;
use gix::config::file::Metadata;
use gix::config::file::init::Options;
use http::Uri;
use tidegate_web::follow;

/// More bytes than such a file has.
const BYTES_MAX: usize = 64 << 10;

/// The server of objects that a `.lfsconfig` names, asked for by those who read the repository at `repository`; nothing where it
/// names none. The error goes on after the name of the file.
pub(super) fn server(config: &[u8], repository: Option<&Uri>) -> Result<Option<Uri>, &'static str> {
    if config.len() > BYTES_MAX {
        return Err("is longer than anybody reads");
    }
    let file = File::from_bytes_no_includes(config, Metadata::api(), Options::default());
    let file = file.map_err(|_| "cannot be read as a configuration of Git")?;
    let named =
        |name: &str| file.string(name).map(|value| value.to_string()).filter(|value| !value.is_empty());
    let Some(url) = named("lfs.url").or_else(|| named("remote.origin.lfsurl")) else { return Ok(None) };
    if url.contains(['?', '#']) {
        return Err("names a server in lfs.url with a query or a fragment");
    }
    let wrong = "names a server in lfs.url that is not asked: it has to be https://, without a user";
    let named = url.trim_end_matches('/');
    let uri = if named.contains("://") { named.parse::<Uri>().ok() } else { None };
    // In the open, where the repository itself is asked so; from the repository on, as its own server might send us.
    let is_safe = |uri: &Uri| uri.scheme_str().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let uri = uri.filter(|uri| repository.is_some() || is_safe(uri)).ok_or(wrong)?;
    follow(repository.unwrap_or(&uri), named).map(Some).map_err(|_| wrong)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn where_objects_are() {
        let (open, safe) =
            ("http://git.example/a".parse().unwrap(), "https://git.example/a".parse().unwrap());
        for (config, repository, expected) in [
            ("", Some(&safe), Ok(None)),
            ("[lfs]\n\tfetchexclude = *\n", Some(&safe), Ok(None)),
            ("[lfs]\n\turl = https://lfs.example/a/\n", Some(&safe), Ok(Some("https://lfs.example/a"))),
            ("[lfs]\n\turl = \"https://lfs.example/a\"\n", None, Ok(Some("https://lfs.example/a"))),
            (
                "[remote \"origin\"]\nlfsurl = https://lfs.example/b",
                Some(&safe),
                Ok(Some("https://lfs.example/b")),
            ),
            ("[lfs]\nurl = http://lfs.example/a", Some(&open), Ok(Some("http://lfs.example/a"))),
            ("[lfs]\nurl = http://lfs.example/a", Some(&safe), Err("https://")),
            ("[lfs]\nurl = http://lfs.example/a", None, Err("https://")),
            ("[lfs]\nurl = https://me:hunter2@lfs.example/a", Some(&safe), Err("without a user")),
            ("[lfs]\nurl = ssh://git@lfs.example/a", Some(&safe), Err("https://")),
            ("[lfs]\nurl = file:///etc/passwd", Some(&open), Err("https://")),
            ("[lfs]\nurl = ../other", Some(&safe), Err("https://")),
            ("[lfs]\nurl = https://lfs.example/a?b=c", Some(&safe), Err("query")),
            ("[lfs", Some(&safe), Err("configuration of Git")),
        ] {
            let found = server(config.as_bytes(), repository).map(|uri| uri.map(|uri| uri.to_string()));
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected, "{config}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{config}: {found}"),
                _ => panic!("{config}: {found:?}"),
            }
        }
        assert!(server(&vec![b'#'; BYTES_MAX + 1], None).is_err());
    }
}
