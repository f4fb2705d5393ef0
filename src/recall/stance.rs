//! Whether a message says how to answer from now on, or what its speaker likes better.
//!
//! Such messages matter to requests that share no word with them: "write me a query" should meet "always use
//! lower-case keywords".

use super::text::beginning;

/// Standing instructions are short, and say so at their beginning.
const INSTRUCTION_CHARS_MAX: usize = 400;

/// Beginnings of an instruction, after an optional "please".
const OPENINGS: [&str; 40] = [
    "always ",
    "never ",
    "from now on",
    "going forward",
    "in future",
    "in the future",
    "whenever ",
    "each time ",
    "every time ",
    "make sure ",
    "remember to ",
    "remember that ",
    "don't ",
    "do not ",
    "avoid ",
    "altijd ",
    "nooit ",
    "vanaf nu",
    "voortaan",
    "in de toekomst",
    "telkens als ",
    "elke keer ",
    "zorg dat ",
    "onthoud dat ",
    "gebruik nooit ",
    "gebruik altijd ",
    "immer ",
    "niemals ",
    "ab jetzt",
    "ab sofort",
    "in zukunft",
    "merk dir ",
    "toujours ",
    "jamais ",
    "désormais",
    "à partir de maintenant",
    "siempre ",
    "nunca ",
    "a partir de ahora",
    "de ahora en adelante",
];

/// Phrases that make an instruction wherever they stand.
const ANYWHERE: [&str; 12] = [
    "from now on",
    "going forward",
    "in future",
    "in the future",
    "vanaf nu",
    "voortaan",
    "ab jetzt",
    "ab sofort",
    "désormais",
    "à partir de maintenant",
    "a partir de ahora",
    "de ahora en adelante",
];

const POLITE: [&str; 6] = ["please ", "graag ", "alsjeblieft ", "bitte ", "s'il te plaît ", "por favor "];

/// "When I ask for code, …": such a clause followed by a verb of answering.
const WHEN: [&str; 8] = [
    "when i ",
    "whenever i ",
    "when you ",
    "whenever you ",
    "every time i ",
    "every time you ",
    "each time i ",
    "als ik ",
];
const ANSWERING: [&str; 12] = [
    "ask", "answer", "reply", "respond", "write", "give", "explain", "mention", "vraag", "antwoord", "schrijf", "geef",
];
const CLAUSE_BYTES: usize = 40;

/// Whether a message says how to answer from now on.
pub(crate) fn instructs(text: &str) -> bool {
    let text = text.trim_start();
    if text.chars().nth(INSTRUCTION_CHARS_MAX).is_some() {
        return false;
    }
    let lower = text.to_lowercase().replace('’', "'");
    let head = POLITE.iter().find_map(|word| lower.strip_prefix(word)).unwrap_or(&lower);
    OPENINGS.iter().any(|opening| head.starts_with(opening))
        || ANYWHERE.iter().any(|phrase| lower.contains(phrase))
        || WHEN.iter().any(|clause| answers_after(&lower, clause))
}

fn answers_after(lower: &str, clause: &str) -> bool {
    lower.match_indices(clause).any(|(at, _)| {
        let rest = &lower[at + clause.len()..];
        let near = beginning(rest, CLAUSE_BYTES);
        ANSWERING.iter().any(|verb| near.contains(verb))
    })
}

/// Ways to say what one likes better.
const PREFERENCES: [&str; 44] = [
    "i prefer",
    "i'd prefer",
    "i would prefer",
    "i'd rather",
    "i would rather",
    "i like",
    "i'd like to avoid",
    "i love",
    "i enjoy",
    "i hate",
    "i dislike",
    "i avoid",
    "i value",
    "i favor",
    "i favour",
    "i want to avoid",
    "i want to keep",
    "i really like",
    "i really prefer",
    "i always prefer",
    "i usually prefer",
    "preferred",
    "preference",
    "rather than",
    "instead of",
    "my favorite",
    "my favourite",
    "i tend to",
    "i'm a fan",
    "i'm not a fan",
    "i'm comfortable",
    "i'm not comfortable",
    "i'm interested",
    "ik heb liever",
    "ik hou van",
    "ik houd van",
    "mijn voorkeur",
    "in plaats van",
    "ich mag",
    "ich bevorzuge",
    "je préfère",
    "j'aime",
    "prefiero",
    "me gusta",
];

/// Whether a message says what its speaker likes better.
pub(crate) fn prefers(text: &str) -> bool {
    let lower = text.to_lowercase().replace('’', "'");
    PREFERENCES.iter().any(|phrase| lower.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_instructions_are_noticed() {
        for text in [
            "Always answer in Dutch.",
            "please never use tabs",
            "Thanks! From now on give me metric units.",
            "When I ask for code, keep it short.",
            "Voortaan graag in het Nederlands antwoorden.",
        ] {
            assert!(instructs(text), "{text}");
        }
        for text in ["I always forget my keys.", "When I was in Rome I ate well.", "How do I avoid burnout?"] {
            assert!(!instructs(text), "{text}");
        }
        assert!(!instructs(&format!("Always {}", "x ".repeat(400))), "too long to be one");
    }

    #[test]
    fn preferences_are_noticed() {
        for text in
            ["I’d rather walk", "My favourite tea is oolong", "Ik heb liever thee", "use ripgrep instead of grep"]
        {
            assert!(prefers(text), "{text}");
        }
        assert!(!prefers("It rained all day."));
    }
}
