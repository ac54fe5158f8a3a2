//! The `.lfsconfig` file, which may name an LFS server.

use gix::config::File;
use gix::config::file::Metadata;
use gix::config::file::init::Options;
use http::Uri;
use tidegate_web::redirect_target;

/// Maximum size of the file, in bytes.
const BYTES_MAX: usize = 64 << 10;

/// Returns the server named in a `.lfsconfig`, resolved against the repository's URL, or `None` if it names
/// none. The error continues a sentence that starts with the file name.
pub(super) fn configured_server(
    config: &[u8],
    repository: Option<&Uri>,
) -> Result<Option<Uri>, &'static str> {
    if config.len() > BYTES_MAX {
        return Err("is too large");
    }
    let file = File::from_bytes_no_includes(config, Metadata::api(), Options::default());
    let file = file.map_err(|_| "is not a valid Git configuration")?;
    let named =
        |name: &str| file.string(name).map(|value| value.to_string()).filter(|value| !value.is_empty());
    let Some(url) = named("lfs.url").or_else(|| named("remote.origin.lfsurl")) else { return Ok(None) };
    if url.contains(['?', '#']) {
        return Err("contains a server URL with a query or a fragment");
    }
    let wrong = "contains an invalid server URL: it must use https:// and must not contain a user";
    let named = url.trim_end_matches('/');
    let uri = if named.contains("://") { named.parse::<Uri>().ok() } else { None };
    // As with redirects, the LFS server may use plain HTTP only if the repository does.
    let is_safe = |uri: &Uri| uri.scheme_str().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let uri = uri.filter(|uri| repository.is_some() || is_safe(uri)).ok_or(wrong)?;
    redirect_target(repository.unwrap_or(&uri), named).map(Some).map_err(|_| wrong)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn configured_servers() {
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
            ("[lfs]\nurl = https://me:hunter2@lfs.example/a", Some(&safe), Err("not contain a user")),
            ("[lfs]\nurl = ssh://git@lfs.example/a", Some(&safe), Err("https://")),
            ("[lfs]\nurl = file:///etc/passwd", Some(&open), Err("https://")),
            ("[lfs]\nurl = ../other", Some(&safe), Err("https://")),
            ("[lfs]\nurl = https://lfs.example/a?b=c", Some(&safe), Err("query")),
            ("[lfs", Some(&safe), Err("valid Git configuration")),
        ] {
            let found =
                configured_server(config.as_bytes(), repository).map(|uri| uri.map(|uri| uri.to_string()));
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected, "{config}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{config}: {found}"),
                _ => panic!("{config}: {found:?}"),
            }
        }
        assert!(configured_server(&vec![b'#'; BYTES_MAX + 1], None).is_err());
    }
}
