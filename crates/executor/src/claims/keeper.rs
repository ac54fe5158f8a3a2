//! What becomes of a claim: how it is taken, renewed and given back. Without I/O and clock: those are [`Around`] it, so the
//! tests play it through whatever can happen to several operations.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::{CallError, ClaimNews};
use tidegate_model::{ClaimHolder, ClaimPlace, IfTaken, Object, Timestamp};

use super::patience::{Patience, Verdict};
use super::place::Places;
use super::record::{Claimant, Lease, Owner, blank};
use super::times::{CLAIM_RENEWED_EVERY, LOOK_AGAIN_AFTER, LOOK_EVERY, RENEW_AGAIN_AFTER};
use crate::effects::call_error;

/// What is around whoever keeps a claim: a cluster, time, and the operation.
pub(super) trait Around: Send + Sync {
    /// A moment of the time that passes.
    type Moment: Copy + Send;

    /// The Lease as it is now.
    fn read(&self, place: &ClaimPlace) -> impl Future<Output = Result<Option<Lease>, ClusterError>> + Send;
    /// Writes a Lease, if nobody has written it since it was read.
    fn write(&self, lease: Object) -> impl Future<Output = Result<Lease, ClusterError>> + Send;
    /// Which rights to hold a claim here are missing, in words; `None` where none is known to be.
    fn lacks(&self, place: &ClaimPlace) -> impl Future<Output = Result<Option<String>, ClusterError>> + Send;
    /// Whether our own log knows that this operation is over. Then nobody works on it any more, and its claim was left by a
    /// process that was killed before it could give it back.
    fn is_over(&self, operation: &str) -> impl Future<Output = bool> + Send;
    /// Returns when so much time has passed.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
    /// The time that is written into a Lease.
    fn now(&self) -> Timestamp;
    /// How much time has passed since the beginning, by a clock that only goes forward.
    fn elapsed(&self) -> Duration;
    /// A point in time that [`Self::renewed`] understands.
    fn moment(&self) -> Self::Moment;
    /// A renewal that began at this moment has succeeded.
    fn renewed(&self, began: Self::Moment);
    /// Hands what has become of the claim on to the operation.
    fn tell(&self, news: ClaimNews);
}

/// Keeps the claim of one operation.
pub(super) struct Keeping<A> {
    pub around: A,
    pub us: Claimant,
    pub places: Places,
    pub if_taken: IfTaken,
    /// Where an earlier keeper of this operation had it.
    pub had: Option<ClaimPlace>,
    /// What was seen of the claims of others while earlier keepers of this process waited.
    pub vigil: Vigil,
}

/// A wait for the claims of others. It is one, however often a keeper gives up on a call and another one goes on: whoever is
/// dead has no longer for that.
#[derive(Clone, Default)]
pub(crate) struct Vigil(Arc<Mutex<Watching>>);

/// A claim that we hold.
struct Held {
    place: ClaimPlace,
    lease: Lease,
}

/// What came of an attempt to take a claim.
enum Attempt {
    Held(Box<Held>),
    Taken {
        holder: ClaimHolder,
        at_work: bool,
    },
    Lost(Option<ClaimHolder>),
    /// Somebody wrote it at the same moment.
    Again,
    /// There is no such namespace, or it is being deleted.
    NoNamespace(ClusterError),
}

/// Why a claim is not renewed any more.
enum Unheld {
    Over(ClaimNews),
    /// It may not be.
    NoRight(ClusterError),
    /// Its namespace is gone, or being deleted, and takes the Lease with it.
    NoNamespace(ClusterError),
}

/// Watches the claims of others, in both places.
#[derive(Default)]
struct Watching {
    home: Patience,
    aside: Patience,
    /// The holder was asked to end.
    asked: Option<String>,
}

impl Vigil {
    fn begin(&self) -> Watching {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn leave(&self, watching: Watching) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = watching;
    }
}

