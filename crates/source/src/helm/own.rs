//! What a chart is given and has, and must not be told of it.

use std::path::Path;

use serde_json::Value;
use tidegate_model::argo::HelmSource;

use crate::mask::Values;
use crate::purpose::Variables;
use crate::tools::each_file;

/// The file in which a chart has its own values.
const VALUES: &str = "values.yaml";

/// What a source itself gives to its chart. Its values are looked for when Helm has failed, and not before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Own {
    parameters: Vec<String>,
    object: Option<Value>,
    text: String,
}

impl Own {
    pub fn new(helm: &HelmSource, variables: &Variables) -> Self {
        let mut parameters = Vec::new();
        for one in &helm.parameters {
            parameters.push(one.value.clone());
            // A variable alone is what everybody knows of the application.
            if !one.value.starts_with('$') {
                parameters.push(variables.replace(&one.value));
            }
        }
        Self { parameters, object: helm.values_object.clone(), text: helm.values.clone() }
    }

    /// Its values.
    pub fn values(&self) -> Values {
        let mut values = Values::default();
        self.parameters.iter().for_each(|value| values.add(value));
        if let Some(object) = &self.object {
            values.add_all(object);
        }
        values.add_file(&self.text);
        values
    }
}

/// Adds what the charts in a folder have under names that tell of secrets. All else of them is no more than what they are made of, and
/// says where they are wrong.
pub(super) fn add_defaults(values: &mut Values, chart: &Path) {
    each_file(
        chart,
        |name| name == VALUES,
        |_, content| {
            values.add_telling(&String::from_utf8_lossy(content));
        },
    );
}
