//! Ids: made in process, so that nothing waits for a database to hand them out.
//!
//! A turn's id is a UUIDv7 whose last two bytes are zero; message `n` of the turn has `n` there. So a
//! message needs no id of its own in storage, and from any message its turn is found by arithmetic.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID that is known to be one of these.
            pub fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The UUID itself.
            pub fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }
    };
}

id! {
    /// A conversation. Any UUID a client gives, or a random one.
    SessionId
}
id! {
    /// A question and its answer.
    TurnId
}
id! {
    /// One message of a turn.
    MessageId
}
id! {
    /// A thread of meaning in a user's conversations.
    TopicId
}
id! {
    /// Work that is done after a turn.
    JobId
}
id! {
    /// A stretch of a conversation, summarised.
    EpisodeId
}
id! {
    /// Something that is known about a user.
    FactId
}

id! {
    /// Something that a person undid.
    UndoId
}
id! {
    /// A document of a tenant's knowledge. Random: nobody finds one by guessing.
    DocumentId
}

impl SessionId {
    /// Reads the hyphenated form, in any case. Other spellings of UUIDs are refused, so that one
    /// session has one name.
    pub fn parse(text: &str) -> Option<Self> {
        hyphenated(text).map(Self)
    }

    /// The session of a tenant that a client calls by a name of its own; always the same for the same name.
    pub fn named(tenant: &str, name: &str) -> Self {
        Self(Uuid::new_v5(&NAMES, [tenant, name].join("\0").as_bytes()))
    }

    /// The session that a request with a name of its own begins, for clients that name no session.
    pub fn begun_by(tenant: &str, user: &str, request: &str) -> Self {
        Self(Uuid::new_v5(&NAMES, [tenant, "", "", user, request].join("\0").as_bytes()))
    }

    /// The conversation that came out of another program, by that program's name for it. Always the same, so that
    /// what is imported twice is there once; no tenant is called nothing, so no client's name leads here.
    pub fn imported(source: &str, conversation: &str) -> Self {
        Self(Uuid::new_v5(&NAMES, ["", source, conversation].join("\0").as_bytes()))
    }

    /// The session a visitor of a tenant calls by this name. No durable session has the same id: names
    /// carry no control characters, so none begins with the second zero.
    pub fn ephemeral(tenant: &str, name: &str) -> Self {
        Self(Uuid::new_v5(&NAMES, [tenant, "", name].join("\0").as_bytes()))
    }
}

/// The name space of the names that clients give their conversations. It must never change.
const NAMES: Uuid = Uuid::from_u128(0x7d1f_6b8e_52c4_4a0b_9e37_c1a5_0f84_d62b);

impl TurnId {
    /// Reads the hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        hyphenated(text).map(Self)
    }

    /// The id of the turn's message at `position`, counted from 0.
    pub fn message(&self, position: u16) -> MessageId {
        MessageId(Uuid::from_u128(self.0.as_u128() | (u128::from(position) + 1)))
    }
}

impl TurnId {
    /// The turn of another program's conversation that a message with this name opened at this time; always the same.
    pub fn imported(at: Timestamp, conversation: SessionId, message: &str) -> Self {
        let name = [conversation.as_uuid().as_bytes(), message.as_bytes()].concat();
        turn_id(at, xxhash_rust::xxh3::xxh3_64(&name))
    }

    /// Whether it has the form of a turn's id: room for its messages at the end.
    pub fn has_room_for_messages(&self) -> bool {
        self.0.as_u128() & 0xffff == 0
    }
}

impl MessageId {
    /// Reads the hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        hyphenated(text).map(Self)
    }

    /// The turn this message belongs to.
    pub fn turn(&self) -> TurnId {
        TurnId(Uuid::from_u128(self.0.as_u128() & !0xffff))
    }
}

impl TopicId {
    /// Reads the hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        hyphenated(text).map(Self)
    }
}

impl FactId {
    /// Reads the hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        hyphenated(text).map(Self)
    }

    /// The fact that begins with something that was said at this time and has this hash.
    pub fn founded(hash: u64, at: Timestamp) -> Self {
        Self(*turn_id(at, hash).as_uuid())
    }
}

impl UndoId {
    /// Reads the hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        hyphenated(text).map(Self)
    }
}

impl DocumentId {
    /// Reads the hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        hyphenated(text).map(Self)
    }
}

impl JobId {
    /// The job that a store keeps under this key since this time.
    pub fn kept_as(key: u64, since: Timestamp) -> Self {
        Self(*turn_id(since, key).as_uuid())
    }

    /// Reads the hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        hyphenated(text).map(Self)
    }
}

impl EpisodeId {
    /// Reads the hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        hyphenated(text).map(Self)
    }

    /// The episode of a session that begins here. Made again from the same turns it has the same id, so that whatever
    /// points at it still does.
    pub fn beginning(session: SessionId, level: &str, first: u64, at: Timestamp) -> Self {
        let name = [session.as_uuid().as_bytes(), level.as_bytes(), &first.to_be_bytes()].concat();
        Self(*turn_id(at, xxhash_rust::xxh3::xxh3_64(&name)).as_uuid())
    }
}

fn hyphenated(text: &str) -> Option<Uuid> {
    if text.len() != uuid::fmt::Hyphenated::LENGTH {
        return None;
    }
    Uuid::try_parse(text).ok()
}

