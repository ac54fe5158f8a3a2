//! What is in the Lease of a claim. It may have been written by anybody, so everything in it may be missing.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_model::annotations::{
    CLAIM_APPLICATION, CLAIM_END_WANTED_BY, CLAIM_END_WANTED_BY_HOLDER, CLAIM_HOLDER, CLAIM_REVISION,
    OPERATION_ID,
};
use tidegate_model::{ClaimHolder, ClaimPlace, Gvk, Object, Timestamp};

use super::times::CLAIM_LASTS;

/// The longest duration that is believed: a claim must run out some day.
const LASTS_MAX: Duration = Duration::from_secs(600);

/// The kind of a claim.
pub(super) fn lease_kind() -> Gvk {
    Gvk::new("coordination.k8s.io", "v1", "Lease")
}

/// An operation that wants a claim.
#[derive(Clone, Debug)]
pub(crate) struct Claimant {
    pub operation: String,
    pub application: String,
    /// Who works on it, and where.
    pub who: String,
    pub revision: String,
}

/// A Lease as it was read or written last.
#[derive(Clone, Debug)]
pub(super) struct Lease(pub Object);

/// Whom a Lease belongs to, as its holder and its marks say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nobody: it may be taken.
    Free,
    /// This operation, whichever process of it wrote the Lease.
    Ours,
    /// Another operation, as it has named itself.
    Other(ClaimHolder),
    /// We had it, and another operation has taken it, or had it for a while.
    Lost(Option<ClaimHolder>),
}

impl Lease {
    fn annotation(&self, name: &str) -> String {
        self.0.annotation(name).unwrap_or_default().to_owned()
    }

    /// The operation that has it; empty when it was given back.
    fn holder_id(&self) -> &str {
        self.0.text("/spec/holderIdentity")
    }

    fn holder(&self) -> ClaimHolder {
        ClaimHolder {
            operation: self.holder_id().to_owned(),
            who: self.annotation(CLAIM_HOLDER),
            revision: self.annotation(CLAIM_REVISION),
            since: self.0.text("/spec/acquireTime").parse().ok(),
        }
    }

    /// How many holders it has had.
    pub fn epoch(&self) -> u64 {
        self.0.integer("/spec/leaseTransitions").and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
    }

    /// What changes with each renewal.
    pub fn renewal(&self) -> (String, String, u64) {
        (self.holder_id().to_owned(), self.0.text("/spec/renewTime").to_owned(), self.epoch())
    }

    /// How long it lasts without a renewal. Another program may keep its own time.
    pub fn lasts(&self) -> Duration {
        let seconds =
            self.0.integer("/spec/leaseDurationSeconds").and_then(|count| u64::try_from(count).ok());
        seconds.map_or(CLAIM_LASTS, |seconds| Duration::from_secs(seconds).clamp(CLAIM_LASTS, LASTS_MAX))
    }

    /// Who asks its holder to end.
    pub fn end_wanted_by(&self) -> Option<ClaimHolder> {
        let operation = self.annotation(CLAIM_END_WANTED_BY);
        let who = self.annotation(CLAIM_END_WANTED_BY_HOLDER);
        (!operation.is_empty()).then(|| ClaimHolder { operation, who, ..ClaimHolder::default() })
    }

