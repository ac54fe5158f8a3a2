//! Tests for repositories behind a proxy. Only the proxy can resolve their host names.

use std::path::Path;

use tidegate_source::SourceError;
use tidegate_testkit::git::GitServer;
use tidegate_testkit::proxy::Proxy;

use super::fixture::{RemoteFixture, credentials, read};
use super::temporary_tokens::key;

const URL: &str = "http://git.example.invalid/repo";

fn files(bench: &RemoteFixture, url: &str) -> Result<usize, SourceError> {
    let repository = bench.repositories.open(url, Path::new("/"))?;
    repository.observe()?;
    let commit = repository.resolve("main")?;
    Ok(read(&repository, &commit)?.len())
}

#[test]
fn a_proxy_is_used_with_its_credentials_except_for_excluded_hosts() {
    let Some(bench) = RemoteFixture::new() else { return };
    let url = bench.url();
    let server = url.trim_start_matches("http://").trim_end_matches("/repo");
    let proxy = Proxy::start(server);
    let with = |user: &str, more: &[(&str, &str)]| {
        let through = format!("http://{user}@{}", proxy.address());
        let fields = [&[("url", URL), ("proxy", through.as_str())], more].concat();
        bench.repositories.set_credentials(credentials("repository", &fields));
        files(&bench, URL)
    };
    assert_eq!(with("me:hunter2", &[]), Ok(1));
    let asked = proxy.requests();
    let line = "CONNECT git.example.invalid:80 HTTP/1.1";
    assert!(!asked.is_empty() && asked.iter().all(|one| one == line), "{asked:?}");
    // The next fetch transfers only the changes, through the proxy.
    bench.commit("app/b.yaml", "{}");
    assert_eq!(with("me:hunter2", &[]), Ok(2));
    assert!(!proxy.requests().is_empty());
    for host in ["git.example.invalid", ".example.invalid", "*"] {
        let error = with("me:hunter2", &[("noProxy", host)]).unwrap_err().to_string();
        assert!(error.contains("git.example.invalid"), "{host}: {error}");
        assert_eq!(proxy.requests(), Vec::<String>::new(), "{host}: the proxy was the only route");
    }
    assert_eq!(with("me:hunter2", &[("noProxy", "other.example.invalid")]), Ok(2));
    assert!(!proxy.requests().is_empty());
    let error = with("me:hunter3", &[]).unwrap_err().to_string();
    assert!(error.contains("proxy") && !error.contains("hunter"), "{error}");
}

#[test]
fn a_socks_proxy_is_used_and_resolves_names() {
    let Some(bench) = RemoteFixture::new() else { return };
    let url = bench.url();
    let proxy = Proxy::start(url.trim_start_matches("http://").trim_end_matches("/repo"));
    let with = |proxy: &str| {
        bench.repositories.set_credentials(credentials("repository", &[("url", URL), ("proxy", proxy)]));
        files(&bench, URL)
    };
    for scheme in ["socks5", "socks5h"] {
        assert_eq!(with(&format!("{scheme}://me:hunter2@{}", proxy.address())), Ok(1));
        let asked = proxy.requests();
        assert!(
            !asked.is_empty() && asked.iter().all(|one| one == "SOCKS git.example.invalid:80"),
            "{asked:?}"
        );
    }
    for refused in ["me:hunter3@", ""] {
        let error = with(&format!("socks5://{refused}{}", proxy.address())).unwrap_err().to_string();
        assert!(!error.contains("hunter"), "{error}");
    }
    let error = with(&format!("socks4://{}", proxy.address())).unwrap_err().to_string();
    assert!(
        error.contains("the proxy in Secret given is not a valid URL; use a URL such as http://"),
        "{error}"
    );
    assert_eq!(proxy.requests(), Vec::<String>::new());
}

/// Requests to a token server must use the proxy of the repository.
#[test]
fn token_requests_use_the_proxy_except_for_excluded_hosts() {
    let Some(bench) = RemoteFixture::with(GitServer::start_tls, |_| {}) else { return };
    let url = bench.url();
    let proxy = Proxy::start(url.trim_start_matches("https://").trim_end_matches("/repo"));
    let through = format!("http://me:hunter2@{}", proxy.address());
    for (host, expected) in [("other.example.invalid", 1), ("api.example.invalid", 0)] {
        let fields = [
            ("url", "https://git.example.invalid/repo"),
            ("proxy", through.as_str()),
            ("noProxy", host),
            ("insecure", "true"),
            ("githubAppID", "17"),
            ("githubAppInstallationID", "7"),
            ("githubAppPrivateKey", &key(0).pkcs1),
            ("githubAppEnterpriseBaseUrl", "https://api.example.invalid"),
        ];
        bench.repositories.set_credentials(credentials("repository", &fields));
        let error = files(&bench, "https://git.example.invalid/repo").unwrap_err().to_string();
        assert!(error.contains(": GitHub at https://api.example.invalid"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        let lines = vec!["CONNECT api.example.invalid:443 HTTP/1.1".to_owned(); expected];
        assert_eq!(proxy.requests(), lines, "{host}");
        assert_eq!(bench.server.requests().len(), expected, "the server behind the proxy is not GitHub");
    }
}
