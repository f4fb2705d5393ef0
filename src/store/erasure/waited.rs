//! What was erased while a turn waited for the store. It may have waited on the disk of an instance that was down: nobody could
//! reach it there, and it must not bring back what is gone.

use jiff::Timestamp;

use super::{ErasureKind, INJECTED, Mark, Marks};
use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::session::{ClosedTurn, OpenTurn};
use crate::store::StoreError;

/// A turn that waited, and since when.
#[derive(Debug, Clone)]
pub(in crate::store) struct Waited {
    pub(in crate::store) scope: Scope,
    pub(in crate::store) session: SessionId,
    pub(in crate::store) turn: TurnId,
    pub(in crate::store) since: Timestamp,
}

/// What the book says of the time that it waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Meanwhile {
    /// Nothing was erased.
    Nothing,
    /// Something was. The book has no names, so it may be what the turn was shown.
    Another,
    /// The turn itself, its conversation, its user or its tenant.
    This,
}

impl Waited {
    /// The question, if it waited.
    pub(in crate::store) fn question(scope: &Scope, open: &OpenTurn) -> Option<Self> {
        let since = open.asked_at?;
        Some(Self { scope: scope.clone(), session: open.session, turn: open.id, since })
    }

    /// The ending, if it waited.
    pub(in crate::store) fn ending(scope: &Scope, closed: &ClosedTurn) -> Option<Self> {
        let since = closed.waits_since?;
        Some(Self { scope: scope.clone(), session: closed.session, turn: closed.id, since })
    }

    /// The lines by which it would be erased.
    pub(in crate::store) fn lines(&self, marks: &Marks) -> [(ErasureKind, Mark); 4] {
        let (tenant, user) = (self.scope.tenant().as_str(), self.scope.user().as_str());
        [
            (ErasureKind::Tenant, marks.tenant(tenant)),
            (ErasureKind::User, marks.user(tenant, user)),
            (ErasureKind::Session, marks.session(tenant, user, self.session)),
            (ErasureKind::Turn, marks.turn(tenant, user, self.turn)),
        ]
    }
}

impl Meanwhile {
    /// The question as it may be written.
    pub(in crate::store) fn admit_question(self, mut open: OpenTurn) -> Result<OpenTurn, StoreError> {
        match self {
            Self::This => return Err(StoreError::Erased(open.id)),
            Self::Another => drop(open.metadata.shift_remove(INJECTED)),
            Self::Nothing => {}
        }
        Ok(open)
    }

    /// The ending as it may be written.
    pub(in crate::store) fn admit_ending(self, mut closed: ClosedTurn) -> Result<ClosedTurn, StoreError> {
        match self {
            Self::This => return Err(StoreError::Erased(closed.id)),
            Self::Another => {
                closed.metadata.shift_remove(INJECTED);
                closed.trace = None;
            }
            Self::Nothing => {}
        }
        Ok(closed)
    }
}
