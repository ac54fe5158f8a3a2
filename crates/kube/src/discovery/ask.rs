//! Asking a server what it serves: in two requests where it can say it all at once (Kubernetes 1.26), else one
//! request for each version of each group.

use futures_util::future::join_all;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use tidegate_cluster::{ClusterError, ErrorKind};

use super::catalog::{Catalog, Resource, Served};
use crate::answer::{About, Answer};
use crate::paths::push_segment;
use crate::server::{Call, Server, VERSION};

/// All at once if you can; otherwise as ever.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                          application/json";

/// The two roots.
const ROOTS: [&str; 2] = ["/api", "/apis"];

/// By which everything that is served is known, as far as the roots have said it.
pub(super) type Tags = [HeaderValue; 2];

/// What the roots answer.
#[derive(Debug)]
pub(super) enum Roots {
    /// Nothing has changed since they gave these tags.
    Same,
    /// Everything, or whom to ask next.
    Said { said: [Option<Root>; 2], tags: Option<Tags> },
}

/// Any answer of one of them.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Root {
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
pub(super) struct Group {
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

/// The beginning of asking for everything; `known` is by what it is known already.
pub(super) async fn roots(server: &Server, known: Option<&Tags>) -> Result<Roots, ClusterError> {
    let tag = |at: usize| known.and_then(|tags| tags.get(at));
    let [core, groups] = ROOTS;
    let (core, groups) =
        futures_util::future::join(root(server, core, tag(0)), root(server, groups, tag(1))).await;
    match (core?, groups?) {
        (None, None) => Ok(Roots::Same),
        // What has not changed is wanted as well then.
        (None, _) | (_, None) => Box::pin(roots(server, None)).await,
        (Some((core, one)), Some((groups, other))) => {
            Ok(Roots::Said { said: [core, groups], tags: one.zip(other).map(|(one, other)| [one, other]) })
        }
    }
}

/// Every kind the server serves now, from what its roots have answered. A group that cannot be asked, because the server
/// behind it is down, is left out.
pub(super) async fn everything(server: &Server, said: [Option<Root>; 2]) -> Result<Catalog, ClusterError> {
    let mut catalog = Catalog::default();
    let mut unasked = Vec::new();
    for root in said.into_iter().flatten() {
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
        catalog.add_silent(group, version);
    }
    Ok(catalog)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Release {
    git_version: String,
}

/// Which release of Kubernetes it is, by its numbers alone: what comes after them (`-eks-…`, `+k3s1`) is the vendor's, and a
/// range of versions such as `>=1.30.0` would leave it out as something that comes before a release. Nothing where that may not
/// be asked, or is no version.
pub(crate) async fn release(server: &Server) -> Result<Option<String>, ClusterError> {
    let answer = server.call_patiently(&Call::get(VERSION.to_owned())).await?;
    let release: Release = match answer.decode(About::default()) {
        Ok(release) => release,
        Err(error) if matches!(error.kind, ErrorKind::Forbidden | ErrorKind::NotFound) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(numbers(&release.git_version).map(str::to_owned))
}

/// `v1.30.4` of `v1.30.4-eks-a737599`.
fn numbers(version: &str) -> Option<&str> {
    let numbers = version.split(['-', '+']).next()?;
    let mut parts = numbers.strip_prefix('v')?.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let are_three = parts.by_ref().take(3).filter(|part| is_number(part)).count() == 3;
    (are_three && parts.next().is_none()).then_some(numbers)
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

/// What a root says, with its tag where it has said all; nothing where that is what is known.
async fn root(
    server: &Server,
    path: &str,
    known: Option<&HeaderValue>,
) -> Result<Option<(Option<Root>, Option<HeaderValue>)>, ClusterError> {
    let call = Call { known: known.cloned(), ..Call::get(path.to_owned()).accept(AGGREGATED) };
    let answer = server.call_patiently(&call).await?;
    if known.is_some() && answer.status == StatusCode::NOT_MODIFIED {
        return Ok(None);
    }
    match answer.decode(About::default()) {
        Ok(root) => {
            let is_all = matches!(root, Root::Aggregated { .. });
            Ok(Some((Some(root), answer.tag.filter(|_| is_all))))
        }
        // A server may have no core group.
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Some((None, None))),
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
            if resources.is_empty() {
                catalog.add_silent(&name, &version);
            }
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
