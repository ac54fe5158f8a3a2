//! What a chart is told of the cluster that it is made for.

use tidegate_model::argo::HelmSource;

use crate::purpose::Served;

/// The arguments that say it: what the source says goes before what the cluster serves, each for itself.
pub(super) fn capabilities(helm: &HelmSource, cluster: &Served) -> Result<Vec<String>, String> {
    let (own_version, own_kinds) = (&helm.kube_version, &helm.api_versions);
    let (version, kinds) = match cluster {
        _ if !own_version.is_empty() && !own_kinds.is_empty() => (own_version, own_kinds),
        Served::NoCluster => (own_version, own_kinds),
        Served::Known(known) => (
            if own_version.is_empty() { &known.kube_version } else { own_version },
            if own_kinds.is_empty() { &known.api_versions } else { own_kinds },
        ),
        Served::Unasked(question) => {
            question.ask();
            return Err("what its cluster serves was not asked for".to_owned());
        }
        Served::Unknown(why, question) => {
            question.ask();
            return Err(format!("what its cluster serves is not known: {why}"));
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
    use crate::{Capabilities, Question};

    #[test]
    fn the_source_goes_before_the_cluster() {
        let known = Capabilities { kube_version: "v1.36.1".into(), api_versions: vec!["a/v1".into()] };
        let known = Served::Known(Arc::new(known));
        let away = Served::Unknown("it does not answer".into(), Question::default());
        let nameless = Served::Known(Arc::default());
        let question = Question::default();
        let unasked = Served::Unasked(question.clone());
        assert!(capabilities(&HelmSource::default(), &unasked).is_err() && question.was_asked());
        for (version, kinds, cluster, expected) in [
            ("", &[][..], &Served::NoCluster, Ok("")),
            ("1.30", &["b/v1"], &Served::NoCluster, Ok("--kube-version=1.30 --api-versions=b/v1")),
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
            ("1.30", &[], &away, Err("what its cluster serves is not known: it does not answer")),
            ("", &[], &away, Err("what its cluster serves is not known: it does not answer")),
        ] {
            let api_versions = kinds.iter().map(|kind: &&str| (*kind).to_owned()).collect();
            let helm = HelmSource { kube_version: version.into(), api_versions, ..HelmSource::default() };
            let found = capabilities(&helm, cluster).map(|arguments| arguments.join(" "));
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{version} {kinds:?}");
        }
    }
}
