//! Discovery requests: two with aggregated discovery (Kubernetes 1.26), otherwise one for each version of
//! each group.

use futures_util::future::join_all;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use tidegate_cluster::{ClusterError, ErrorKind};

use super::catalog::{Catalog, Resource, ServedKind};
use crate::call::Call;
use crate::paths::push_segment;
use crate::response::{ApiResponse, CallSubject};
use crate::server::{Server, VERSION};

/// `Accept` header that prefers aggregated discovery and falls back to the traditional format.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                          application/json";

/// Paths of the two discovery roots.
const ROOT_PATHS: [&str; 2] = ["/api", "/apis"];

/// ETags of the complete discovery, one for each root.
pub(super) type RootTags = [HeaderValue; 2];

/// Responses from the roots.
#[derive(Debug)]
pub(super) enum RootsResponse {
    /// Unchanged since the response with the given ETags.
    Unchanged,
    /// Either all kinds, or the groups that must be requested next.
    Changed { roots: [Option<Root>; 2], tags: Option<RootTags> },
}

/// Response from one root.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Root {
    /// All groups, with all their kinds.
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated {
        #[serde(default)]
        items: Vec<Group>,
    },
    /// Names and versions of groups.
    #[serde(rename = "APIGroupList")]
    Groups {
        #[serde(default)]
        groups: Vec<NamedGroup>,
    },
    /// Versions of the core group.
    #[serde(rename = "APIVersions")]
    Core {
        #[serde(default)]
        versions: Vec<String>,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedResource {
    name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Group {
    #[serde(default)]
    metadata: NamedResource,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Debug, Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    subresources: Vec<Subresource>,
}

#[derive(Debug, Deserialize)]
struct Subresource {
    subresource: String,
}

#[derive(Debug, Deserialize)]
struct ResponseKind {
    kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NamedGroup {
    name: String,
    #[serde(default)]
    versions: Vec<NamedVersion>,
    preferred_version: Option<NamedVersion>,
}

#[derive(Debug, Deserialize)]
struct NamedVersion {
    version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<ListedResource>,
}

#[derive(Deserialize)]
struct ListedResource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

/// Requests the roots. `known` contains the ETags of the last response.
pub(super) async fn fetch_roots(
    server: &Server,
    known: Option<&RootTags>,
) -> Result<RootsResponse, ClusterError> {
    let tag = |at: usize| known.and_then(|tags| tags.get(at));
    let [core, groups] = ROOT_PATHS;
    let (core, groups) =
        futures_util::future::join(fetch_root(server, core, tag(0)), fetch_root(server, groups, tag(1)))
            .await;
    match (core?, groups?) {
        (None, None) => Ok(RootsResponse::Unchanged),
        // Only one root has changed, but the catalog needs both responses. Request both without ETags.
        (None, _) | (_, None) => Box::pin(fetch_roots(server, None)).await,
        (Some((core, one)), Some((groups, other))) => Ok(RootsResponse::Changed {
            roots: [core, groups],
            tags: one.zip(other).map(|(one, other)| [one, other]),
        }),
    }
}

/// Returns all kinds on the server, starting from the responses of its roots. Skips groups with an
/// unavailable backing server.
pub(super) async fn fetch_catalog(server: &Server, said: [Option<Root>; 2]) -> Result<Catalog, ClusterError> {
    let mut catalog = Catalog::default();
    let mut unasked = Vec::new();
    for root in said.into_iter().flatten() {
        match root {
            Root::Aggregated { items } => items.into_iter().for_each(|group| add_group(&mut catalog, group)),
            Root::Groups { groups } => unasked.extend(groups.into_iter().flat_map(preferred_versions)),
            Root::Core { versions } => {
                unasked.extend(versions.into_iter().map(|version| (String::new(), version)));
            }
        }
    }
    let calls = unasked.iter().map(|(group, version)| {
        let call = Call::get(version_path(group, version));
        async move { server.call_with_retry(&call).await }
    });
    let answers = join_all(calls).await;
    let one_answered = answers.iter().any(Result::is_ok);
    for ((group, version), answer) in unasked.iter().zip(answers) {
        let error = match answer {
            Ok(answer) => match parse_kinds(&answer) {
                Ok(served) => {
                    catalog.add(group, version, served);
                    continue;
                }
                Err(error) if error.kind == ErrorKind::Unauthorized => return Err(error),
                Err(error) => error,
            },
            // The API server itself responds, but the group's backing server doesn't.
            Err(error) if error.kind == ErrorKind::Timeout && one_answered => error,
            Err(error) => return Err(error),
        };
        tracing::warn!(group, version, %error, "API group is not responding; its kinds are unknown");
        catalog.add_unknown_version(group, version);
    }
    Ok(catalog)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Release {
    git_version: String,
}

/// Returns the Kubernetes version without the vendor's suffix (`-eks-…`, `+k3s1`), which would make it a
/// prerelease and exclude it from ranges such as `>=1.30.0`. `None` without permission to read the version,
/// or if it is invalid.
pub(crate) async fn fetch_release(server: &Server) -> Result<Option<String>, ClusterError> {
    let answer = server.call_with_retry(&Call::get(VERSION.to_owned())).await?;
    let release: Release = match answer.decode(CallSubject::default()) {
        Ok(release) => release,
        Err(error) if matches!(error.kind, ErrorKind::Forbidden | ErrorKind::NotFound) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(strip_vendor_suffix(&release.git_version).map(str::to_owned))
}

/// Removes the vendor's suffix: `v1.30.4-eks-a737599` becomes `v1.30.4`.
fn strip_vendor_suffix(version: &str) -> Option<&str> {
    let numbers = version.split(['-', '+']).next()?;
    let mut parts = numbers.strip_prefix('v')?.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let are_three = parts.by_ref().take(3).filter(|part| is_number(part)).count() == 3;
    (are_three && parts.next().is_none()).then_some(numbers)
}

/// Returns the kinds in a version of a group. Empty if the version doesn't exist.
pub(super) async fn fetch_version(
    server: &Server,
    group: &str,
    version: &str,
) -> Result<Vec<ServedKind>, ClusterError> {
    let answer = server.call_with_retry(&Call::get(version_path(group, version))).await?;
    parse_kinds(&answer).or_else(|error| match error.kind {
        ErrorKind::NotFound => Ok(Vec::new()),
        _ => Err(error),
    })
}

/// Requests a root. Returns the response, with its ETag if it is complete. `None` if the root is unchanged.
async fn fetch_root(
    server: &Server,
    path: &str,
    known: Option<&HeaderValue>,
) -> Result<Option<(Option<Root>, Option<HeaderValue>)>, ClusterError> {
    let call = Call { known_etag: known.cloned(), ..Call::get(path.to_owned()).with_accept(AGGREGATED) };
    let answer = server.call_with_retry(&call).await?;
    if known.is_some() && answer.status == StatusCode::NOT_MODIFIED {
        return Ok(None);
    }
    match answer.decode(CallSubject::default()) {
        Ok(root) => {
            let is_all = matches!(root, Root::Aggregated { .. });
            Ok(Some((Some(root), answer.etag.filter(|_| is_all))))
        }
        // A server without a core group returns 404.
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Some((None, None))),
        Err(error) => Err(error),
    }
}

fn version_path(group: &str, version: &str) -> String {
    let mut path = if group.is_empty() { "/api".to_owned() } else { "/apis".to_owned() };
    for segment in [group, version].into_iter().filter(|segment| !segment.is_empty()) {
        path.push('/');
        push_segment(&mut path, segment);
    }
    path
}

fn parse_kinds(answer: &ApiResponse) -> Result<Vec<ServedKind>, ClusterError> {
    let list: ResourceList = answer.decode(CallSubject::default())?;
    let (parts, whole): (Vec<_>, Vec<_>) =
        list.resources.into_iter().partition(|resource| resource.name.contains('/'));
    let served = whole.into_iter().filter_map(|resource| {
        let ListedResource { name, kind, namespaced, verbs } = resource;
        let has_status_subresource =
            parts.iter().any(|part| part.name.strip_suffix("/status") == Some(&name));
        readable_kind(
            kind,
            &verbs,
            Resource { plural: name, namespaced, listable: false, has_status_subresource },
        )
    });
    Ok(served.collect())
}

/// Returns a kind if its objects can be read. Others, such as reviews and bindings, aren't needed.
fn readable_kind(kind: String, verbs: &[String], resource: Resource) -> Option<ServedKind> {
    let can = |verb: &str| verbs.iter().any(|known| known == verb);
    can("get").then(|| ServedKind { kind, resource: Resource { listable: can("list"), ..resource } })
}

fn add_group(catalog: &mut Catalog, group: Group) {
    let name = group.metadata.name;
    for Version { version, resources, freshness } in group.versions {
        if freshness == "Stale" {
            tracing::warn!(
                group = name,
                version,
                "API group is not responding; its cached kinds may be outdated"
            );
            if resources.is_empty() {
                catalog.add_unknown_version(&name, &version);
            }
        }
        let served = resources.into_iter().filter_map(|resource| {
            let namespaced = resource.scope == "Namespaced";
            let has_status_subresource =
                resource.subresources.iter().any(|part| part.subresource == "status");
            let served =
                Resource { plural: resource.resource, namespaced, listable: false, has_status_subresource };
            readable_kind(resource.response_kind?.kind, &resource.verbs, served)
        });
        catalog.add(&name, &version, served.collect());
    }
}

/// Returns the groups and versions to request, with the preferred version first.
fn preferred_versions(group: NamedGroup) -> Vec<(String, String)> {
    let preferred = group.preferred_version.map(|preferred| preferred.version);
    let others = group.versions.into_iter().map(|version| version.version);
    let others = others.filter(|version| Some(version) != preferred.as_ref()).collect::<Vec<_>>();
    preferred.into_iter().chain(others).map(|version| (group.name.clone(), version)).collect()
}
