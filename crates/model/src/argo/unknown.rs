//! Which fields of a resource are not known here.

use super::{Application, ApplicationSource, Rest};

impl Application {
    /// The fields of its specification, and of what is asked, that are not known here, as paths: they are kept, and have
    /// no effect.
    pub fn unknown_fields(&self) -> Vec<String> {
        let mut found = Found::default();
        let spec = &self.spec;
        found.add("", &self.rest);
        found.add("spec.", &spec.rest);
        found.add("spec.destination.", &spec.destination.rest);
        if let Some(source) = &spec.source {
            found.source("spec.source.", source);
        }
        for (at, source) in spec.sources.iter().enumerate() {
            found.source(&format!("spec.sources[{at}]."), source);
        }
        for (at, entry) in spec.ignore_differences.iter().enumerate() {
            found.add(&format!("spec.ignoreDifferences[{at}]."), &entry.rest);
        }
        if let Some(policy) = &spec.sync_policy {
            found.add("spec.syncPolicy.", &policy.rest);
            found.maybe("spec.syncPolicy.automated.", policy.automated.as_ref().map(|part| &part.rest));
            let metadata = policy.managed_namespace_metadata.as_ref();
            found.maybe("spec.syncPolicy.managedNamespaceMetadata.", metadata.map(|part| &part.rest));
            let retry = policy.retry.as_ref();
            found.maybe("spec.syncPolicy.retry.", retry.map(|part| &part.rest));
            let backoff = retry.and_then(|retry| retry.backoff.as_ref());
            found.maybe("spec.syncPolicy.retry.backoff.", backoff.map(|part| &part.rest));
        }
        if let Some(operation) = &self.operation {
            found.add("operation.", &operation.rest);
            found.maybe("operation.sync.", operation.sync.as_ref().map(|part| &part.rest));
        }
        found.0
    }
}

#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn add(&mut self, prefix: &str, rest: &Rest) {
        self.0.extend(rest.keys().map(|name| format!("{prefix}{name}")));
    }

    fn maybe(&mut self, prefix: &str, rest: Option<&Rest>) {
        if let Some(rest) = rest {
            self.add(prefix, rest);
        }
    }

    fn source(&mut self, prefix: &str, source: &ApplicationSource) {
        self.add(prefix, &source.rest);
        self.maybe(&format!("{prefix}directory."), source.directory.as_ref().map(|part| &part.rest));
        self.maybe(&format!("{prefix}helm."), source.helm.as_ref().map(|part| &part.rest));
        let parameters = source.helm.iter().flat_map(|helm| &helm.parameters).enumerate();
        parameters.for_each(|(at, one)| self.add(&format!("{prefix}helm.parameters[{at}]."), &one.rest));
        self.maybe(&format!("{prefix}kustomize."), source.kustomize.as_ref().map(|part| &part.rest));
        let patches = source.kustomize.iter().flat_map(|kustomize| &kustomize.patches).enumerate();
        patches.for_each(|(at, one)| self.add(&format!("{prefix}kustomize.patches[{at}]."), &one.rest));
    }
}
