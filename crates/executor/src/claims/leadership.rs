//! State machine for a service's Lease, which determines the service in charge of a control plane. It has no
//! I/O and no clock: the caller passes in the current Lease and its own monotonic time.

use std::fmt;
use std::time::Duration;

use tidegate_model::annotations::CLAIM_INCARNATION;
use tidegate_model::{ClaimLocation, Object, Timestamp};

use super::lease_expiry::{HolderStatus, LeaseExpiry};
use super::record::{Lease, new_lease};
use super::times::{REPLACED_LEASE_DURATION, SERVICE_LEASE_DURATION};

/// Maximum length of the host name in an identity.
const HOST_MAX: usize = 63;
/// Maximum length of a foreign identity in messages.
const DISPLAY_CHARS_MAX: usize = 200;

/// Identity of a service, used as the holder identity in its Lease: `HOST_PID_STATE`. Replicas that share the work of a log
/// all hold the Lease under the name of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceIdentity {
    text: String,
    state: String,
    /// True if the state is a shared log, which other services can use at the same time.
    is_shared: bool,
    /// ID of this replica, if it shares the work with others.
    replica: Option<String>,
}

impl ServiceIdentity {
    /// Returns the identity of process `pid` on `host`. `state` is the unique name of its state directory.
    pub fn new(host: &str, pid: u32, state: &str) -> Self {
        let plain =
            |text: &str| text.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).collect();
        let (host, state): (String, String) = (plain(host), plain(state));
        let host = host.get(..host.len().min(HOST_MAX)).unwrap_or_default();
        Self { text: format!("{host}_{pid}_{state}"), state, is_shared: false, replica: None }
    }

    /// Marks the state as a shared log that this service leads. A predecessor has then been replaced, but may not
    /// have exited.
    #[must_use]
    pub fn with_shared_state(self) -> Self {
        Self { is_shared: true, ..self }
    }

    /// Returns the identity of a replica that shares the work of a log with others.
    pub fn of_replica(log: &str, replica: &str) -> Self {
        Self {
            text: log.to_owned(),
            state: log.to_owned(),
            is_shared: true,
            replica: Some(replica.to_owned()),
        }
    }

    /// Returns true if other replicas hold the Lease under the same identity.
    pub(super) fn is_replica(&self) -> bool {
        self.replica.is_some()
    }

    /// Returns true if a holder used the same state. With a state directory, the holder must have exited, because
    /// this service holds the lock on that directory.
    fn is_predecessor(&self, holder: &str) -> bool {
        holder.rsplit_once('_').is_some_and(|(_, state)| state == self.state)
    }
}

impl fmt::Display for ServiceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Holder of a service's Lease, as recorded in the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// Holder identity in the Lease. Arbitrary text if another program wrote it.
    pub identity: String,
    /// Time when the holder acquired the Lease, by its own clock.
    pub since: Option<Timestamp>,
}

impl LeaseHolder {
    fn from_lease(lease: &Lease) -> Self {
        let identity =
            lease.holder_id().chars().filter(|c| !c.is_control()).take(DISPLAY_CHARS_MAX).collect();
        Self { identity, since: lease.0.text("/spec/acquireTime").parse().ok() }
    }
}

/// Formats the holder for display, such as `pid 41 on node-1 (state directory 9f31) since
/// 2026-11-21T09:30:00.000Z`.
impl fmt::Display for LeaseHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.identity.rsplitn(3, '_');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(state), Some(pid), Some(host)) if pid.parse::<u32>().is_ok() => {
                write!(f, "pid {pid} on {host} (state directory {state})")?;
            }
            _ => match self.identity.strip_prefix("log-") {
                Some(log) => write!(f, "the services with the operation log {log}")?,
                None => f.write_str(&self.identity)?,
            },
        }
        self.since.map_or(Ok(()), |since| write!(f, " since {since}"))
    }
}

/// Next step for a service that wants or holds the Lease.
#[derive(Debug)]
pub(super) enum Step {
    /// Write this Lease to acquire or renew it.
    Write(Box<Object>),
    /// Wait because another service holds the Lease. `is_renewing` is true if that service was seen renewing
    /// it.
    Wait { holder: LeaseHolder, is_renewing: bool },
    /// Stop because the Lease was lost, to the new holder if known.
    Lost(Option<LeaseHolder>),
}

/// A service that wants or holds the Lease of its control plane.
pub(super) struct Leadership {
    identity: ServiceIdentity,
    location: ClaimLocation,
    expiry: LeaseExpiry,
    held: Option<Lease>,
    /// True if another replica of the same log wrote the last observed renewal.
    has_peer: bool,
}

