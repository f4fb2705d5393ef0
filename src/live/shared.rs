//! A session as text, for stores that keep it elsewhere. What it takes is not written down but counted anew, because that is a matter
//! of this program's memory. A field that comes later needs a default: instances of two versions may share a store.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serializer};

use super::{LiveSession, LiveTurn, weigh};

impl LiveSession {
    /// The session as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a session is text and numbers under names that are text")
    }

    /// Reads what [`LiveSession::to_json`] wrote.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        let mut session: Self = serde_json::from_slice(json)?;
        session.bytes = weigh(&session);
        Ok(session)
    }
}

pub(super) fn serialize<S: Serializer>(turns: &[Arc<LiveTurn>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(turns.iter().map(|turn| &**turn))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<LiveTurn>>, D::Error> {
    Ok(Vec::<LiveTurn>::deserialize(deserializer)?.into_iter().map(Arc::new).collect())
}
