//! What a person asks for who deletes a set, also one that is being deleted already.

use tidegate_application::deletion::Asker;
use tidegate_applicationset::deletion::{Next, ORPHAN, deleting};
use tidegate_applicationset::rollout::full_name;

use super::SetState;

impl SetState {
    /// Somebody deletes the set.
    pub(super) async fn remove(&mut self, orphan: bool, by: &str, reason: &str) -> Result<(), String> {
        if self.is_deleting() && (!orphan || !self.shared.store.is_shared()) {
            return self.is_removed_already(orphan);
        }
        let (_, existing) = self.without_skipped();
        let known = self.shared.applications.as_ref();
        // It could not be mended any more once it is being deleted.
        if let (false, Next::Stay(invalid)) =
            (orphan, deleting(&self.set, &existing, known, &self.shared.options))
        {
            return Err(format!(
                "{invalid}; `--orphan` deletes the ApplicationSet and leaves its Applications"
            ));
        }
        tracing::info!(set = %self.key, orphan, by, "an ApplicationSet is deleted");
        let mut removed = self.set.clone();
        if let Some(asker) = Asker::new(by, reason, self.now().into()) {
            asker.annotate(&mut removed.metadata.annotations);
        }
        self.shared.store.delete(&removed, orphan).await.map_err(|error| error.to_string())?;
        // It may be gone before it is told once more.
        self.set.metadata.annotations = removed.metadata.annotations;
        Ok(())
    }

    /// Somebody deletes it again: that goes on as it was asked for first.
    fn is_removed_already(&self, orphan: bool) -> Result<(), String> {
        let name = full_name(&self.set);
        if orphan && !self.set.metadata.finalizers.iter().any(|one| one == ORPHAN) {
            return Err(format!(
                "ApplicationSet {name} is being deleted already, and its Applications with it; `tidegate appset skip {name} --app APPLICATION --reason …` keeps one of them, and `tidegate appset terminate {name}` ends the deletion"
            ));
        }
        // It would wait for somebody to begin it again.
        let is_over = self.teardowns.running.is_none() && self.asked.is_none() && self.told_cut().is_some();
        match self.cut_short().filter(|_| is_over) {
            Some(why) => Err(format!("ApplicationSet {name} is being deleted already, and {why}")),
            None => Ok(()),
        }
    }
}
