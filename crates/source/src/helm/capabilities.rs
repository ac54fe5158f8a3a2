//! Arguments that tell a chart the capabilities of the cluster.

use tidegate_model::argo::HelmSource;

use crate::render_target::ClusterCapabilities;

/// Returns the arguments for `helm template`. Kubernetes and API versions come from the source or else from
/// the cluster.
pub(super) fn capability_arguments(
    helm: &HelmSource,
    cluster: &ClusterCapabilities,
) -> Result<Vec<String>, String> {
    let (own_version, own_kinds) = (&helm.kube_version, &helm.api_versions);
    let (version, kinds) = match cluster {
        _ if !own_version.is_empty() && !own_kinds.is_empty() => (own_version, own_kinds),
        ClusterCapabilities::NoCluster => (own_version, own_kinds),
        ClusterCapabilities::Known(known) => (
            if own_version.is_empty() { &known.kube_version } else { own_version },
            if own_kinds.is_empty() { &known.api_versions } else { own_kinds },
        ),
        ClusterCapabilities::NotQueried(question) => {
            question.request();
            return Err("the API versions of the destination cluster have not been fetched yet".to_owned());
        }
        ClusterCapabilities::Unknown(reason, question) => {
            question.request();
            return Err(format!("the API versions of the destination cluster are unknown: {reason}"));
        }
    };
    let version = (!version.is_empty()).then(|| format!("--kube-version={version}"));
    let kinds = kinds.iter().map(|kind| format!("--api-versions={kind}"));
    Ok(version.into_iter().chain(kinds).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Capabilities, CapabilitiesQuery};

    #[test]
    fn the_source_takes_precedence_over_the_cluster() {
        let known = Capabilities { kube_version: "v1.36.1".into(), api_versions: vec!["a/v1".into()] };
        let known = ClusterCapabilities::Known(Arc::new(known));
        let away = ClusterCapabilities::Unknown("no response".into(), CapabilitiesQuery::default());
        let nameless = ClusterCapabilities::Known(Arc::default());
        let question = CapabilitiesQuery::default();
        let unasked = ClusterCapabilities::NotQueried(question.clone());
        assert!(capability_arguments(&HelmSource::default(), &unasked).is_err() && question.is_requested());
        for (version, kinds, cluster, expected) in [
            ("", &[][..], &ClusterCapabilities::NoCluster, Ok("")),
            (
                "1.30",
                &["b/v1"],
                &ClusterCapabilities::NoCluster,
                Ok("--kube-version=1.30 --api-versions=b/v1"),
            ),
            ("", &[], &known, Ok("--kube-version=v1.36.1 --api-versions=a/v1")),
            ("1.30", &[], &known, Ok("--kube-version=1.30 --api-versions=a/v1")),
            (
                "",
                &["b/v1", "c/v1"],
                &known,
                Ok("--kube-version=v1.36.1 --api-versions=b/v1 --api-versions=c/v1"),
            ),
            ("", &[], &nameless, Ok("")),
            ("1.30", &["b/v1"], &away, Ok("--kube-version=1.30 --api-versions=b/v1")),
            ("1.30", &[], &away, Err("the API versions of the destination cluster are unknown: no response")),
            ("", &[], &away, Err("the API versions of the destination cluster are unknown: no response")),
        ] {
            let api_versions = kinds.iter().map(|kind: &&str| (*kind).to_owned()).collect();
            let helm = HelmSource { kube_version: version.into(), api_versions, ..HelmSource::default() };
            let found = capability_arguments(&helm, cluster).map(|arguments| arguments.join(" "));
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{version} {kinds:?}");
        }
    }
}
