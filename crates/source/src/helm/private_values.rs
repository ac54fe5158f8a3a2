//! Helm values that must not appear in error messages.

use std::path::Path;

use serde_json::Value;
use tidegate_model::argo::HelmSource;

use crate::mask::MaskValues;
use crate::render_target::Variables;
use crate::tools::visit_files;

/// File with the default values of a chart.
const VALUES: &str = "values.yaml";

/// The source's values for the chart. Their strings are collected only if Helm fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrivateValues {
    parameters: Vec<String>,
    object: Option<Value>,
    text: String,
}

impl PrivateValues {
    pub fn new(helm: &HelmSource, variables: &Variables) -> Self {
        let mut parameters = Vec::new();
        for one in &helm.parameters {
            parameters.push(one.value.clone());
            // Build variables are public, so don't mask a value that is only a variable.
            if !one.value.starts_with('$') {
                parameters.push(variables.replace(&one.value));
            }
        }
        Self { parameters, object: helm.values_object.clone(), text: helm.values.clone() }
    }

    /// Returns the values to mask.
    pub fn to_mask_values(&self) -> MaskValues {
        let mut values = MaskValues::default();
        self.parameters.iter().for_each(|value| values.add(value));
        if let Some(object) = &self.object {
            values.add_all(object);
        }
        values.add_file(&self.text);
        values
    }
}

/// Adds the charts' default values with secret-sounding names. Other defaults stay visible, because they help
/// users to find errors.
pub(super) fn add_defaults(values: &mut MaskValues, chart: &Path) {
    visit_files(
        chart,
        |name| name == VALUES,
        |_, content| {
            values.add_suspicious(&String::from_utf8_lossy(content));
        },
    );
}
