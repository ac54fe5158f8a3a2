//! Contents of a claim's Lease. Any program may have written it, so every field can be missing.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::Right;
use tidegate_model::annotations::{
    CLAIM_APPLICATION, CLAIM_HOLDER, CLAIM_INCARNATION, CLAIM_REVISION, CLAIM_SUPERSEDE_REQUESTED_BY,
    CLAIM_SUPERSEDE_REQUESTED_BY_HOLDER, OPERATION_ID,
};
use tidegate_model::{ClaimHolder, ClaimLocation, Gvk, Object, Timestamp};

use super::times::CLAIM_DURATION;

/// Maximum accepted lease duration. It ensures that every claim eventually expires.
const LEASE_DURATION_MAX: Duration = Duration::from_secs(600);

/// Returns the kind of object that represents a claim.
pub(crate) fn lease_kind() -> Gvk {
    Gvk::new("coordination.k8s.io", "v1", "Lease")
}

/// Returns the rights required to create, renew and release a Lease.
pub(crate) fn required_rights(place: &ClaimLocation) -> BTreeSet<Right> {
    // A permission check for `create` doesn't include the object name.
    let rights = [("create", ""), ("get", place.name.as_str()), ("update", place.name.as_str())];
    let right = |(verb, name): (_, &str)| Right {
        verb,
        gvk: lease_kind(),
        namespace: place.namespace.clone(),
        name: name.to_owned(),
    };
    rights.into_iter().map(right).collect()
}

/// An operation that wants a claim.
#[derive(Clone, Debug)]
pub(crate) struct Claimant {
    pub operation: String,
    pub application: String,
    /// Host and process running the operation.
    pub worker: String,
    pub revision: String,
    /// Unique ID of the engine. After a takeover, the operation has another one.
    pub incarnation: String,
}

/// A Lease, as last read or written.
#[derive(Clone, Debug)]
pub(crate) struct Lease(pub Object);

/// Fields of a Lease that change with each renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Renewal {
    pub holder: String,
    pub time: String,
    pub epoch: u64,
}

/// Owner of a Lease, according to its holder and annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// No owner. The Lease can be acquired.
    Free,
    /// This operation, in any engine.
    Ours,
    /// Another operation, with its identity.
    Other(ClaimHolder),
    /// Another operation has acquired the Lease since this one held it.
    Lost(Option<ClaimHolder>),
}

impl Lease {
    fn annotation(&self, name: &str) -> String {
        self.0.annotation(name).unwrap_or_default().to_owned()
    }

    /// Returns the ID of the operation that holds the Lease, empty after a release.
    pub fn holder_id(&self) -> &str {
        self.0.text("/spec/holderIdentity")
    }

    /// Returns the identity of the holder.
    pub(super) fn holder(&self) -> ClaimHolder {
        ClaimHolder {
            operation: self.holder_id().to_owned(),
            who: self.annotation(CLAIM_HOLDER),
            revision: self.annotation(CLAIM_REVISION),
            since: self.0.text("/spec/acquireTime").parse().ok(),
        }
    }

    /// Returns the number of holders so far.
    pub fn epoch(&self) -> u64 {
        self.0.integer("/spec/leaseTransitions").and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
    }

    /// Returns the fields that change with each renewal.
    pub(super) fn renewal(&self) -> Renewal {
        Renewal {
            holder: self.holder_id().to_owned(),
            time: self.0.text("/spec/renewTime").to_owned(),
            epoch: self.epoch(),
        }
    }

    /// Returns the time until the Lease expires without a renewal. Other programs may use their own
    /// durations.
    pub fn duration(&self) -> Duration {
        self.duration_at_least(CLAIM_DURATION)
    }

    /// Returns the time until the Lease expires without a renewal. `min` is both the minimum and the default.
    pub fn duration_at_least(&self, min: Duration) -> Duration {
        let seconds =
            self.0.integer("/spec/leaseDurationSeconds").and_then(|count| u64::try_from(count).ok());
        seconds.map_or(min, |seconds| Duration::from_secs(seconds).clamp(min, LEASE_DURATION_MAX.max(min)))
    }

    /// Returns true if this operation held the Lease last, and another engine wrote it for the operation. An engine of an
    /// earlier version only writes its worker.
    pub(super) fn is_of_other_engine(&self, us: &Claimant) -> bool {
        let differs = |name, ours: &str| self.0.annotation(name).is_some_and(|text| text != ours);
        !differs(OPERATION_ID, &us.operation)
            && (differs(CLAIM_INCARNATION, &us.incarnation) || differs(CLAIM_HOLDER, &us.worker))
    }

