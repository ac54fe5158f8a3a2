//! An Application shared by its actor, the cache and the persisted state. Otherwise, each of thousands of
//! idle Applications would be in memory several times.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tidegate_model::argo::Application;

/// A shared Application, which is copied on write.
#[derive(Clone, Debug)]
pub struct SharedApplication(Arc<Application>);

impl SharedApplication {
    /// Returns a shared reference.
    pub fn share(&self) -> Arc<Application> {
        Arc::clone(&self.0)
    }

    /// Shares the other Application's memory if they are equal. Returns true if they are.
    pub fn share_if_equal(&mut self, other: &Arc<Application>) -> bool {
        let is_same = Arc::ptr_eq(&self.0, other) || self.0 == *other;
        if is_same {
            self.0 = Arc::clone(other);
        }
        is_same
    }
}

impl From<Application> for SharedApplication {
    fn from(application: Application) -> Self {
        Self(Arc::new(application))
    }
}

impl Deref for SharedApplication {
    type Target = Application;

    fn deref(&self) -> &Application {
        &self.0
    }
}

impl DerefMut for SharedApplication {
    fn deref_mut(&mut self) -> &mut Application {
        Arc::make_mut(&mut self.0)
    }
}