impl<A: Around> Keeping<A> {
    /// Takes the claim and renews it. Ends when there is nothing to hold, and says why.
    pub async fn run(&self) -> Result<ClaimNews, CallError> {
        let mut held = match self.take().await {
            Ok(held) => held,
            Err(news) => return news,
        };
        loop {
            let place = held.place.clone();
            self.around.tell(ClaimNews::Held { place: place.clone(), epoch: held.lease.epoch() });
            let again = match self.renew(*held).await {
                Unheld::Over(news) => return Ok(news),
                Unheld::NoRight(error) => self.take_back(&place, Some(error)).await,
                Unheld::NoNamespace(error) => self.move_aside(&place, &error).await,
            };
            held = match again {
                Ok(held) => held,
                Err(news) => return Ok(news),
            };
        }
    }

    /// Takes the claim, however long another operation has it.
    async fn take(&self) -> Result<Box<Held>, Result<ClaimNews, CallError>> {
        if let Some(place) = &self.had {
            return self.take_back(place, None).await.map_err(Ok);
        }
        let mut watching = self.vigil.begin();
        let taken = self.wait_in_line(&mut watching).await;
        self.vigil.leave(watching);
        taken
    }

    async fn wait_in_line(&self, watching: &mut Watching) -> Result<Box<Held>, Result<ClaimNews, CallError>> {
        loop {
            let moment = self.around.moment();
            match self.attempt(watching).await {
                Ok(Attempt::Held(held)) => {
                    self.around.renewed(moment);
                    return Ok(held);
                }
                Ok(Attempt::Lost(holder)) => return Err(Ok(ClaimNews::Lost { holder })),
                Ok(Attempt::Again) => self.around.sleep(LOOK_AGAIN_AFTER).await,
                Ok(Attempt::NoNamespace(error)) => return Err(refused(&error, self.places.aside.is_some())),
                Ok(Attempt::Taken { holder, at_work }) => {
                    self.around.tell(ClaimNews::Taken { holder, at_work });
                    self.around.sleep(LOOK_EVERY).await;
                }
                Err(error) => return Err(refused(&error, is_no_right(error.kind))),
            }
        }
    }

    /// Takes the claim again that the operation has had. It goes on from where it was as soon as this succeeds, or without
    /// the claim where that is forbidden, for as long as nobody else is seen to have taken it.
    async fn take_back(
        &self,
        place: &ClaimPlace,
        forbidden: Option<ClusterError>,
    ) -> Result<Box<Held>, ClaimNews> {
        let mut watching = Watching::default();
        let without = |error: &ClusterError| ClaimNews::not_renewed(place, &error.message);
        let mut told = forbidden.map(|error| self.around.tell(without(&error))).is_some();
        loop {
            let moment = self.around.moment();
            match self.contend(place, true, &mut watching, |watching| &mut watching.home).await {
                Ok(Attempt::Held(held)) => {
                    self.around.renewed(moment);
                    return Ok(held);
                }
                Ok(Attempt::Lost(holder)) => return Err(ClaimNews::Lost { holder }),
                Ok(Attempt::NoNamespace(error)) => return self.move_aside(place, &error).await,
                Ok(Attempt::Again | Attempt::Taken { .. }) => self.around.sleep(LOOK_AGAIN_AFTER).await,
                Err(error) if is_no_right(error.kind) => {
                    if !std::mem::replace(&mut told, true) {
                        self.around.tell(without(&error));
                    }
                    self.around.sleep(LOOK_EVERY).await;
                }
                Err(error) => {
                    tracing::debug!(reason = error.message, "a claim could not be taken back yet");
                    self.around.sleep(again_after(&error)).await;
                }
            }
        }
    }

