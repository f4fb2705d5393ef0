//! A session as bytes: a mark for the form, its length, then its JSON, compressed.

use crate::live::LiveSession;

/// The form that is written, and the only one there has been.
const FORM: u8 = 1;
/// Quick: a visitor waits for it.
const LEVEL: i32 = 1;
/// No session is as large; a length beyond it is damage.
const JSON_BYTES_MAX: usize = 1 << 30;

/// What cannot be read: of another version, or damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is damaged, or was written by another version: {0}")]
pub(super) struct Unreadable(String);

pub(super) fn pack(session: &LiveSession) -> Vec<u8> {
    let json = session.to_json();
    let mut packed = vec![FORM];
    packed.extend((json.len() as u32).to_le_bytes());
    // Compressing into memory fails only where there is none; what is left then is unreadable, and said to be.
    packed.extend(zstd::bulk::compress(&json, LEVEL).unwrap_or_default());
    packed
}

pub(super) fn unpack(bytes: &[u8]) -> Result<LiveSession, Unreadable> {
    let [FORM, a, b, c, d, compressed @ ..] = bytes else {
        return Err(Unreadable(format!("it begins with {:?}", bytes.first())));
    };
    let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    if length > JSON_BYTES_MAX {
        return Err(Unreadable(format!("it claims to have {length} bytes")));
    }
    let json = zstd::bulk::decompress(compressed, length).map_err(|error| Unreadable(error.to_string()))?;
    LiveSession::from_json(&json).map_err(|error| Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionSeed;
    use crate::store::conformance::live::after;

    #[test]
    fn what_is_damaged_is_said_to_be() {
        let session = LiveSession::begin(&SessionSeed::default(), after(0).wall);
        let packed = pack(&session);
        assert_eq!(unpack(&packed), Ok(session));
        for at in 0..packed.len() {
            assert!(unpack(&packed[..at]).is_err(), "cut at {at}");
        }
        let mut other = packed.clone();
        other[0] = 9;
        assert!(unpack(&other).is_err());
        other = packed;
        other[4] = 0xff;
        assert!(unpack(&other).is_err(), "a length beyond reason");
    }
}
