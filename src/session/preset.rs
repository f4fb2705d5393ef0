//! Presets: what a visitor's session begins with, by a name that its tenant chose.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SessionSeed;
use crate::period::Ttl;

/// What a session of one type begins with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionPreset {
    /// How long it waits for its visitor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Ttl>,
    /// What the model is told first, where the client tells it nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What is noted about it.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl SessionPreset {
    /// A seed that follows the preset of this name where it says nothing itself.
    pub fn applied_to(&self, name: &str, seed: SessionSeed) -> SessionSeed {
        let mut metadata = self.metadata.clone();
        metadata.extend(seed.metadata);
        metadata.insert(PRESET.into(), name.into());
        SessionSeed { metadata, ttl: seed.ttl.or(self.ttl), ..seed }
    }
}

/// Where a session notes which preset it began with.
pub const PRESET: &str = "template";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_session_says_itself_counts() {
        let preset: SessionPreset = serde_json::from_value(
            json!({"ttl": "2h", "system": "You sell tea.", "metadata": {"channel": "web", "a": 1}}),
        )
        .expect("a preset");
        let said = Map::from_iter([("channel".to_owned(), json!("phone"))]);
        let seed = preset.applied_to("tea", SessionSeed { metadata: said, ..SessionSeed::default() });
        assert_eq!(Value::Object(seed.metadata), json!({"channel": "phone", "a": 1, "template": "tea"}));
        assert_eq!(seed.ttl.map(|ttl| ttl.to_string()), Some("2h".into()));
        assert!(serde_json::from_value::<SessionPreset>(json!({"tll": "2h"})).is_err());
    }
}
