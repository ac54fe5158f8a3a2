//! Options for identifying an application's objects. Flattened into the commands that create plans.

use clap::{Args, ValueEnum};
use tidegate_model::annotations::INSTANCE_LABEL;
use tidegate_model::{Tracking, TrackingMethod};

/// Options for marking the application's objects.
#[derive(Clone, Debug, Args)]
pub struct TrackingArgs {
    /// Method for marking objects as part of an application
    #[arg(long, value_enum, value_name = "METHOD", default_value_t, help_heading = HEADING)]
    tracking: TrackingArg,
    /// Key of the label for --tracking annotation+label and --tracking label
    #[arg(long, value_name = "KEY", default_value = INSTANCE_LABEL, help_heading = HEADING)]
    tracking_label: String,
    /// ID that distinguishes this Tidegate installation from others that deploy to the same cluster; Tidegate
    /// records it in an annotation on each object
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true, help_heading = HEADING)]
    installation_id: String,
}

const HEADING: &str = "Tracking";

impl Default for TrackingArgs {
    fn default() -> Self {
        let Tracking { label, installation, .. } = Tracking::default();
        Self { tracking: TrackingArg::default(), tracking_label: label, installation_id: installation }
    }
}

impl TrackingArgs {
    /// Returns the tracking settings for the engine.
    pub fn tracking(&self) -> Tracking {
        Tracking {
            method: match self.tracking {
                TrackingArg::Annotation => TrackingMethod::Annotation,
                TrackingArg::AnnotationAndLabel => TrackingMethod::AnnotationAndLabel,
                TrackingArg::Label => TrackingMethod::Label,
            },
            label: self.tracking_label.clone(),
            installation: self.installation_id.clone(),
        }
    }
}

/// Tracking methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TrackingArg {
    // The annotation identifies the objects, as it does by default in Argo CD.
    #[default]
    Annotation,
    // The annotation identifies the objects. The label is only for users and other tools.
    #[value(name = "annotation+label")]
    AnnotationAndLabel,
    // The label alone identifies the objects.
    Label,
}
