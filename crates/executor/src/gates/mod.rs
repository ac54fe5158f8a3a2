//! Gates: how they are asked, and those that are built in. Approvals and soaks need nobody to ask; the machine knows them.

mod asked;
mod asking;
mod cel;
mod concurrency;
mod definitions;
mod http;
mod keeping;
mod steps;
mod window;

pub(crate) use asked::Asked;
pub(crate) use asking::ask;
pub use cel::CelGate;
pub(crate) use cel::{Objects, Way};
pub use concurrency::Concurrency;
pub(crate) use concurrency::{CONCURRENCY, Groups, Recorded, Ticket};
pub(crate) use definitions::is_defined_by_name;
pub use definitions::{GateDefinitions, InvalidGate};
pub(crate) use http::Web;
pub use http::{HeaderSource, HttpGate, HttpMethod};
pub(crate) use keeping::{Around, keep};
pub use steps::StepQuestion;
pub(crate) use steps::ask_about_step;
pub use window::{WINDOW, zone};
