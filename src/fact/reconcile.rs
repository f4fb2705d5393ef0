//! What is held against what follows from all that was said: the changes that bring the one to the other.

use super::{Change, Fact, Status, Version, What};

/// The changes that make what is held equal to a timeline, those that end a fact first: at no time are two facts active for
/// one key. `held` are all facts that are kept under the timeline's names, whatever their status.
pub fn reconcile(held: &[Fact], timeline: &[Version]) -> Vec<Change> {
    let known = |fact: &Fact| held.iter().find(|held| held.id == fact.id);
    let mut changes: Vec<Change> =
        timeline.iter().filter_map(|version| changed(known(&version.fact), &version.fact)).collect();
    let unsaid = held.iter().filter(|held| !held.is_withdrawn() && timeline.iter().all(|now| now.fact.id != held.id));
    changes.extend(unsaid.map(|fact| Change { what: What::Withdraw, fact: fact.clone().withdrawn() }));
    changes.sort_by_key(|change| change.fact.status == Status::Active);
    changes
}

fn changed(held: Option<&Fact>, now: &Fact) -> Option<Change> {
    let Some(held) = held else { return Some(Change { what: What::Add, fact: now.clone() }) };
    let fact = Fact { learned_at: held.learned_at, ..now.clone() };
    let what = match fact.status {
        _ if fact == *held => return None,
        status if status == held.status && !held.is_withdrawn() => What::Confirm,
        Status::Active => What::Restore,
        Status::Superseded => What::Supersede,
        Status::Retracted => What::Retract,
        Status::Expired => What::Expire,
        Status::Provisional | Status::Quarantined | Status::Candidate => What::Doubt,
    };
    Some(Change { what, fact })
}

impl Fact {
    /// Whether nothing that is kept says it any more.
    pub fn is_withdrawn(&self) -> bool {
        self.confirmations == 0
    }

    fn withdrawn(self) -> Self {
        Self { status: Status::Retracted, confirmations: 0, ..self }
    }

    /// Its status at a time: what holds until then is over afterwards, whether or not somebody noted that.
    pub fn status_at(&self, now: jiff::Timestamp) -> Status {
        match (self.status, self.until) {
            (Status::Active | Status::Provisional, Some(until)) if until <= now => Status::Expired,
            (status, _) => status,
        }
    }
}