    /// The namespace of a claim that we hold has gone, or goes, and the claim with it. From now on it is kept aside, if
    /// nobody else has it there.
    async fn move_aside(&self, place: &ClaimPlace, why: &ClusterError) -> Result<Box<Held>, ClaimNews> {
        let aside = self.places.aside.as_ref().filter(|aside| *aside != place);
        let Some(aside) = aside else { return Err(without(why)) };
        let mut watching = Watching::default();
        loop {
            let moment = self.around.moment();
            match self.contend(aside, false, &mut watching, |watching| &mut watching.aside).await {
                Ok(Attempt::Held(held)) => {
                    self.around.renewed(moment);
                    return Ok(held);
                }
                Ok(Attempt::Taken { holder, at_work: true }) => {
                    return Err(ClaimNews::Lost { holder: Some(holder) });
                }
                Ok(Attempt::Lost(holder)) => return Err(ClaimNews::Lost { holder }),
                Ok(Attempt::Taken { at_work: false, .. }) => self.around.sleep(LOOK_EVERY).await,
                Ok(Attempt::Again) => self.around.sleep(LOOK_AGAIN_AFTER).await,
                Ok(Attempt::NoNamespace(error)) => return Err(without(&nor_aside(why, aside, &error))),
                Err(error) if is_no_right(error.kind) => return Err(without(&nor_aside(why, aside, &error))),
                Err(error) => self.around.sleep(again_after(&error)).await,
            }
        }
    }

    async fn attempt(&self, watching: &mut Watching) -> Result<Attempt, ClusterError> {
        let Places { home, aside } = &self.places;
        let at_home = self.contend(home, false, watching, |watching| &mut watching.home).await?;
        match (at_home, aside) {
            (Attempt::Held(held), Some(aside)) => Ok(match self.in_the_way(aside, watching).await? {
                Some(other) => other,
                None => Attempt::Held(held),
            }),
            (Attempt::NoNamespace(why), Some(aside)) => {
                let found = self.contend(aside, false, watching, |watching| &mut watching.aside).await;
                let found = match found {
                    Err(error) if is_no_right(error.kind) => {
                        return Ok(Attempt::NoNamespace(nor_aside(&why, aside, &error)));
                    }
                    found => found?,
                };
                let Attempt::Held(held) = found else { return Ok(found) };
                // Whoever came when the namespace was there has looked aside after it had taken the claim at home. So
                // one of us sees the other.
                match self.contend(home, false, watching, |watching| &mut watching.home).await? {
                    Attempt::NoNamespace(_) => Ok(Attempt::Held(held)),
                    found => {
                        let _ = self.around.write(held.lease.given_back()).await;
                        Ok(found)
                    }
                }
            }
            (found, _) => Ok(found),
        }
    }

    /// One look at a claim, and one attempt to take it if nobody else has it. `had`: it was ours there before.
    async fn contend(
        &self,
        place: &ClaimPlace,
        had: bool,
        watching: &mut Watching,
        patience: fn(&mut Watching) -> &mut Patience,
    ) -> Result<Attempt, ClusterError> {
        let found = match self.around.read(place).await {
            Err(error) if error.kind == ErrorKind::Forbidden && !had => {
                return Err(self.lacking(place, error).await);
            }
            found => found?,
        };
        if found.is_none() && !had {
            self.may_hold(place).await?;
        }
        let owner = found.as_ref().map_or(Owner::Free, |lease| lease.owner(&self.us, had));
        let known = found.as_ref().map_or(0, Lease::epoch);
        let now = self.around.now();
        let Some(lease) = found.or_else(|| blank(place)) else { return Ok(Attempt::Again) };
        let wanted = match owner {
            Owner::Ours => lease.renewed(&self.us, now),
            Owner::Free => lease.taken(&self.us, known.saturating_add(1), now),
            Owner::Lost(holder) => return Ok(Attempt::Lost(holder)),
            Owner::Other(holder) => match self.verdict(&holder, &lease, patience(watching)).await {
                Verdict::RunOut => lease.taken(&self.us, known.saturating_add(1), now),
                verdict => return self.wait_for(holder, verdict, &lease, watching).await,
            },
        };
        match self.around.write(wanted).await {
            Ok(lease) => Ok(Attempt::Held(Box::new(Held { place: place.clone(), lease }))),
            Err(error) if has_no_namespace(error.kind) => Ok(Attempt::NoNamespace(error)),
            Err(error) if is_race(error.kind) => Ok(Attempt::Again),
            Err(error) => Err(error),
        }
    }

    /// A Lease that is made here can be renewed and given back; otherwise it would only be in everybody's way.
    async fn may_hold(&self, place: &ClaimPlace) -> Result<(), ClusterError> {
        match self.around.lacks(place).await? {
            Some(rights) => Err(ClusterError::new(ErrorKind::Forbidden, lacks(&rights))),
            None => Ok(()),
        }
    }