    /// Returns the operation that asked the holder to end.
    pub fn end_requester(&self) -> Option<ClaimHolder> {
        let operation = self.annotation(CLAIM_SUPERSEDE_REQUESTED_BY);
        let who = self.annotation(CLAIM_SUPERSEDE_REQUESTED_BY_HOLDER);
        (!operation.is_empty()).then(|| ClaimHolder { operation, who, ..ClaimHolder::default() })
    }

    /// Returns the owner of the Lease as seen by `us`. `had` is true if `us` held the Lease before. A
    /// released Lease still records its last holder, which shows whether another operation was active in the
    /// meantime.
    pub(super) fn owner(&self, us: &Claimant, had: bool) -> Owner {
        let is_free = self.holder_id().is_empty();
        let was_ours = self.0.annotation(OPERATION_ID) == Some(us.operation.as_str());
        match (self.holder_id() == us.operation, is_free, had) {
            (true, _, _) => Owner::Ours,
            (false, true, true) if !was_ours => Owner::Lost(None),
            (false, true, _) => Owner::Free,
            (false, false, true) => Owner::Lost(Some(self.holder())),
            (false, false, false) => Owner::Other(self.holder()),
        }
    }

    fn with_change(&self, change: impl FnOnce(&mut Object)) -> Object {
        let mut object = self.0.clone();
        // The server maintains this field.
        object.metadata_mut().remove("managedFields");
        change(&mut object);
        object
    }

    /// Returns the Lease as acquired by `holder`.
    pub fn with_holder(&self, holder: &str, lasts: Duration, epoch: u64, now: Timestamp) -> Object {
        self.with_change(|object| {
            let spec = object.section_mut("spec");
            spec.insert("holderIdentity".to_owned(), holder.into());
            spec.insert("leaseDurationSeconds".to_owned(), lasts.as_secs().into());
            spec.insert("acquireTime".to_owned(), format_micro_time(now));
            spec.insert("renewTime".to_owned(), format_micro_time(now));
            spec.insert("leaseTransitions".to_owned(), epoch.into());
        })
    }

    /// Returns the Lease with a new renewal time.
    pub fn with_renewal_time(&self, now: Timestamp) -> Object {
        self.with_change(|object| {
            object.section_mut("spec").insert("renewTime".to_owned(), format_micro_time(now));
        })
    }

    /// Returns the Lease as acquired by `us`.
    pub fn with_claimant(&self, us: &Claimant, epoch: u64, now: Timestamp) -> Object {
        Self(self.with_holder(&us.operation, CLAIM_DURATION, epoch, now)).with_change(|object| {
            object.set_annotation(OPERATION_ID, us.operation.as_str());
            object.set_annotation(CLAIM_APPLICATION, us.application.as_str());
            object.set_annotation(CLAIM_HOLDER, us.worker.as_str());
            object.set_annotation(CLAIM_INCARNATION, us.incarnation.as_str());
            object.set_annotation(CLAIM_REVISION, us.revision.as_str());
            remove_end_requests(object);
        })
    }

    /// Returns the Lease as renewed by `us`.
    pub fn renewed_by(&self, us: &Claimant, now: Timestamp) -> Object {
        Self(self.with_renewal_time(now)).with_change(|object| {
            object.set_annotation(CLAIM_HOLDER, us.worker.as_str());
            object.set_annotation(CLAIM_INCARNATION, us.incarnation.as_str());
        })
    }

    /// Returns the released Lease. It isn't deleted, because its count of holders must never decrease.
    pub fn released(&self) -> Object {
        self.with_change(|object| {
            object.section_mut("spec").remove("holderIdentity");
            remove_end_requests(object);
        })
    }

    /// Returns the Lease as revoked from an operation that isn't running anymore.
    pub fn revoked_by(&self, us: &Claimant) -> Object {
        let epoch = self.epoch().saturating_add(1);
        self.with_change(|object| {
            let spec = object.section_mut("spec");
            spec.remove("holderIdentity");
            spec.insert("leaseTransitions".to_owned(), epoch.into());
            object.set_annotation(OPERATION_ID, us.operation.as_str());
            remove_end_requests(object);
        })
    }

    /// Returns the Lease without any request for its holder to end.
    pub fn without_end_request(&self) -> Object {
        self.with_change(remove_end_requests)
    }

