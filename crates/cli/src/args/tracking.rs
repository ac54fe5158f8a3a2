//! How the objects of an application are told from all others. Flattened into the commands that plan.

use clap::{Args, ValueEnum};
use tidegate_model::annotations::INSTANCE_LABEL;
use tidegate_model::{Tracking, TrackingMethod};

/// How objects are marked as the application's.
#[derive(Clone, Debug, Args)]
pub struct TrackingArgs {
    /// What marks an object as the application's
    #[arg(long, value_enum, value_name = "METHOD", default_value_t, help_heading = HEADING)]
    tracking: TrackingArg,
    /// Key of the label that marks it
    #[arg(long, value_name = "KEY", default_value = INSTANCE_LABEL, help_heading = HEADING)]
    tracking_label: String,
    /// Tells this installation from others that deploy into the same cluster: an annotation that objects get, and must
    /// have
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
    /// The same in the engine's words.
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

/// The methods, as they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TrackingArg {
    // As Argo CD does it unless told otherwise.
    #[default]
    Annotation,
    // The label is for people and other tools.
    #[value(name = "annotation+label")]
    AnnotationAndLabel,
    // Nothing but the label.
    Label,
}
