//! Options that identify the objects of an application. Flattened into the commands that plan.

use clap::{Args, ValueEnum};
use tidegate_model::annotations::INSTANCE_LABEL;
use tidegate_model::{Tracking, TrackingMethod};

/// Marks of the application's objects.
#[derive(Clone, Debug, Args)]
pub struct TrackingArgs {
    /// Marks that identify an application's objects
    #[arg(long, value_enum, value_name = "METHOD", default_value_t, help_heading = HEADING)]
    tracking: TrackingArg,
    /// Key of the tracking label
    #[arg(long, value_name = "KEY", default_value = INSTANCE_LABEL, help_heading = HEADING)]
    tracking_label: String,
    /// ID of this installation, added as an annotation to its objects to distinguish it from other installations that
    /// deploy into the same cluster
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
    // The default of Argo CD.
    #[default]
    Annotation,
    // The label is for people and other tools.
    #[value(name = "annotation+label")]
    AnnotationAndLabel,
    // Only the label.
    Label,
}
