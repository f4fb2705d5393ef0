//! What kind of thing was said, by its form alone.

use serde::Serialize;

/// A reading of what was said and how sure it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Intent {
    /// `question` or `statement`.
    pub name: &'static str,
    /// Between 0 and 1.
    pub confidence: f64,
    /// What it was decided by.
    pub decided_by: &'static str,
}

/// Words a question begins with, in English and Dutch.
const ASKING: &str = "what who whom whose which when where why how is are was were do does did can could will would \
    should may have has wat wie welke welk wanneer waar waarom waarvoor hoe hoeveel kan kun kunt mag zijn heb hebt heeft \
    zou zal wil";

/// Reads the form of a text: its mark, else its first word.
pub fn read_intent(text: &str) -> Intent {
    let text = text.trim_end();
    if text.ends_with(['?', '？', '؟']) {
        return Intent { name: "question", confidence: 0.95, decided_by: "question mark" };
    }
    let first = text.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or("").to_lowercase();
    if ASKING.split_whitespace().any(|word| word == first) {
        return Intent { name: "question", confidence: 0.7, decided_by: "first word" };
    }
    Intent { name: "statement", confidence: 0.6, decided_by: "neither question mark nor question word" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_told_from_statements() {
        assert_eq!(read_intent("Welke producten heb je daarvoor?").name, "question");
        assert_eq!(read_intent("how do I reset it").name, "question");
        assert_eq!(read_intent("My name is Ann.").name, "statement");
        assert_eq!(read_intent("…").name, "statement");
    }
}