impl Leadership {
    pub fn new(identity: ServiceIdentity, location: ClaimLocation) -> Self {
        Self { identity, location, expiry: LeaseExpiry::default(), held: None, has_peer: false }
    }

    pub fn location(&self) -> &ClaimLocation {
        &self.location
    }

    pub fn identity(&self) -> &ServiceIdentity {
        &self.identity
    }

    /// Returns the replica that renewed a Lease last, if it is another one under the same identity.
    pub fn other_replica(&self, lease: &Lease) -> Option<String> {
        let own = self.identity.replica.as_ref()?;
        let renewed_by = lease.0.annotation(CLAIM_INCARNATION).unwrap_or_default();
        (lease.holder_id() == self.identity.text && renewed_by != own).then(|| renewed_by.to_owned())
    }

    /// Returns true if another replica of the same log wrote the last observed renewal.
    pub fn has_peer(&self) -> bool {
        self.has_peer
    }

    /// Decides how to proceed with a Lease read at the monotonic time `at`. `now` is only written to the
    /// Lease, never compared. `is_peer` is true if the replica that renewed the Lease last uses the same log as this
    /// replica, and not a copy.
    pub fn observe(
        &mut self,
        found: Option<Lease>,
        is_peer: bool,
        at: Duration,
        now: Timestamp,
    ) -> Option<Step> {
        let lease = match found {
            Some(lease) => lease,
            // A user has deleted the Lease, or it doesn't exist yet. Continue the count of holders, because
            // it must never decrease. Replicas of a log are one holder.
            None => {
                let held = self.held.as_ref().map_or(0, Lease::epoch);
                let epoch = match self.held.is_some() && self.identity.is_replica() {
                    true => held,
                    false => held.saturating_add(1),
                };
                return Some(self.acquire(&new_lease(&self.location)?, epoch, now));
            }
        };
        let (holder, epoch) = (lease.holder_id(), lease.epoch());
        let is_foreign = self.other_replica(&lease).is_some() && !is_peer;
        if holder == self.identity.text && self.identity.is_replica() && !is_foreign {
            self.has_peer = self.other_replica(&lease).is_some();
            return Some(match &self.held {
                Some(held) if epoch != held.epoch() => Step::Lost(find_holder(&lease)),
                _ => Step::Write(Box::new(self.renewed(&lease, now))),
            });
        }
        if let Some(held) = &self.held {
            return Some(match holder {
                _ if epoch != held.epoch() => Step::Lost(find_holder(&lease)),
                "" => self.acquire(&lease, epoch, now),
                holder if holder == self.identity.text => Step::Write(Box::new(self.renewed(&lease, now))),
                _ => Step::Lost(find_holder(&lease)),
            });
        }
        let next = epoch.saturating_add(1);
        let is_predecessor = self.identity.is_predecessor(holder) || is_foreign;
        if holder.is_empty() || (is_predecessor && !self.identity.is_shared) {
            return Some(self.acquire(&lease, next, now));
        }
        // A predecessor in a shared log can no longer write. Only a service that uses a copy of the database would
        // still renew the Lease.
        let lasts = match is_predecessor {
            true => REPLACED_LEASE_DURATION,
            false => lease.duration_at_least(SERVICE_LEASE_DURATION),
        };
        Some(match self.expiry.observe_for(&lease, lasts, at) {
            HolderStatus::Expired => self.acquire(&lease, next, now),
            verdict => Step::Wait {
                holder: LeaseHolder::from_lease(&lease),
                is_renewing: verdict == HolderStatus::Renewing,
            },
        })
    }

    /// Returns a renewal of the Lease that this service last wrote, if it holds the Lease. Saves the caller
    /// from reading the Lease first. Replicas must read it, because the others write it too.
    pub fn renewal(&self, now: Timestamp) -> Option<Object> {
        let held = self.held.as_ref().filter(|_| !self.identity.is_replica())?;
        Some(held.with_renewal_time(now))
    }

    /// Records a write accepted by the API server.
    pub fn record_write(&mut self, lease: Lease) {
        self.held = Some(lease);
    }

    /// Returns the Lease without a holder, if this service still holds it, and no other replica was the last to renew it.
    pub fn released_lease(&self, found: &Lease) -> Option<Object> {
        let is_own = found.holder_id() == self.identity.text && self.other_replica(found).is_none();
        is_own.then(|| found.released())
    }

    fn acquire(&self, lease: &Lease, epoch: u64, now: Timestamp) -> Step {
        let acquired = lease.with_holder(&self.identity.text, SERVICE_LEASE_DURATION, epoch, now);
        Step::Write(Box::new(self.with_replica(acquired)))
    }

