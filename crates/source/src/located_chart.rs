//! Locates and renders the manifests of a chart from a Helm repository or registry.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;
use tidegate_model::argo::ApplicationSource;

use crate::SourceError;
use crate::charts::{Archive, ChartRepository};
use crate::helm::HelmPlan;
use crate::render_inputs::RenderInputs;
use crate::render_target::Variables;
use crate::repository::File;
use crate::source_type::{self, SourceType};
use crate::tools::WorkingFolder;

/// A version of a chart, along with Helm's inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedChart {
    /// Digest of the content and the parameters. Equal keys mean equal manifests.
    pub key: Digest,
    archive: Arc<Archive>,
    chart: String,
    plan: HelmPlan,
}

impl ChartRepository {
    /// Fetches a version of a chart and prepares Helm's inputs.
    pub fn locate(
        &self,
        source: &ApplicationSource,
        version: &str,
        making: &RenderInputs,
    ) -> Result<LocatedChart, SourceError> {
        if !matches!(source_type::explicit_type(source)?, None | Some(SourceType::Helm)) {
            return Err(SourceError::NotHelm);
        }
        let packed = self.fetch_archive(source, version)?;
        let chart = self.display_name(source).to_owned();
        let name = format!("chart {chart} {version} of {}", self.address());
        let unpacked = Archive::unpack(name, &packed);
        let tried = format!("cannot use chart {chart} {version}");
        let archive =
            Arc::new(unpacked.map_err(|problem| SourceError::remote(self.address(), &tried, problem))?);
        let variables = Variables::new(&making.purpose, source, "", version);
        let named = ApplicationSource { chart: chart.clone(), ..source.clone() };
        let mut plan = HelmPlan::new(&named, "", archive.as_ref(), making, &variables)?;
        plan.fetch(making)?;
        let mut hasher = Sha256::new();
        hasher.update(Sha256::digest(&packed));
        plan.digest(&mut hasher);
        Ok(LocatedChart { key: Digest(hasher.finalize().into()), archive, chart, plan })
    }

    /// Renders the located chart and returns its manifests.
    pub fn render(&self, located: &LocatedChart, making: &RenderInputs) -> Result<Vec<File>, SourceError> {
        let workshop = WorkingFolder::create(&making.tools)?;
        for (path, content) in &located.archive.files {
            workshop.write_source_file(&format!("chart/{path}"), content)?;
        }
        located.plan.render(&workshop, "chart", making)
    }
}
