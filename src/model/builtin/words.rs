//! Words: which ones carry meaning, and which are the same word in another form.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

/// Words that say how something is asked rather than what about, in English and Dutch. Verbs of
/// remembering are among them: "what did I say about my dog" is about the dog.
static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "a about after again all also am an and any are aren as at be because been before being but by \
    can could couldn d did didn do does doesn doing don each every few for from get give go going got had has \
    have having he her here him his how i if in into is isn just know let ll m may me might mine more most much \
    must my myself no nor not now of off ok okay on one only or other our out own please re really remember s said \
    same say shall she should so some such t tell than thank thanks the then there to told too under up us ve very \
    was we well were what when where which while who whom whose why will with would yes yet you your yours \
    aan af al alle alles als alsjeblieft altijd ander andere bedankt ben bent bij dan de denk doe doen doet door dus een \
    en er ga gaan gaat geef geen gezegd had hadden heb hebben hebt heeft hem hen het hier hij hoe hoeveel \
    hun iemand iets ik in is ja jij jou jouw je jullie kan kon kun kunnen kunt maar mag me mee meer men met mij mijn \
    moet moeten na naar nee niet niets nog nu of om omdat onder ons onthoud onthouden onze ook op over sommige te tegen \
    toch toen tot u uit uw van vertel vertelde vertellen verteld voor waar waarom wanneer waren was wat we weer weet \
    weten wel welk welke werd wie wij wil wilde willen worden wordt zal ze zeg zegt zei zeggen zelf zich zij zijn zo \
    zonder zou zullen"
        .split_whitespace()
        .collect()
});

/// Words that point at what was said before.
static POINTING: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "that this those these it its they them their \
    dat dit die deze ervan ervoor ermee erover erbij erin erop eraan eruit daarvan daarvoor daarmee daarover daarbij \
    daarin daarop daaraan daaruit hiervan hiervoor hiermee hierover hierbij daar zoiets dezelfde hetzelfde"
        .split_whitespace()
        .collect()
});

/// Endings that make a plural or another form of the same word, the longer before the shorter.
const ENDINGS: [&str; 6] = ["ing", "en", "ed", "es", "s", "e"];

/// What must be left of a word without its ending.
const STEM_CHARS_MIN: usize = 3;

/// The words of a text that carry meaning, each in one form.
pub(super) fn content_words(text: &str) -> BTreeSet<String> {
    words(text)
        .filter(|word| !STOP_WORDS.contains(word.as_str()) && !POINTING.contains(word.as_str()))
        .map(|word| stem(&word))
        .collect()
}

/// Whether a text points at something outside itself: "and what does *that* cost?"
pub(super) fn points_back(text: &str) -> bool {
    words(text).any(|word| POINTING.contains(word.as_str()))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// One form for `live`, `lives` and `living`, for `product`, `products` and `producten`, for `woon`
/// and `wonen`. It needs to be the same for related words, not to be a word.
fn stem(word: &str) -> String {
    let mut stem = word;
    while let Some(shorter) = ENDINGS.iter().find_map(|ending| stem.strip_suffix(ending))
        && shorter.chars().count() >= STEM_CHARS_MIN
    {
        stem = shorter;
    }
    let mut letters: Vec<char> = stem.chars().collect();
    letters.dedup_by(|next, last| next == last && next.is_alphabetic());
    letters.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_same(words: &[&str]) {
        let stems: BTreeSet<String> = words.iter().map(|word| stem(word)).collect();
        assert_eq!(stems.len(), 1, "{words:?} became {stems:?}");
    }

    #[test]
    fn forms_of_a_word_are_one_word() {
        check_same(&["live", "lives", "lived", "living"]);
        check_same(&["product", "products", "producten"]);
        check_same(&["run", "running"]);
        check_same(&["woon", "wonen"]);
        check_same(&["werk", "werken"]);
        check_same(&["address", "addresses"]);
    }

    #[test]
    fn short_words_and_numbers_stay_apart() {
        assert_ne!(stem("bus"), stem("bed"));
        assert_ne!(stem("1100"), stem("10"));
        assert_eq!(stem("één"), "én");
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(content_words(text).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn only_words_that_carry_meaning_count() {
        check("Where do I live?", &["liv"]);
        check("What's that?", &[]);
        check("Welke producten heb je daarvoor?", &["product"]);
        check("WAT is de Prijs?", &["prij"]);
    }

    #[test]
    fn pointing_is_noticed() {
        assert!(points_back("Welke producten heb je daarvoor?"));
        assert!(points_back("And how much is it?"));
        assert!(!points_back("Where do I live?"));
        assert!(!points_back("Wat is het adres?"));
    }
}