    fn renewed(&self, lease: &Lease, now: Timestamp) -> Object {
        self.with_replica(lease.with_renewal_time(now))
    }

    fn with_replica(&self, mut lease: Object) -> Object {
        match &self.identity.replica {
            Some(replica) => lease.set_annotation(CLAIM_INCARNATION, replica.as_str()),
            None => lease.remove_annotation(CLAIM_INCARNATION),
        }
        lease
    }
}

fn find_holder(lease: &Lease) -> Option<LeaseHolder> {
    (!lease.holder_id().is_empty()).then(|| LeaseHolder::from_lease(lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location() -> ClaimLocation {
        ClaimLocation { namespace: "argocd".into(), name: "tidegate".into() }
    }

    fn service(host: &str, pid: u32, state: &str) -> Leadership {
        Leadership::new(ServiceIdentity::new(host, pid, state), location())
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns a wall-clock time that is years off. No decision may depend on wall clocks.
    fn wall_clock(at: u64, years: i64) -> Timestamp {
        Timestamp::from_millis(i64::try_from(at).unwrap() * 1000 + years * 31_536_000_000)
    }

    /// An API server with a single Lease and optimistic concurrency.
    #[derive(Default)]
    struct Server {
        stored: Option<Object>,
        version: u64,
    }

    impl Server {
        fn read(&self) -> Option<Lease> {
            self.stored.clone().map(Lease)
        }

        fn put(&mut self, mut object: Object) -> Option<Lease> {
            let version = |object: &Object| object.text("/metadata/resourceVersion").to_owned();
            let current = self.stored.as_ref().map(version).unwrap_or_default();
            if version(&object) != current {
                return None;
            }
            self.version += 1;
            object.metadata_mut().insert("resourceVersion".to_owned(), self.version.to_string().into());
            self.stored = Some(object.clone());
            Some(Lease(object))
        }

        fn holder(&self) -> String {
            self.read().map(|lease| lease.holder_id().to_owned()).unwrap_or_default()
        }
    }

    /// Reads the Lease once, and performs the resulting write.
    fn run_step(server: &mut Server, service: &mut Leadership, at: u64, years: i64) -> Option<Step> {
        match service.observe(server.read(), true, seconds(at), wall_clock(at, years)).unwrap() {
            Step::Write(object) => {
                let written = server.put(*object)?;
                service.record_write(written);
                None
            }
            step => Some(step),
        }
    }

    #[test]
    fn the_first_service_gets_the_lease_and_a_second_one_waits() {
        let (mut server, mut first, mut second) =
            (Server::default(), service("a", 1, "s1"), service("b", 2, "s2"));
        assert!(run_step(&mut server, &mut first, 0, 0).is_none());
        assert_eq!(server.holder(), "a_1_s1");
        // At first, the contender doesn't know whether the holder is still running.
        let step = run_step(&mut server, &mut second, 1, -30);
        assert!(matches!(step, Some(Step::Wait { is_renewing: false, .. })), "{step:?}");
        for at in 1..100 {
            if at % 3 == 0 {
                assert!(run_step(&mut server, &mut first, at, 0).is_none());
            }
            let step = run_step(&mut server, &mut second, at, -30);
            let Some(Step::Wait { holder, is_renewing }) = step else { panic!("{at}: {step:?}") };
            assert_eq!((holder.identity.as_str(), is_renewing), ("a_1_s1", at >= 3), "{at}");
        }
    }

    #[test]
    fn a_lease_expires_by_the_clock_of_the_service_that_watches_it() {
        // The holder's clock is a year off, so its `renewTime` is meaningless.
        for years in [-1, 1] {
            let (mut server, mut first, mut second) =
                (Server::default(), service("a", 1, "s1"), service("b", 2, "s2"));
            run_step(&mut server, &mut first, 0, years);
            for at in 100..115 {
                let step = run_step(&mut server, &mut second, at, 0);
                assert!(matches!(step, Some(Step::Wait { .. })), "{years}, {at}: {step:?}");
            }
            assert!(run_step(&mut server, &mut second, 115, 0).is_none(), "watched for 15 s");
            assert_eq!(server.holder(), "b_2_s2");
            assert_eq!(server.read().unwrap().epoch(), 2);
            // The first service returns and finds that it has lost the Lease.
            let step = run_step(&mut server, &mut first, 116, years);
            let Some(Step::Lost(Some(holder))) = step else { panic!("{step:?}") };
            assert_eq!(holder.identity, "b_2_s2");
        }
    }

    #[test]
    fn released_leases_and_those_of_a_predecessor_are_acquired_at_once() {
        let (mut server, mut first) = (Server::default(), service("a", 1, "s1"));
        run_step(&mut server, &mut first, 0, 0);
        // A service with the same state directory starts on another node after a crash.
        let mut restarted = service("c", 9, "s1");
        assert!(run_step(&mut server, &mut restarted, 1, 0).is_none());
        assert_eq!(server.holder(), "c_9_s1");
        let found = server.read().unwrap();
        assert!(first.released_lease(&found).is_none(), "the service no longer holds the Lease");
        server.put(restarted.released_lease(&found).unwrap()).unwrap();
        let mut second = service("b", 2, "s2");
        assert!(run_step(&mut server, &mut second, 2, 0).is_none());
        assert_eq!((server.holder().as_str(), server.read().unwrap().epoch()), ("b_2_s2", 3));
        // The Lease has been released and acquired again, so the first service is out of date.
        server.put(second.released_lease(&server.read().unwrap()).unwrap()).unwrap();
        assert!(matches!(run_step(&mut server, &mut first, 3, 0), Some(Step::Lost(None))));
    }

    #[test]
    fn a_deleted_lease_is_created_again_by_its_holder() {
        let (mut server, mut first) = (Server::default(), service("a", 1, "s1"));
        run_step(&mut server, &mut first, 0, 0);
        server = Server { stored: None, version: 7 };
        assert!(run_step(&mut server, &mut first, 3, 0).is_none());
        assert_eq!((server.holder().as_str(), server.read().unwrap().epoch()), ("a_1_s1", 2));
        server = Server { stored: None, version: 9 };
        let mut second = service("b", 2, "s2");
        run_step(&mut server, &mut second, 4, 0);
        assert!(matches!(run_step(&mut server, &mut first, 6, 0), Some(Step::Lost(Some(_)))));
    }

    #[test]
    fn only_one_of_two_concurrent_writers_acquires_the_lease() {
        let (mut server, mut first, mut second) =
            (Server::default(), service("a", 1, "s1"), service("b", 2, "s2"));
        let step = |service: &mut Leadership, found| {
            service.observe(found, true, seconds(0), wall_clock(0, 0)).unwrap()
        };
        let (one, other) = (step(&mut first, None), step(&mut second, None));
        let (Step::Write(one), Step::Write(other)) = (one, other) else { panic!("both try") };
        first.record_write(server.put(*one).unwrap());
        assert!(server.put(*other).is_none());
        assert!(matches!(run_step(&mut server, &mut second, 1, 0), Some(Step::Wait { .. })));
    }

    /// A service that was replaced in a shared log may still run, in a copy of the database. Its Lease is taken only
    /// if it isn't renewed.
    #[test]
    fn the_lease_of_a_replaced_service_is_taken_once_it_is_not_renewed() {
        let shared = |pid| {
            let identity = ServiceIdentity::new("node-2", pid, "log-9f31").with_shared_state();
            Leadership::new(identity, location())
        };
        let mut old = shared(1);
        let Some(Step::Write(lease)) = old.observe(None, true, Duration::ZERO, Timestamp::default()) else {
            panic!()
        };
        let (mut new, mut lease) = (shared(2), Lease(*lease));
        let secs = Duration::from_secs;
        for at in [0, 2] {
            let step = new.observe(Some(lease.clone()), true, secs(at), Timestamp::default());
            assert!(matches!(step, Some(Step::Wait { .. })), "after {at} s: {step:?}");
        }
        lease = Lease(lease.with_renewal_time(Timestamp::from_millis(3_000)));
        for (at, waits) in [(4, true), (6, true), (8, false)] {
            let step = new.observe(Some(lease.clone()), true, secs(at), Timestamp::default());
            assert_eq!(matches!(step, Some(Step::Wait { .. })), waits, "after {at} s: {step:?}");
        }
    }

    fn replica(id: &str) -> Leadership {
        Leadership::new(ServiceIdentity::of_replica("log-9f31", id), location())
    }

    #[test]
    fn all_replicas_of_a_log_renew_one_lease() {
        let (mut server, mut first, mut second) = (Server::default(), replica("r1"), replica("r2"));
        for at in 0..60 {
            assert!(run_step(&mut server, &mut first, at, 0).is_none());
            assert!(run_step(&mut server, &mut second, at, 0).is_none());
        }
        assert_eq!((server.holder().as_str(), server.read().unwrap().epoch()), ("log-9f31", 1));
        let mut other = Leadership::new(ServiceIdentity::of_replica("log-77aa", "r3"), location());
        let step = run_step(&mut server, &mut other, 60, 0);
        let Some(Step::Wait { holder, .. }) = step else { panic!("{step:?}") };
        assert_eq!(
            holder.to_string().split(" since").next(),
            Some("the services with the operation log 9f31")
        );
        // The first replica leaves, and the second one holds the Lease.
        assert!(first.released_lease(&server.read().unwrap()).is_none());
        assert!(run_step(&mut server, &mut second, 61, 0).is_none());
        assert!(matches!(run_step(&mut server, &mut other, 61, 0), Some(Step::Wait { .. })));
        assert!(run_step(&mut server, &mut second, 64, 0).is_none());
        assert!(!second.has_peer());
        let released = second.released_lease(&server.read().unwrap()).unwrap();
        server.put(released).unwrap();
        assert!(run_step(&mut server, &mut other, 65, 0).is_none());
        let step = run_step(&mut server, &mut second, 66, 0);
        assert!(matches!(step, Some(Step::Lost(Some(_)))), "{step:?}");
    }

    /// Replicas with a copy of the database have the same log, but aren't in the list of its replicas.
    #[test]
    fn a_replica_waits_for_those_that_use_a_copy_of_its_database() {
        let (mut server, mut copy, mut own) = (Server::default(), replica("copy"), replica("own"));
        let observe = |server: &Server, own: &mut Leadership, at| {
            own.observe(server.read(), false, seconds(at), wall_clock(at, 0)).unwrap()
        };
        for at in 0..30 {
            assert!(run_step(&mut server, &mut copy, at, 0).is_none());
            assert!(matches!(observe(&server, &mut own, at), Step::Wait { .. }));
        }
        for at in 30..33 {
            assert!(matches!(observe(&server, &mut own, at), Step::Wait { .. }));
        }
        let Step::Write(lease) = observe(&server, &mut own, 34) else { panic!("the copy is gone") };
        own.record_write(server.put(*lease).unwrap());
        // The replica with the copy has lost the Lease.
        assert!(matches!(run_step(&mut server, &mut copy, 35, 0), Some(Step::Lost(_))));
    }

    /// The previous version has one leader, whose identity names its process and the log.
    #[test]
    fn replicas_take_over_from_a_leader_of_the_previous_version() {
        for exits in [true, false] {
            let leader = ServiceIdentity::new("node-2", 7, "log-9f31").with_shared_state();
            let mut old = Leadership::new(leader, location());
            let (mut server, mut new) = (Server::default(), replica("r1"));
            for at in 0..30 {
                assert!(run_step(&mut server, &mut old, at, 0).is_none());
                assert!(matches!(run_step(&mut server, &mut new, at, 0), Some(Step::Wait { .. })));
            }
            if exits {
                server.put(old.released_lease(&server.read().unwrap()).unwrap()).unwrap();
                assert!(run_step(&mut server, &mut new, 30, 0).is_none());
            } else {
                for at in 30..33 {
                    assert!(matches!(run_step(&mut server, &mut new, at, 0), Some(Step::Wait { .. })));
                }
                assert!(run_step(&mut server, &mut new, 33, 0).is_none());
                assert!(matches!(run_step(&mut server, &mut old, 34, 0), Some(Step::Lost(Some(_)))));
            }
            assert_eq!((server.holder().as_str(), server.read().unwrap().epoch()), ("log-9f31", 2));
            // A standby of the previous version waits.
            let standby = ServiceIdentity::new("node-3", 7, "log-9f31").with_shared_state();
            let mut standby = Leadership::new(standby, location());
            for at in 35..60 {
                assert!(run_step(&mut server, &mut new, at, 0).is_none());
                assert!(matches!(run_step(&mut server, &mut standby, at, 0), Some(Step::Wait { .. })));
            }
        }
    }

    #[test]
    fn a_lease_with_arbitrary_text_does_no_harm() {
        for (identity, shown) in [
            ("node-1_41_9f31", "pid 41 on node-1 (state directory 9f31)"),
            ("somebody\u{1b}[2J", "somebody[2J"),
            ("a_b_c", "a_b_c"),
        ] {
            let lease =
                Lease(new_lease(&location()).unwrap().with_holder(identity, seconds(1), 1, wall_clock(0, 0)));
            let shown = format!("{shown} since 1970-01-01T00:00:00.000Z");
            assert_eq!(LeaseHolder::from_lease(&lease).to_string(), shown);
        }
        assert_eq!(ServiceIdentity::new("a_b\n", 1, "s_1").to_string(), "ab_1_s1");
    }
}
