//! The five languages that recall reads, and which of them a text is in.

use super::vocabulary::{Evidence, evidence};
use super::words::words;

/// A language whose words are known here: stop words, stems, dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Tongue {
    /// English, and what is assumed of a text that does not say.
    #[default]
    English,
    /// Nederlands.
    Dutch,
    /// Deutsch.
    German,
    /// Français.
    French,
    /// Español.
    Spanish,
}

impl Tongue {
    /// All five.
    pub const ALL: [Tongue; 5] = [Tongue::English, Tongue::Dutch, Tongue::German, Tongue::French, Tongue::Spanish];

    /// The two letters of ISO 639-1.
    pub fn code(self) -> &'static str {
        ["en", "nl", "de", "fr", "es"][self as usize]
    }

    /// The language of a two-letter code; regions are accepted and ignored (`nl-BE`).
    pub fn from_code(code: &str) -> Option<Tongue> {
        let language = code.split(['-', '_']).next().unwrap_or_default();
        Tongue::ALL.into_iter().find(|tongue| tongue.code().eq_ignore_ascii_case(language))
    }
}

/// A text is judged by its beginning: a few lines say enough.
const WORDS_READ_MAX: usize = 120;

/// How much more than its rivals a language must have to be believed.
const LEAD_MIN: f32 = 0.2;

/// Which of the five a text is in, by its stop words and letters; `otherwise` when it does not say.
///
/// Made for short questions ("Waar woon ik?"), where counting letters is not enough.
pub fn tongue(text: &str, otherwise: Tongue) -> Tongue {
    let mut scores = [0.0f32; 5];
    for word in words(text).take(WORDS_READ_MAX) {
        match evidence(&word) {
            Some(Evidence { weights }) => add(&mut scores, weights),
            None => add(&mut scores, &spelling(&word)),
        }
    }
    if text.contains(['¿', '¡']) {
        scores[Tongue::Spanish as usize] += 2.0;
    }
    let best = Tongue::ALL
        .into_iter()
        .fold(otherwise, |best, next| if scores[best as usize] < scores[next as usize] { next } else { best });
    let rival = Tongue::ALL.into_iter().filter(|other| *other != best).map(|other| scores[other as usize]);
    let lead = scores[best as usize] - rival.fold(0.0, f32::max);
    if best != otherwise && lead < LEAD_MIN { otherwise } else { best }
}

/// Which of the five a text is in, if it says so.
pub fn spoken(text: &str) -> Option<Tongue> {
    let [one, other] = [Tongue::English, Tongue::Dutch].map(|otherwise| tongue(text, otherwise));
    (one == other).then_some(one)
}

fn add(scores: &mut [f32; 5], weights: &[f32; 5]) {
    for (score, weight) in scores.iter_mut().zip(weights) {
        *score += weight;
    }
}

