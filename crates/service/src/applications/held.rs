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

    /// Has the one that is shown, where it is the same.
    pub fn share_with(&mut self, shown: &Arc<Application>) {
        if !Arc::ptr_eq(&self.0, shown) && self.0 == *shown {
            self.0 = Arc::clone(shown);
        }
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
