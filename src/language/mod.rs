//! Languages: which one a text is in, and what its words are.
//!
//! Two questions are answered here. [`detect`] chooses among many languages, to find a template.
//! [`tongue`] chooses among the five that recall reads ([`Tongue`]), from as little as a short question.
//!
//! Reading order: `words` (text to words), `vocabulary` (what single words are; one table per language),
//! `table` (how a language's table is chosen), `term` (a word as search knows it), `phrase` (patterns over words), `tongue`,
//! `names` (what capitals show), `follow` (what leans on the question before), `when` (what a text says about time).
//!
//! **Invariant:** everything here is a plain function of text; the tables are compiled in.

mod follow;
mod names;
mod phrase;
mod table;
mod term;
mod tongue;
mod vocabulary;
pub mod when;
mod words;

pub use follow::{follows_up, is_elliptic, is_saying};
pub use names::inner_capitals;
pub use phrase::{Phrase, Phrases};
pub(crate) use table::texts_beside;
pub use table::{Tables, phrases, word_set, written};
pub use term::term;
pub use tongue::{Tongue, spoken, tongue};
pub use vocabulary::{is_first_person, is_number_word, is_stop, is_time_word, month, month_or_short, number, weekday};
pub use words::{Spans, WORD_CHARS_MAX, Word, spans, words};

use whatlang::{Detector, Lang};

/// Fewer words than this say too little: "hello" is as Dutch as it is English.
const WORDS_MIN: usize = 3;

/// Two-letter codes and the detector's names, for languages it tells apart well.
const LANGUAGES: [(&str, Lang); 18] = [
    ("en", Lang::Eng),
    ("nl", Lang::Nld),
    ("de", Lang::Deu),
    ("fr", Lang::Fra),
    ("es", Lang::Spa),
    ("it", Lang::Ita),
    ("pt", Lang::Por),
    ("pl", Lang::Pol),
    ("sv", Lang::Swe),
    ("da", Lang::Dan),
    ("ru", Lang::Rus),
    ("uk", Lang::Ukr),
    ("tr", Lang::Tur),
    ("ar", Lang::Ara),
    ("hi", Lang::Hin),
    ("zh", Lang::Cmn),
    ("ja", Lang::Jpn),
    ("ko", Lang::Kor),
];

/// The language of a text, as one of the codes in `among`; `None` when it says too little, or is in none of them.
pub fn detect<'a>(text: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if text.is_ascii() && text.split_whitespace().take(WORDS_MIN).count() < WORDS_MIN {
        return None;
    }
    let codes: Vec<&str> = among.collect();
    // The detector goes by letters and takes "talk later" for Dutch, so it is asked only where it knows more languages.
    if codes.iter().all(|code| Tongue::from_code(code).is_some_and(|tongue| tongue.code() == *code)) {
        let spoken = spoken(text)?.code();
        return codes.into_iter().find(|code| *code == spoken);
    }
    let known = |code: &'a str| LANGUAGES.iter().find(|(name, _)| *name == code).map(|(_, lang)| (code, *lang));
    let candidates: Vec<(&str, Lang)> = codes.into_iter().filter_map(known).collect();
    let found = Detector::with_allowlist(candidates.iter().map(|(_, lang)| *lang).collect()).detect_lang(text)?;
    candidates.into_iter().find(|(_, lang)| *lang == found).map(|(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(detect(text, ["en", "nl"].into_iter()), expected, "{text}");
    }

    #[test]
    fn questions_are_told_apart() {
        check("Welke producten heb je daarvoor?", Some("nl"));
        check("What are the requirements for working at height?", Some("en"));
        check("Where do I live?", Some("en"));
        check("Waar woon ik?", Some("nl"));
        check("What would you do if you were me?", Some("en"));
        check("ik heb morgen een sollicitatie bij de gemeente, best spannend", Some("nl"));
        // Counted by letters these are Dutch.
        assert_ne!(detect("I'm running late, talk later", ["en", "nl"].into_iter()), Some("nl"));
        assert_ne!(detect("I'm in GMT+1, working 10-18 mostly", ["en", "nl"].into_iter()), Some("nl"));
    }

    #[test]
    fn a_language_that_is_not_among_them_is_none() {
        check("ich hab grad voll Stress wegen der Prüfung am Freitag", None);
        check("je suis développeur, plutôt Rust et un peu de Go", None);
        check("soy celíaca así que nada de gluten", None);
        assert_eq!(detect("Onde é que eu moro agora?", ["en", "pt"].into_iter()), Some("pt"));
    }

    #[test]
    fn too_little_is_not_guessed_from() {
        check("hello", None);
        check("ok thanks", None);
        check("", None);
    }
}
