//! A word as search knows it: its plain form, then its stem.

use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

use super::tongue::Tongue;
use super::vocabulary::lemma;

/// Lemma, then stem: `went`, `goes` and `going` are all `go`. The word is one of [`words`](super::words).
pub fn term(word: &str, tongue: Tongue) -> String {
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.to_owned();
    }
    let plain = lemma(word, tongue).unwrap_or(word);
    stemmer(tongue).stem(plain).into_owned()
}

fn stemmer(tongue: Tongue) -> &'static Stemmer {
    static ALL: [LazyLock<Stemmer>; 5] = [
        LazyLock::new(|| Stemmer::create(Algorithm::English)),
        LazyLock::new(|| Stemmer::create(Algorithm::Dutch)),
        LazyLock::new(|| Stemmer::create(Algorithm::German)),
        LazyLock::new(|| Stemmer::create(Algorithm::French)),
        LazyLock::new(|| Stemmer::create(Algorithm::Spanish)),
    ];
    &ALL[tongue as usize]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Words on one line are one term.
    #[track_caller]
    fn check(code: &str, lines: &str) {
        let tongue = Tongue::from_code(code).expect("one of the five");
        for line in lines.lines() {
            let terms: Vec<String> = line.split_whitespace().map(|word| term(word, tongue)).collect();
            assert!(terms.iter().all(|term| term == &terms[0]), "{line}: {terms:?}");
        }
    }

    #[test]
    fn english_is_porter2() {
        for (word, expected) in [
            ("went", "go"),
            ("generously", "generous"),
            ("dying", "die"),
            ("kids", "child"),
            ("fruitlessly", "fruitless"),
            ("happily", "happili"),
            ("skies", "sky"),
            ("2023", "2023"),
            ("films", "movi"),
        ] {
            assert_eq!(term(word, Tongue::English), expected);
        }
        check("en", "running run runs ran\nbought buy buying\nmom mother mothers");
    }

    #[test]
    fn irregular_forms_meet_their_plain_one() {
        check(
            "nl",
            "gaan ging gegaan gaat\nkind kinderen\nwonen woon woont woonde gewoond\nhuis huizen\nfiets fietsen fietste",
        );
        check(
            "de",
            "gehen ging gegangen geht\nkind kinder\nwohnen wohne wohnt gewohnt\nhaus häuser\nschreiben schrieb",
        );
        check("fr", "aller vais allé\nenfant enfants\nhabiter habite habitais\nmanger mangé mangeais");
        check("es", "ir fui voy\nhijo hijos hija\nvivir vivo vivía vivió\nperro perros");
    }

    proptest! {
        #[test]
        fn any_word_has_a_term(text in "\\PC{1,40}", latin in "[a-zàâäáçéèêëïîíñóôöùûüúœß']{1,20}") {
            for tongue in Tongue::ALL {
                for word in super::super::words(&text).chain(super::super::words(&latin)) {
                    prop_assert!(!term(&word, tongue).is_empty(), "{}", word);
                }
            }
        }
    }
}
