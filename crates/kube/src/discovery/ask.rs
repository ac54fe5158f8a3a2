//! Asking a server what it serves: in two requests where it can say it all at once (Kubernetes 1.26), else one
//! request for each version of each group.

use futures_util::future::join_all;
use serde::Deserialize;
use tidegate_cluster::{ClusterError, ErrorKind};

use super::catalog::{Catalog, Resource, Served};
use crate::answer::{About, Answer};
use crate::paths::push_segment;
use crate::server::{Call, Server};

/// All at once if you can; otherwise as ever.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                          application/json";

/// What the two roots `/api` and `/apis` answer: everything, or whom to ask next.
#[derive(Debug)]
pub(super) struct Roots([Option<Root>; 2]);

/// Any answer of one of them.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
enum Root {
    /// All groups with all their kinds.
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated {
        #[serde(default)]
        items: Vec<Group>,
    },
    /// The names of groups and versions.
    #[serde(rename = "APIGroupList")]
    Groups {
        #[serde(default)]
        groups: Vec<NamedGroup>,
    },
    /// The versions of the core group.
    #[serde(rename = "APIVersions")]
    Core {
        #[serde(default)]
        versions: Vec<String>,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Named,
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
struct NamedGroup {
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

/// The beginning of asking for everything.
pub(super) async fn roots(server: &Server) -> Result<Roots, ClusterError> {
    let (core, groups) = futures_util::future::join(root(server, "/api"), root(server, "/apis")).await;
    Ok(Roots([core?, groups?]))
}

/// Every kind the server serves now, from what its roots have answered. A group that cannot be asked, because the server
/// behind it is down, is left out.
pub(super) async fn everything(server: &Server, roots: Roots) -> Result<Catalog, ClusterError> {
    let mut catalog = Catalog::default();
    let mut unasked = Vec::new();
    for root in roots.0.into_iter().flatten() {
        match root {
            Root::Aggregated { items } => items.into_iter().for_each(|group| add_group(&mut catalog, group)),
            Root::Groups { groups } => unasked.extend(groups.into_iter().flat_map(versions_of)),
            Root::Core { versions } => {
                unasked.extend(versions.into_iter().map(|version| (String::new(), version)));
            }
        }
    }
    let calls = unasked.iter().map(|(group, version)| {
        let call = Call::get(path_of(group, version));
        async move { server.call_patiently(&call).await }
    });
    let answers = join_all(calls).await;
    let one_answered = answers.iter().any(Result::is_ok);
    for ((group, version), answer) in unasked.iter().zip(answers) {
        let error = match answer {
            Ok(answer) => match kinds_of(&answer) {
                Ok(served) => {
                    catalog.add(group, version, served);
                    continue;
                }
                Err(error) if error.kind == ErrorKind::Unauthorized => return Err(error),
                Err(error) => error,
            },
            // The server is there, but not what it asks in turn.
            Err(error) if error.kind == ErrorKind::Timeout && one_answered => error,
            Err(error) => return Err(error),
        };
        tracing::warn!(group, version, %error, "an API group does not answer; its kinds are unknown");
    }
    Ok(catalog)
}

/// What one version of a group serves now; nothing when there is no such version.
pub(super) async fn version(
    server: &Server,
    group: &str,
    version: &str,
) -> Result<Vec<Served>, ClusterError> {
    let answer = server.call_patiently(&Call::get(path_of(group, version))).await?;
    kinds_of(&answer).or_else(|error| match error.kind {
        ErrorKind::NotFound => Ok(Vec::new()),
        _ => Err(error),
    })
}

async fn root(server: &Server, path: &str) -> Result<Option<Root>, ClusterError> {
    let call = Call::get(path.to_owned()).accept(AGGREGATED);
    match server.call_patiently(&call).await?.decode(About::default()) {
        Ok(root) => Ok(Some(root)),
        // A server may have no core group.
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn path_of(group: &str, version: &str) -> String {
    let mut path = if group.is_empty() { "/api".to_owned() } else { "/apis".to_owned() };
    for segment in [group, version].into_iter().filter(|segment| !segment.is_empty()) {
        path.push('/');
        push_segment(&mut path, segment);
    }
    path
}

fn kinds_of(answer: &Answer) -> Result<Vec<Served>, ClusterError> {
    let list: ResourceList = answer.decode(About::default())?;
    let (parts, whole): (Vec<_>, Vec<_>) =
        list.resources.into_iter().partition(|resource| resource.name.contains('/'));
    let served = whole.into_iter().filter_map(|resource| {
        let ListedResource { name, kind, namespaced, verbs } = resource;
        let status_apart = parts.iter().any(|part| part.name.strip_suffix("/status") == Some(&name));
        serve(kind, &verbs, Resource { plural: name, namespaced, listable: false, status_apart })
    });
    Ok(served.collect())
}

/// Kinds that cannot be read are of no use to us: reviews, bindings.
fn serve(kind: String, verbs: &[String], resource: Resource) -> Option<Served> {
    let can = |verb: &str| verbs.iter().any(|known| known == verb);
    can("get").then(|| Served { kind, resource: Resource { listable: can("list"), ..resource } })
}

fn add_group(catalog: &mut Catalog, group: Group) {
    let name = group.metadata.name;
    for Version { version, resources, freshness } in group.versions {
        if freshness == "Stale" {
            tracing::warn!(
                group = name,
                version,
                "an API group does not answer; what is known of it may be old"
            );
        }
        let served = resources.into_iter().filter_map(|resource| {
            let namespaced = resource.scope == "Namespaced";
            let status_apart = resource.subresources.iter().any(|part| part.subresource == "status");
            let served = Resource { plural: resource.resource, namespaced, listable: false, status_apart };
            serve(resource.response_kind?.kind, &resource.verbs, served)
        });
        catalog.add(&name, &version, served.collect());
    }
}

/// Groups and versions to ask for, preferred version first.
fn versions_of(group: NamedGroup) -> Vec<(String, String)> {
    let preferred = group.preferred_version.map(|preferred| preferred.version);
    let others = group.versions.into_iter().map(|version| version.version);
    let others = others.filter(|version| Some(version) != preferred.as_ref()).collect::<Vec<_>>();
    preferred.into_iter().chain(others).map(|version| (group.name.clone(), version)).collect()
}