/// Where new ids come from; tests count instead of throwing dice.
pub trait Ids: Send + Sync + 'static {
    /// An id for a session nobody named.
    fn session(&self) -> SessionId;
    /// An id for a turn opened at this time.
    fn turn(&self, at: Timestamp) -> TurnId;
    /// An id for a topic that begins at this time.
    fn topic(&self, at: Timestamp) -> TopicId;
    /// 256 bits that nobody can guess, for secrets.
    fn chance(&self) -> [u8; 32];
    /// An id for a fact that is written down by hand at this time.
    fn fact(&self, at: Timestamp) -> FactId {
        FactId(*self.turn(at).as_uuid())
    }
    /// An id for a document.
    fn document(&self) -> DocumentId {
        let [chance, _] = *self.chance().as_chunks::<16>().0 else { unreachable!("32 bytes are two times 16") };
        DocumentId(uuid::Builder::from_random_bytes(chance).into_uuid())
    }
    /// An id for something that is undone at this time.
    fn undo(&self, at: Timestamp) -> UndoId {
        UndoId(*self.turn(at).as_uuid())
    }
}

/// Random ids, ordered by time where that helps the database.
#[derive(Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn session(&self) -> SessionId {
        SessionId(Uuid::new_v4())
    }

    fn turn(&self, at: Timestamp) -> TurnId {
        turn_id(at, Uuid::new_v4().as_u128() as u64)
    }

    fn topic(&self, at: Timestamp) -> TopicId {
        TopicId(*self.turn(at).as_uuid())
    }

    fn chance(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).expect("the system has randomness, else nothing here is safe");
        bytes
    }
}

/// Ids that count from one, the same on each run.
#[derive(Debug, Default)]
pub struct CountedIds {
    last: AtomicU64,
}

impl CountedIds {
    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Ids for CountedIds {
    fn session(&self) -> SessionId {
        SessionId(uuid::Builder::from_random_bytes(u128::from(self.next()).to_be_bytes()).into_uuid())
    }

    fn turn(&self, at: Timestamp) -> TurnId {
        turn_id(at, self.next())
    }

    fn topic(&self, at: Timestamp) -> TopicId {
        TopicId(*self.turn(at).as_uuid())
    }

    fn chance(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.next().to_le_bytes());
        bytes
    }
}

/// A UUIDv7: 48 bits of milliseconds, 12 bits of the fraction, 46 bits of chance, 16 zero bits.
fn turn_id(at: Timestamp, chance: u64) -> TurnId {
    let micros = at.as_microsecond().max(0).unsigned_abs();
    let fraction = (micros % 1000) * 4096 / 1000;
    let mut random = [0_u8; 10];
    random[..2].copy_from_slice(&(fraction as u16).to_be_bytes());
    random[2..8].copy_from_slice(&chance.to_be_bytes()[2..]);
    TurnId(uuid::Builder::from_unix_timestamp_millis(micros / 1000, &random).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_knows_its_turn() {
        let turn = RandomIds.turn(Timestamp::UNIX_EPOCH);
        assert_eq!(turn.message(0).turn(), turn);
        assert_eq!(turn.message(u16::MAX - 1).turn(), turn);
        assert_ne!(turn.message(0), turn.message(1));
    }

    #[test]
    fn turn_ids_are_v7_and_sort_by_time() {
        let early = RandomIds.turn(Timestamp::from_microsecond(1_000_001).expect("a time"));
        let late = RandomIds.turn(Timestamp::from_microsecond(1_000_900).expect("a time"));
        assert_eq!(early.as_uuid().get_version_num(), 7);
        assert!(early < late);
    }

    /// Written out, because what was imported before is found again by it.
    #[test]
    fn what_is_imported_twice_has_the_same_ids() {
        let session = SessionId::imported("chatgpt", "6f1c");
        let at: Timestamp = "2026-05-12T14:03:00Z".parse().expect("a time");
        let turn = TurnId::imported(at, session, "m1");
        assert_eq!((turn, turn.has_room_for_messages()), (TurnId::imported(at, session, "m1"), true));
        assert_ne!(turn, TurnId::imported(at, session, "m2"));
        assert_eq!([session.to_string(), turn.to_string()], IMPORTED);
    }

    const IMPORTED: [&str; 2] = ["a7fff8fc-c7e8-5e71-b0c5-edfe27444128", "019e1c7f-8620-7000-a97a-c571e5cf0000"];

    #[test]
    fn topic_ids_are_v7_and_come_back() {
        let topic = RandomIds.topic(Timestamp::UNIX_EPOCH);
        assert_eq!((topic.as_uuid().get_version_num(), TopicId::parse(&topic.to_string())), (7, Some(topic)));
        assert_eq!(TopicId::parse("a topic"), None);
    }

    #[test]
    fn session_ids_are_read_in_any_case_and_one_form() {
        let lower = "550e8400-e29b-41d4-a716-446655440000";
        assert_eq!(SessionId::parse(&lower.to_uppercase()).map(|id| id.to_string()), Some(lower.into()));
        assert_eq!(SessionId::parse(&lower.replace('-', "")), None);
        assert_eq!(SessionId::parse(&format!("{{{lower}}}")), None);
        assert_eq!(SessionId::parse("not-a-uuid"), None);
        assert_eq!(RandomIds.session().as_uuid().get_version_num(), 4);
    }

    /// Written out, because conversations are found again by it.
    #[test]
    fn a_name_is_always_the_same_session() {
        assert_eq!(SessionId::named("default", "support-42").to_string(), "ab570605-f697-5108-a646-ea12c945a57d");
        let ids = [
            SessionId::named("default", "a"),
            SessionId::named("acme", "a"),
            SessionId::named("default", "b"),
            SessionId::ephemeral("default", "a"),
            SessionId::imported("default", "a"),
        ];
        assert!((1..ids.len()).all(|n| !ids[..n].contains(&ids[n])), "{ids:?}");
        assert_eq!(ids[0].as_uuid().get_version_num(), 5);
    }
}
