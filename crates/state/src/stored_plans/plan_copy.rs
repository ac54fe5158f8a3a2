//! Copies of stored plans, together with the operation log.

use std::collections::BTreeSet;

use tidegate_model::Digest;

use super::StoredPlans;
use crate::error::ServiceError;
use crate::notices::Notices;

impl StoredPlans {
    /// Returns the number of plans.
    pub fn count(&self) -> Result<usize, ServiceError> {
        Ok(self.files.hashes()?.len())
    }

    /// Checks that a target contains no other plans than these, with the same metadata.
    ///
    /// # Errors
    ///
    /// Returns an error that contains the hash of the first plan that differs.
    pub fn compare(&self, target: &Self) -> Result<(), ServiceError> {
        let here: BTreeSet<Digest> = self.files.hashes()?.into_iter().collect();
        for hash in target.files.hashes()? {
            if !here.contains(&hash) || self.files.read(hash)? != target.files.read(hash)? {
                return Err(ServiceError::refused(format!(
                    "plan {hash} in {} differs from the one in the source; choose an empty target; nothing in the \
                     target was overwritten",
                    target.files
                )));
            }
        }
        Ok(())
    }

    /// Copies all plans, and verifies the copies. Existing copies stay as they are. Returns the number of plans.
    pub fn copy_to(&self, target: &Self, notices: &dyn Notices) -> Result<usize, ServiceError> {
        let (_source_lock, _target_lock) = (self.files.lock()?, target.files.lock()?);
        self.compare(target)?;
        let existing = target.files.content_names()?;
        for name in self.files.content_names()? {
            if let Err(error) = self.files.content(name) {
                notices.warn(&format!("a stored plan is damaged and cannot be copied: {error}"));
                continue;
            }
            if !existing.contains(&name) {
                target.files.put_sealed_content(name, &self.files.sealed_content(name)?)?;
            }
            target.files.content(name)?;
        }
        let hashes = self.files.hashes()?;
        let existing: BTreeSet<Digest> = target.files.hashes()?.into_iter().collect();
        for &hash in hashes.iter().filter(|hash| !existing.contains(hash)) {
            if let Some(metadata) = self.files.read(hash)? {
                target.files.write(hash, &metadata)?;
            }
        }
        self.compare(target)?;
        match target.count()? == hashes.len() {
            true => Ok(hashes.len()),
            false => Err(ServiceError::refused(format!(
                "some plans are missing in {} after the copy; repeat the copy",
                target.files
            ))),
        }
    }
}