    /// Returns the Lease with a request for its holder to end.
    pub fn with_end_request(&self, us: &Claimant) -> Object {
        self.with_change(|object| {
            object.set_annotation(CLAIM_SUPERSEDE_REQUESTED_BY, us.operation.as_str());
            object.set_annotation(CLAIM_SUPERSEDE_REQUESTED_BY_HOLDER, us.worker.as_str());
        })
    }
}

fn remove_end_requests(object: &mut Object) {
    object.remove_annotation(CLAIM_SUPERSEDE_REQUESTED_BY);
    object.remove_annotation(CLAIM_SUPERSEDE_REQUESTED_BY_HOLDER);
}

/// Returns a new Lease to create at this location, or `None` if none can exist there.
pub(super) fn new_lease(place: &ClaimLocation) -> Option<Lease> {
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": place.name,
            "namespace": place.namespace,
            "labels": {"app.kubernetes.io/managed-by": "tidegate"},
        },
    });
    Object::try_from(object).ok().map(Lease)
}

/// Formats a time for a Lease, with exactly six fractional digits.
fn format_micro_time(at: Timestamp) -> Value {
    let text = at.to_string();
    Value::from(text.strip_suffix('Z').map_or(text.clone(), |start| format!("{start}000Z")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimant() -> Claimant {
        let text = |text: &str| text.to_owned();
        Claimant {
            operation: text("us"),
            application: text("web"),
            worker: text("ann"),
            revision: text("r"),
            incarnation: text("engine"),
        }
    }

    fn lease(holder: &str, last: &str) -> Lease {
        let place = ClaimLocation { namespace: "n".into(), name: "tidegate-web".into() };
        let mut lease = new_lease(&place).unwrap();
        if !holder.is_empty() {
            lease.0.section_mut("spec").insert("holderIdentity".into(), holder.into());
        }
        lease.0.set_annotation(OPERATION_ID, last);
        lease
    }

    #[test]
    fn the_owner_follows_from_the_holder_and_the_marks() {
        let other = || ClaimHolder { operation: "them".into(), ..ClaimHolder::default() };
        for (holder, last, had, owner) in [
            ("", "", false, Owner::Free),
            ("", "them", false, Owner::Free),
            ("us", "us", false, Owner::Ours),
            ("them", "them", false, Owner::Other(other())),
            // This operation held the Lease before, and wants it again.
            ("us", "us", true, Owner::Ours),
            ("", "us", true, Owner::Free),
            ("", "them", true, Owner::Lost(None)),
            ("them", "them", true, Owner::Lost(Some(other()))),
        ] {
            assert_eq!(lease(holder, last).owner(&claimant(), had), owner, "{holder} {last} {had}");
        }
    }

    #[test]
    fn a_written_lease_is_read_back_unchanged() {
        let now: Timestamp = "2026-11-21T09:30:00.25Z".parse().unwrap();
        let taken = Lease(lease("", "them").with_end_request(&claimant()));
        assert_eq!(taken.end_requester().map(|by| (by.operation, by.who)), Some(("us".into(), "ann".into())));
        let taken = Lease(taken.with_claimant(&claimant(), 4, now));
        assert_eq!(taken.0.text("/spec/renewTime"), "2026-11-21T09:30:00.250000Z");
        assert_eq!((taken.epoch(), taken.duration(), taken.end_requester()), (4, CLAIM_DURATION, None));
        let holder = taken.holder();
        assert_eq!((holder.who.as_str(), holder.revision.as_str(), holder.since), ("ann", "r", Some(now)));
        let later = Lease(taken.renewed_by(&claimant(), now + Duration::from_secs(5)));
        assert_ne!(later.renewal(), taken.renewal());
        assert_eq!(later.holder().since, Some(now), "the start of the claim stays the same");
        let free = Lease(later.released());
        assert_eq!((free.owner(&claimant(), false), free.epoch()), (Owner::Free, 4));
        assert_eq!(Lease(later.revoked_by(&claimant())).epoch(), 5);
    }

    #[test]
    fn foreign_values_in_a_lease_do_no_harm() {
        let mut odd = lease("them", "them");
        for spec in [
            json!({"holderIdentity": 7, "leaseTransitions": -1, "leaseDurationSeconds": 0}),
            json!({"leaseDurationSeconds": 99_999_999, "renewTime": {}}),
            json!(null),
            json!("x"),
        ] {
            odd.0.fields_mut().insert("spec".into(), spec);
            assert!(odd.duration() >= CLAIM_DURATION && odd.duration() <= LEASE_DURATION_MAX);
            let _ = (
                odd.owner(&claimant(), true),
                odd.renewal(),
                odd.with_claimant(&claimant(), odd.epoch(), Timestamp::default()),
            );
        }
    }
}
