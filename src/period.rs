//! Periods as people write them in settings and requests: `30s`, `6h`, `24h`, `never`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units, largest first, in milliseconds.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Longest period: a hundred years. More is a typing error.
const MILLIS_MAX: u64 = 100 * 365 * 86_400_000;

/// Why a period could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a period; write a number and a unit (ms, s, m, h, d, w), for example `24h`")]
pub struct PeriodError(String);

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Duration);

impl Period {
    /// So many seconds.
    pub const fn seconds(n: u64) -> Self {
        Self(Duration::from_secs(n))
    }

    /// So many hours.
    pub const fn hours(n: u64) -> Self {
        Self::seconds(n * 3600)
    }

    /// The period for the standard library.
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// The period in whole microseconds, as stored.
    pub fn micros(self) -> i64 {
        i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX)
    }

    /// Reads what [`Period::micros`] wrote.
    pub fn from_micros(micros: i64) -> Self {
        Self(Duration::from_micros(micros.max(0).unsigned_abs()))
    }
}

impl FromStr for Period {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let wrong = || PeriodError(text.to_owned());
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (_, millis) = UNITS.into_iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?;
        let total = number.checked_mul(millis).filter(|total| *total <= MILLIS_MAX).ok_or_else(wrong)?;
        Ok(Self(Duration::from_millis(total)))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis() as u64;
        let (name, unit) = UNITS
            .into_iter()
            // Days and weeks read worse than hours for the periods people set: 24h, not 1d.
            .filter(|(name, _)| !matches!(*name, "w" | "d") || millis >= 14 * 86_400_000)
            .find(|(_, unit)| millis != 0 && millis.is_multiple_of(*unit))
            .unwrap_or(("s", 1_000));
        write!(f, "{}{name}", millis / unit)
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How long something is kept: a period, or `never` removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ttl(pub Option<Period>);

impl Ttl {
    /// Kept until somebody deletes it.
    pub const NEVER: Self = Self(None);

    /// Kept for this long.
    pub const fn of(period: Period) -> Self {
        Self(Some(period))
    }
}

impl FromStr for Ttl {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        if text == "never" {
            return Ok(Self::NEVER);
        }
        let period: Period = text.parse()?;
        if period.0.is_zero() {
            return Err(PeriodError(text.to_owned()));
        }
        Ok(Self(Some(period)))
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(period) => period.fmt(f),
            None => f.write_str("never"),
        }
    }
}

impl Serialize for Ttl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read_and_written_as_people_write_them() {
        for text in ["30s", "6h", "24h", "90m", "250ms", "30d", "0s"] {
            assert_eq!(text.parse::<Period>().map(|p| p.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("2d".parse::<Period>().map(|p| p.to_string()), Ok("48h".to_owned()));
    }

    #[test]
    fn what_is_no_period_is_refused() {
        for text in ["", "24", "h", "-1h", "1.5h", "1y", "99999999999999999999h", "10000000d", "24 hours"] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
        assert!("0s".parse::<Ttl>().is_err(), "a TTL of nothing would delete everything");
        assert_eq!("never".parse(), Ok(Ttl::NEVER));
    }
}
