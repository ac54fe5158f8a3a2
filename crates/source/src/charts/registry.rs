//! Charts in OCI registries, located as `helm pull oci://…` does.

use std::sync::Arc;

use http::header::{ACCEPT, HeaderValue, LINK, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;

use super::archive::PACKED_BYTES_MAX;
use crate::address::RemoteLocation;
use crate::credentials::AccessSettings;
use crate::remote::{Attempt, CompleteResponse, Link, Network, Problem};
use crate::secret_text::SecretText;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Maximum size of a manifest or of a page of tags, in bytes.
const TEXT_MAX: u64 = 4 << 20;
/// Maximum number of pages in a tag list.
const PAGES_MAX: usize = 50;

/// Access to a single repository in a registry.
pub(super) struct Registry<'r> {
    pub site: &'r RemoteLocation,
    pub access: &'r AccessSettings,
    pub network: &'r Network,
    pub attempt: &'r Arc<Attempt>,
}

#[derive(Deserialize)]
struct Tags {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
}

impl Registry<'_> {
    fn base(&self) -> String {
        let scheme = if self.access.uses_plain_http { "http" } else { "https" };
        format!("{scheme}://{}", self.site.authority())
    }

    fn name(&self) -> &str {
        self.site.path.trim_matches('/')
    }

    /// Sends a request. If the registry asks for a token, gets one and retries.
    fn get_authenticated(
        &self,
        url: &str,
        accept: &'static str,
        limit: u64,
    ) -> Result<CompleteResponse, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let base = self.base();
        let fetch = |access: &AccessSettings, expected: &[StatusCode]| {
            let link = Link::for_address(&base, access, self.network, Arc::clone(self.attempt), limit)?;
            link.download(url, &headers, expected)
        };
        let first = fetch(self.access, &[StatusCode::UNAUTHORIZED])?;
        if first.status != StatusCode::UNAUTHORIZED {
            return Ok(first);
        }
        let challenge = first.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        match challenge.and_then(|challenge| challenge.strip_prefix("Bearer ")) {
            Some(asked) => {
                let bearer = SecretText(self.request_token(asked)?);
                let access =
                    AccessSettings { bearer, password: SecretText::default(), ..self.access.clone() };
                fetch(&access, &[])
            }
            // The registry doesn't use tokens. Retry to turn the 401 response into an error.
            None => fetch(self.access, &[]),
        }
    }

    /// Requests a token from the token server named in the registry's challenge, `asked`.
    fn request_token(&self, asked: &str) -> Result<String, Problem> {
        let field = |name: &str| {
            let found = asked.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
            found.map(|value| value.trim_matches('"').to_owned())
        };
        let realm =
            field("realm").ok_or_else(|| Problem::new("the registry does not specify a token server"))?;
        if !realm.starts_with("https://") && !self.access.uses_plain_http {
            return Err(Problem::new("the registry's token server does not use https://"));
        }
        let scope = format!("repository:{}:pull", self.name());
        let service = field("service")
            .map(|service| format!("&service={}", encode_query(&service)))
            .unwrap_or_default();
        let between = if realm.contains('?') { '&' } else { '?' };
        let url = format!("{realm}{between}scope={}{service}", encode_query(&scope));
        let link = Link::for_address(&url, self.access, self.network, Arc::clone(self.attempt), TEXT_MAX)?;
        let fetched = link.download(&url, &HeaderMap::new(), &[])?;
        let token: Token = serde_json::from_slice(&fetched.content)
            .map_err(|_| Problem::new("the registry's token server returned no token"))?;
        let found = if token.token.is_empty() { token.access_token } else { token.token };
        if found.is_empty() {
            return Err(Problem::new("the registry's token server returned no token"));
        }
        Ok(found)
    }

    /// Returns the chart's versions, which are its repository's tags.
    pub fn versions(&self) -> Result<Vec<String>, Problem> {
        let mut url = format!("{}/v2/{}/tags/list?n=1000", self.base(), self.name());
        let mut versions = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = self.get_authenticated(&url, "application/json", TEXT_MAX)?;
            let tags: Tags = serde_json::from_slice(&page.content)
                .map_err(|_| Problem::new("the registry's list of tags has an unexpected format"))?;
            versions.extend(tags.tags.unwrap_or_default().into_iter().map(|tag| tag.replace('_', "+")));
            let next = page.headers.get(LINK).and_then(|value| value.to_str().ok());
            let next = next
                .and_then(|link| link.split_once('<')?.1.split_once('>'))
                .map(|(next, _)| next.to_owned());
            match next {
                Some(next) if next.starts_with('/') => url = format!("{}{next}", self.base()),
                _ => return Ok(versions),
            }
        }
        Err(Problem::new("the registry's list of tags has too many pages"))
    }

    /// Downloads a version of the packaged chart and verifies its digest.
    pub fn fetch_archive(&self, version: &str) -> Result<Vec<u8>, Problem> {
        let (base, name) = (self.base(), self.name());
        let tag = version.replace('+', "_");
        let manifest =
            self.get_authenticated(&format!("{base}/v2/{name}/manifests/{tag}"), MANIFEST, TEXT_MAX)?;
        let manifest: Manifest = serde_json::from_slice(&manifest.content)
            .map_err(|_| Problem::new("the registry's manifest has an unexpected format"))?;
        let layer = manifest.layers.into_iter().find(|layer| layer.media_type == CHART);
        let digest = layer.ok_or_else(|| Problem::new("the artifact is not a Helm chart"))?.digest;
        if !digest
            .strip_prefix("sha256:")
            .is_some_and(|hex| hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit()))
        {
            return Err(Problem::new("the registry's manifest has an unsupported digest"));
        }
        let archive =
            self.get_authenticated(&format!("{base}/v2/{name}/blobs/{digest}"), "*/*", PACKED_BYTES_MAX)?;
        super::check_digest(&archive.content, &digest)?;
        Ok(archive.content)
    }
}

/// Percent-encodes a string for the query of a URL.
fn encode_query(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