/// What the letters of an unknown word say: little each, but a name does not change a language.
fn spelling(word: &str) -> [f32; 5] {
    const SIGNS: [(&str, [f32; 5]); 34] = [
        ("ß", [0.0, 0.0, 0.8, 0.0, 0.0]),
        ("ä", [0.0, 0.0, 0.5, 0.0, 0.0]),
        ("ö", [0.0, 0.0, 0.5, 0.0, 0.0]),
        ("ü", [0.0, 0.0, 0.5, 0.0, 0.1]),
        ("sch", [0.0, 0.1, 0.2, 0.0, 0.0]),
        ("ung", [0.0, 0.0, 0.2, 0.0, 0.0]),
        ("ei", [0.0, 0.0, 0.1, 0.0, 0.0]),
        ("ñ", [0.0, 0.0, 0.0, 0.0, 0.8]),
        ("á", [0.0, 0.0, 0.0, 0.0, 0.3]),
        ("í", [0.0, 0.0, 0.0, 0.0, 0.3]),
        ("ó", [0.0, 0.0, 0.0, 0.0, 0.3]),
        ("ú", [0.0, 0.0, 0.0, 0.0, 0.3]),
        ("ción", [0.0, 0.0, 0.0, 0.0, 0.4]),
        ("ado", [0.0, 0.0, 0.0, 0.0, 0.1]),
        ("ç", [0.0, 0.0, 0.0, 0.5, 0.0]),
        ("à", [0.0, 0.0, 0.0, 0.5, 0.0]),
        ("è", [0.0, 0.05, 0.0, 0.4, 0.0]),
        ("ê", [0.0, 0.0, 0.0, 0.5, 0.0]),
        ("î", [0.0, 0.0, 0.0, 0.5, 0.0]),
        ("ô", [0.0, 0.0, 0.0, 0.5, 0.0]),
        ("û", [0.0, 0.0, 0.0, 0.5, 0.0]),
        ("œ", [0.0, 0.0, 0.0, 0.5, 0.0]),
        ("é", [0.0, 0.05, 0.0, 0.2, 0.15]),
        ("eux", [0.0, 0.0, 0.0, 0.2, 0.0]),
        ("ë", [0.0, 0.3, 0.0, 0.1, 0.0]),
        ("ï", [0.0, 0.3, 0.0, 0.1, 0.0]),
        ("ij", [0.0, 0.3, 0.0, 0.0, 0.0]),
        ("aa", [0.0, 0.2, 0.0, 0.0, 0.0]),
        ("oe", [0.0, 0.1, 0.0, 0.0, 0.0]),
        ("uu", [0.0, 0.2, 0.0, 0.0, 0.0]),
        ("ing", [0.1, 0.05, 0.0, 0.0, 0.0]),
        ("th", [0.15, 0.0, 0.0, 0.0, 0.0]),
        ("ght", [0.2, 0.0, 0.0, 0.0, 0.0]),
        ("sh", [0.1, 0.0, 0.0, 0.0, 0.0]),
    ];
    let mut scores = [0.0; 5];
    // Most words have plain letters only: then most signs need not be looked for.
    let plain = word.is_ascii();
    for (_, weights) in SIGNS.iter().filter(|(sign, _)| (!plain || sign.is_ascii()) && word.contains(sign)) {
        add(&mut scores, weights);
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: &str, texts: &[&str]) {
        for text in texts {
            for otherwise in Tongue::ALL {
                assert_eq!(tongue(text, otherwise).code(), expected, "{text} (otherwise {otherwise:?})");
            }
        }
    }

    #[test]
    fn questions_say_their_language() {
        let english =
            "Where do I live? | Which products do you have for that? | and in winter? | what about her brother?
            | When did I go to Paris? | Did you recommend a book? | my dog's name | How many children has Ann? | I work as a car salesman.";
        check("en", &split(english));
        let dutch = "Waar woon ik? | Welke producten heb je daarvoor? | En hoe duur is dat? | Hoe heet mijn hond?
            | Wanneer ging ik naar Parijs? | Wat zei ik gisteren? | Ik hou van jazz | Wat is de naam van mijn zus?";
        check("nl", &split(dutch));
        let german = "Wo wohne ich? | Wie heißt mein Hund? | Was habe ich gestern gesagt? | Ich mag Jazz
            | Welche Produkte hast du dafür? | Wann war ich in Paris? | Wie viele Kinder hat Anna?";
        check("de", &split(german));
        let french = "Où est-ce que j'habite ? | Comment s'appelle mon chien ? | Qu'est-ce que j'ai dit hier ?
            | Quand suis-je allé à Paris ? | J'aime le jazz | Combien d'enfants a Anne ? | et en hiver ?";
        check("fr", &split(french));
        let spanish = "¿Dónde vivo? | Donde vivo yo | ¿Cómo se llama mi perro? | Qué dije ayer
            | ¿Cuándo fui a París? | Me gusta el jazz | ¿Y en invierno?";
        check("es", &split(spanish));
    }

    #[test]
    fn a_text_that_does_not_say_is_taken_for_what_was_expected() {
        for otherwise in Tongue::ALL {
            for text in ["", "42", "Lisbon", "jazz", "北京", "Где?", "ok"] {
                assert_eq!(tongue(text, otherwise), otherwise, "{text}");
            }
        }
    }

    #[test]
    fn codes_come_back() {
        for tongue in Tongue::ALL {
            assert_eq!(Tongue::from_code(tongue.code()), Some(tongue));
        }
        assert_eq!(Tongue::from_code("nl-BE"), Some(Tongue::Dutch));
        assert_eq!(Tongue::from_code("it"), None);
    }

    fn split(texts: &str) -> Vec<&str> {
        texts.split('|').map(str::trim).collect()
    }
}