    /// Whose it is for us, who had it before or not. Whoever had it last stays written in it, so that we know whether
    /// another operation was at work while we were away.
    pub fn owner(&self, us: &Claimant, had: bool) -> Owner {
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

    fn changed(&self, change: impl FnOnce(&mut Object)) -> Object {
        let mut object = self.0.clone();
        // The server knows who owns which field.
        object.metadata_mut().remove("managedFields");
        change(&mut object);
        object
    }

    /// The Lease as it is taken.
    pub fn taken(&self, us: &Claimant, epoch: u64, now: Timestamp) -> Object {
        self.changed(|object| {
            let spec = object.section_mut("spec");
            spec.insert("holderIdentity".to_owned(), us.operation.as_str().into());
            spec.insert("leaseDurationSeconds".to_owned(), CLAIM_LASTS.as_secs().into());
            spec.insert("acquireTime".to_owned(), micro_time(now));
            spec.insert("renewTime".to_owned(), micro_time(now));
            spec.insert("leaseTransitions".to_owned(), epoch.into());
            object.set_annotation(OPERATION_ID, us.operation.as_str());
            object.set_annotation(CLAIM_APPLICATION, us.application.as_str());
            object.set_annotation(CLAIM_HOLDER, us.who.as_str());
            object.set_annotation(CLAIM_REVISION, us.revision.as_str());
            forget_wishes(object);
        })
    }

    /// The Lease as its holder renews it.
    pub fn renewed(&self, us: &Claimant, now: Timestamp) -> Object {
        self.changed(|object| {
            object.section_mut("spec").insert("renewTime".to_owned(), micro_time(now));
            object.set_annotation(CLAIM_HOLDER, us.who.as_str());
        })
    }

    /// The Lease as it is given back. It stays, because its count of holders must never go back.
    pub fn given_back(&self) -> Object {
        self.changed(|object| {
            object.section_mut("spec").remove("holderIdentity");
            forget_wishes(object);
        })
    }

    /// The Lease of an operation that is not at work any more, taken away from it.
    pub fn taken_away(&self, us: &Claimant) -> Object {
        let epoch = self.epoch().saturating_add(1);
        self.changed(|object| {
            let spec = object.section_mut("spec");
            spec.remove("holderIdentity");
            spec.insert("leaseTransitions".to_owned(), epoch.into());
            object.set_annotation(OPERATION_ID, us.operation.as_str());
            forget_wishes(object);
        })
    }

    /// The Lease without anybody's wish that its holder may end.
    pub fn without_wish(&self) -> Object {
        self.changed(forget_wishes)
    }

    /// The Lease with the wish that its holder may end.
    pub fn with_wish(&self, us: &Claimant) -> Object {
        self.changed(|object| {
            object.set_annotation(CLAIM_END_WANTED_BY, us.operation.as_str());
            object.set_annotation(CLAIM_END_WANTED_BY_HOLDER, us.who.as_str());
        })
    }
}

fn forget_wishes(object: &mut Object) {
    object.remove_annotation(CLAIM_END_WANTED_BY);
    object.remove_annotation(CLAIM_END_WANTED_BY_HOLDER);
}

/// A Lease that is not there yet; `None` if the place cannot have one.
pub(super) fn blank(place: &ClaimPlace) -> Option<Lease> {
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

/// A time as a Lease has it: with exactly six digits of a second.
fn micro_time(at: Timestamp) -> Value {
    let text = at.to_string();
    Value::from(text.strip_suffix('Z').map_or(text.clone(), |start| format!("{start}000Z")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us() -> Claimant {
        let text = |text: &str| text.to_owned();
        Claimant { operation: text("us"), application: text("web"), who: text("ann"), revision: text("r") }
    }

    fn lease(holder: &str, last: &str) -> Lease {
        let place = ClaimPlace { namespace: "n".into(), name: "tidegate-web".into() };
        let mut lease = blank(&place).unwrap();
        if !holder.is_empty() {
            lease.0.section_mut("spec").insert("holderIdentity".into(), holder.into());
        }
        lease.0.set_annotation(OPERATION_ID, last);
        lease
    }

    #[test]
    fn whose_a_claim_is() {
        let other = || ClaimHolder { operation: "them".into(), ..ClaimHolder::default() };
        for (holder, last, had, owner) in [
            ("", "", false, Owner::Free),
            ("", "them", false, Owner::Free),
            ("us", "us", false, Owner::Ours),
            ("them", "them", false, Owner::Other(other())),
            // We had it, and come back.
            ("us", "us", true, Owner::Ours),
            ("", "us", true, Owner::Free),
            ("", "them", true, Owner::Lost(None)),
            ("them", "them", true, Owner::Lost(Some(other()))),
        ] {
            assert_eq!(lease(holder, last).owner(&us(), had), owner, "{holder} {last} {had}");
        }
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let now: Timestamp = "2026-11-21T09:30:00.25Z".parse().unwrap();
        let taken = Lease(lease("", "them").with_wish(&us()));
        assert_eq!(taken.end_wanted_by().map(|by| (by.operation, by.who)), Some(("us".into(), "ann".into())));
        let taken = Lease(taken.taken(&us(), 4, now));
        assert_eq!(taken.0.text("/spec/renewTime"), "2026-11-21T09:30:00.250000Z");
        assert_eq!((taken.epoch(), taken.lasts(), taken.end_wanted_by()), (4, CLAIM_LASTS, None));
        let holder = taken.holder();
        assert_eq!((holder.who.as_str(), holder.revision.as_str(), holder.since), ("ann", "r", Some(now)));
        let later = Lease(taken.renewed(&us(), now + Duration::from_secs(5)));
        assert_ne!(later.renewal(), taken.renewal());
        assert_eq!(later.holder().since, Some(now), "since when it is held stays");
        let free = Lease(later.given_back());
        assert_eq!((free.owner(&us(), false), free.epoch()), (Owner::Free, 4));
        assert_eq!(Lease(later.taken_away(&us())).epoch(), 5);
    }

    #[test]
    fn what_others_write_into_it_does_no_harm() {
        let mut odd = lease("them", "them");
        for spec in [
            json!({"holderIdentity": 7, "leaseTransitions": -1, "leaseDurationSeconds": 0}),
            json!({"leaseDurationSeconds": 99_999_999, "renewTime": {}}),
            json!(null),
            json!("x"),
        ] {
            odd.0.fields_mut().insert("spec".into(), spec);
            assert!(odd.lasts() >= CLAIM_LASTS && odd.lasts() <= LASTS_MAX);
            let _ =
                (odd.owner(&us(), true), odd.renewal(), odd.taken(&us(), odd.epoch(), Timestamp::default()));
        }
    }
}
