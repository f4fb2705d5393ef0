//! How much of the memory a request uses.

use serde::{Deserialize, Serialize};

/// How much of the memory a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Lay before the model what is remembered, and remember.
    #[default]
    Active,
    /// Remember only.
    Passive,
    /// Lay before the model only.
    Read,
    /// Neither.
    Off,
}

impl Mode {
    /// Reads the word in a header or body.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "active" => Self::Active,
            "passive" => Self::Passive,
            "read" => Self::Read,
            "off" => Self::Off,
            _ => return None,
        })
    }

    /// The same, remembering nothing.
    pub fn without_recording(self) -> Self {
        if self.injects() { Self::Read } else { Self::Off }
    }

    /// Whether what is said is remembered.
    pub fn records(self) -> bool {
        matches!(self, Self::Active | Self::Passive)
    }

    /// Whether the model is shown what is remembered.
    pub fn injects(self) -> bool {
        matches!(self, Self::Active | Self::Read)
    }
}
