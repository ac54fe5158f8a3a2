//! An application that is the same object for all who have it. There are thousands that lie idle, and each would be there
//! several times: with its actor, as it is shown, and as it was written down.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tidegate_model::argo::Application;

/// An application; whoever changes his has one of his own from then on.
#[derive(Clone, Debug)]
pub(crate) struct Held(Arc<Application>);

impl Held {
    /// The same for somebody else.
    pub fn share(&self) -> Arc<Application> {
        Arc::clone(&self.0)
    }

    /// Whether another is the same; then it is one object from then on.
    pub fn is(&mut self, other: &Arc<Application>) -> bool {
        let is_same = Arc::ptr_eq(&self.0, other) || self.0 == *other;
        if is_same {
            self.0 = Arc::clone(other);
        }
        is_same
    }
}

impl From<Application> for Held {
    fn from(application: Application) -> Self {
        Self(Arc::new(application))
    }
}

impl Deref for Held {
    type Target = Application;

    fn deref(&self) -> &Application {
        &self.0
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Application {
        Arc::make_mut(&mut self.0)
    }
}