    /// What is forbidden here, with all that is missing beside it.
    async fn lacking(&self, place: &ClaimPlace, error: ClusterError) -> ClusterError {
        match self.around.lacks(place).await {
            Ok(Some(rights)) => {
                ClusterError::new(error.kind, format!("{}; {}", error.message, lacks(&rights)))
            }
            _ => error,
        }
    }

    /// How another's claim stands. One of an operation that is over is not waited for.
    async fn verdict(&self, holder: &ClaimHolder, lease: &Lease, patience: &mut Patience) -> Verdict {
        match patience.look(lease, self.around.elapsed()) {
            Verdict::Unknown if self.around.is_over(&holder.operation).await => Verdict::RunOut,
            verdict => verdict,
        }
    }

    /// Another operation has it. It is asked to end, once, where that is wished.
    async fn wait_for(
        &self,
        holder: ClaimHolder,
        verdict: Verdict,
        lease: &Lease,
        watching: &mut Watching,
    ) -> Result<Attempt, ClusterError> {
        let asks = self.if_taken == IfTaken::Supersede
            && watching.asked.as_ref() != Some(&holder.operation)
            && lease.end_wanted_by().is_none_or(|by| by.operation != self.us.operation);
        if asks {
            match self.around.write(lease.with_wish(&self.us)).await {
                Ok(_) => watching.asked = Some(holder.operation.clone()),
                Err(error) if is_race(error.kind) => return Ok(Attempt::Again),
                Err(error) if is_no_right(error.kind) => {
                    // Whoever has it has it all the same; it is waited for.
                    tracing::warn!(reason = error.message, "the holder of a claim could not be asked to end");
                    watching.asked = Some(holder.operation.clone());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Attempt::Taken { holder, at_work: verdict == Verdict::AtWork })
    }

    /// An operation that found no namespace here, and keeps its claim aside. Who may not look there knows of none.
    async fn in_the_way(
        &self,
        aside: &ClaimPlace,
        watching: &mut Watching,
    ) -> Result<Option<Attempt>, ClusterError> {
        let lease = match self.around.read(aside).await {
            Ok(Some(lease)) => lease,
            Ok(None) => return Ok(None),
            Err(error) if is_no_right(error.kind) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Owner::Other(holder) = lease.owner(&self.us, false) else { return Ok(None) };
        let verdict = self.verdict(&holder, &lease, &mut watching.aside).await;
        if verdict != Verdict::RunOut {
            return self.wait_for(holder, verdict, &lease, watching).await.map(Some);
        }
        match self.around.write(lease.taken_away(&self.us)).await {
            Ok(_) => Ok(None),
            Err(error) if is_race(error.kind) => Ok(Some(Attempt::Again)),
            Err(error) => Err(error),
        }
    }

    /// Renews the claim until it is lost, or cannot be held any more.
    async fn renew(&self, mut held: Held) -> Unheld {
        let mut pause = CLAIM_RENEWED_EVERY;
        let mut heard = None;
        loop {
            let wish = held.lease.end_wanted_by();
            if let Some(by) = wish.filter(|by| heard.as_ref() != Some(&by.operation)) {
                heard = Some(by.operation.clone());
                self.around.tell(ClaimNews::EndWanted { by });
            }
            self.around.sleep(pause).await;
            let began = self.around.elapsed();
            pause = match self.renew_once(&mut held).await {
                // Counted from when it began: one that hung for long may cover nothing any more, and the next follows at once.
                Ok(None) => CLAIM_RENEWED_EVERY.saturating_sub(self.around.elapsed().saturating_sub(began)),
                Ok(Some(news)) => return Unheld::Over(news),
                Err(error) if has_no_namespace(error.kind) => return Unheld::NoNamespace(error),
                Err(error) if is_no_right(error.kind) => return Unheld::NoRight(error),
                Err(error) if is_race(error.kind) => LOOK_AGAIN_AFTER,
                Err(error) => again_after(&error),
            };
        }
    }

    async fn renew_once(&self, held: &mut Held) -> Result<Option<ClaimNews>, ClusterError> {
        let moment = self.around.moment();
        match self.around.write(held.lease.renewed(&self.us, self.around.now())).await {
            Ok(lease) => {
                held.lease = lease;
                self.around.renewed(moment);
                return Ok(None);
            }
            Err(error) if is_race(error.kind) => {}
            Err(error) => return Err(error),
        }
        let moment = self.around.moment();
        let found = self.around.read(&held.place).await?;
        let owner = found.as_ref().map_or(Owner::Free, |lease| lease.owner(&self.us, true));
        let is_new = found.is_none();
        let known = found.as_ref().map_or(held.lease.epoch(), Lease::epoch);
        let Some(lease) = found.or_else(|| blank(&held.place)) else { return Ok(None) };
        let now = self.around.now();
        let wanted = match owner {
            Owner::Ours => lease.renewed(&self.us, now),
            // A person has removed it.
            Owner::Free => lease.taken(&self.us, known.saturating_add(u64::from(is_new)), now),
            Owner::Other(holder) => return Ok(Some(ClaimNews::Lost { holder: Some(holder) })),
            Owner::Lost(holder) => return Ok(Some(ClaimNews::Lost { holder })),
        };
        held.lease = self.around.write(wanted).await?;
        self.around.renewed(moment);
        if is_new {
            self.around.tell(ClaimNews::Held { place: held.place.clone(), epoch: held.lease.epoch() });
        }
        Ok(None)
    }
}

/// Gives the claim of an operation that is over back, if it has it. Otherwise it runs out. From another's claim the wish
/// for its end goes, since nobody waits for that any more.
pub(super) async fn give_back(around: &impl Around, us: &Claimant, places: &[ClaimPlace]) {
    for place in places {
        while let Ok(Some(lease)) = around.read(place).await {
            let is_wanted_by_us = lease.end_wanted_by().is_some_and(|by| by.operation == us.operation);
            let wanted = match lease.owner(us, false) {
                Owner::Ours => lease.given_back(),
                _ if is_wanted_by_us => lease.without_wish(),
                _ => break,
            };
            match around.write(wanted).await {
                // Somebody has asked for its end meanwhile.
                Err(error) if is_race(error.kind) => {}
                Err(error) => {
                    tracing::warn!(%place, reason = error.message, "a claim could not be given back; it runs out");
                    break;
                }
                Ok(_) => break,
            }
        }
    }
}

fn lacks(rights: &str) -> String {
    format!("these rights are missing: {rights}")
}

/// Somebody else has written it since it was read.
fn is_race(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::AlreadyExists | ErrorKind::NotFound)
}

/// When a call that failed is made again: as the server asks, if it does.
fn again_after(error: &ClusterError) -> Duration {
    match error.kind {
        ErrorKind::TooManyRequests { retry_after: Some(asked) } => asked.max(RENEW_AGAIN_AFTER),
        _ => RENEW_AGAIN_AFTER,
    }
}

/// Nothing new can be put there.
fn has_no_namespace(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NamespaceMissing | ErrorKind::NamespaceTerminating)
}

/// No claim can be had here.
fn is_no_right(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Forbidden | ErrorKind::UnknownKind | ErrorKind::Unsupported)
}

/// Why a claim could not be taken: the operation goes on without, or it is tried again, or that is the end.
fn refused(error: &ClusterError, goes_on: bool) -> Result<ClaimNews, CallError> {
    if goes_on { Ok(without(error)) } else { Err(call_error(error)) }
}

/// Neither where the claim belongs nor aside.
fn nor_aside(why: &ClusterError, aside: &ClaimPlace, error: &ClusterError) -> ClusterError {
    let words =
        format!("{}; nor can it be kept in namespace {}: {}", why.message, aside.namespace, error.message);
    ClusterError::new(why.kind, words)
}

/// Why there is no claim to be had.
fn without(error: &ClusterError) -> ClaimNews {
    match error.kind {
        ErrorKind::NamespaceTerminating => ClaimNews::namespace_goes(&error.message),
        _ => ClaimNews::Without { reason: error.message.clone() },
    }
}
