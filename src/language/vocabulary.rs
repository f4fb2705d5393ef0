//! What single words are: stop words, words of time and number, months. One table per language, beside
//! this file.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::table::{Tables, texts_beside, written};
use super::tongue::Tongue;

/// A word too common to be searched for.
pub fn is_stop(word: &str, tongue: Tongue) -> bool {
    lexicon(tongue).stop.contains(word)
}

/// A word that says when: yesterday, week, a weekday, a month.
pub fn is_time_word(word: &str, tongue: Tongue) -> bool {
    lexicon(tongue).time.contains(word)
}

/// A word that says how many: two to ten, few, couple, once, twice. Digits are the caller's to see.
pub fn is_number_word(word: &str, tongue: Tongue) -> bool {
    lexicon(tongue).quantity.contains(word)
}

/// A word by which somebody speaks of themselves: I, my, we, our.
pub fn is_first_person(word: &str, tongue: Tongue) -> bool {
    lexicon(tongue).first_person.contains(word)
}

/// The number a word stands for, one to twelve.
pub fn number(word: &str, tongue: Tongue) -> Option<u8> {
    lexicon(tongue).numbers.get(word).copied()
}

/// The month a full name stands for, from 1.
pub fn month(word: &str, tongue: Tongue) -> Option<u8> {
    lexicon(tongue).months.get(word).copied()
}

/// The month a full or short name stands for. Short names are believed only beside a number: Jan is a man.
pub fn month_or_short(word: &str, tongue: Tongue) -> Option<u8> {
    month(word, tongue).or_else(|| lexicon(tongue).months_short.get(word).copied())
}

/// The weekday a name stands for, Monday is 1.
pub fn weekday(word: &str, tongue: Tongue) -> Option<u8> {
    lexicon(tongue).weekdays.get(word).copied()
}

/// The plain form of an irregular one: went is go.
pub(super) fn lemma(word: &str, tongue: Tongue) -> Option<&'static str> {
    lexicon(tongue).lemmas.get(word).copied()
}

/// What a known word says about the language of its text.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Evidence {
    /// By language. A word that two languages share says half of it for each.
    pub weights: [f32; 5],
}

pub(super) fn evidence(word: &str) -> Option<&'static Evidence> {
    static ALL: LazyLock<HashMap<&str, Evidence>> = LazyLock::new(all_evidence);
    ALL.get(word)
}

/// A table as it is written.
#[derive(Deserialize)]
struct Table {
    stop: String,
    first_person: String,
    time: String,
    quantity: String,
    numbers: Vec<String>,
    months: Vec<String>,
    months_short: Vec<String>,
    weekdays: Vec<String>,
    telling: String,
    forms: HashMap<String, String>,
}

type Words = HashSet<&'static str>;
type Numbered = HashMap<&'static str, u8>;

/// A table as it is used.
struct Lexicon {
    stop: Words,
    first_person: Words,
    time: Words,
    quantity: Words,
    telling: Words,
    numbers: Numbered,
    months: Numbered,
    months_short: Numbered,
    weekdays: Numbered,
    lemmas: HashMap<&'static str, &'static str>,
}

fn lexicon(tongue: Tongue) -> &'static Lexicon {
    static ALL: Tables<Lexicon> = Tables::new(texts_beside!(), Lexicon::read);
    ALL.of(tongue)
}

impl Lexicon {
    fn read(text: &'static str) -> Lexicon {
        let table: Table = written(text);
        // A table is read once and kept for the life of the process.
        let table: &'static Table = Box::leak(Box::new(table));
        let list = |text: &'static str| text.split_whitespace();
        let months = numbered(&table.months);
        let weekdays = numbered(&table.weekdays);
        let numbers = numbered(&table.numbers);
        let two_to_ten = numbers.iter().filter(|(_, value)| (2..=10).contains(*value)).map(|(word, _)| *word);
        let quantity = two_to_ten.chain(list(&table.quantity)).collect();
        let time = list(&table.time).chain(months.keys().copied()).chain(weekdays.keys().copied()).collect();
        Lexicon {
            stop: list(&table.stop).collect(),
            first_person: list(&table.first_person).collect(),
            telling: list(&table.telling).collect(),
            months_short: numbered(&table.months_short),
            lemmas: table
                .forms
                .iter()
                .flat_map(|(key, forms)| list(forms).map(move |form| (form, key.as_str())))
                .collect(),
            time,
            quantity,
            numbers,
            months,
            weekdays,
        }
    }

    /// How much a word speaks for this language, before others claim it too.
    fn weight(&self, word: &str) -> f32 {
        let (all, most, some) = (1.0, 0.6, 0.3);
        if self.stop.contains(word) || self.first_person.contains(word) {
            all
        } else if self.time.contains(word) || self.numbers.contains_key(word) || self.telling.contains(word) {
            most
        } else if self.lemmas.contains_key(word) {
            some
        } else {
            0.0
        }
    }
}

fn numbered(names: &'static [String]) -> Numbered {
    let one = |(names, number): (&'static String, u8)| names.split_whitespace().map(move |name| (name, number));
    names.iter().zip(1..).flat_map(one).collect()
}

fn all_evidence() -> HashMap<&'static str, Evidence> {
    let lexicons = Tongue::ALL.map(lexicon);
    let known = lexicons.iter().flat_map(|lexicon| {
        let words = [&lexicon.stop, &lexicon.first_person, &lexicon.time, &lexicon.telling].into_iter().flatten();
        words.chain(lexicon.numbers.keys()).chain(lexicon.lemmas.keys()).copied()
    });
    known.map(|word| (word, shared(lexicons.map(|lexicon| lexicon.weight(word))))).collect()
}

fn shared(weights: [f32; 5]) -> Evidence {
    let claims = weights.iter().filter(|weight| 0.0 < **weight).count().max(1) as f32;
    Evidence { weights: weights.map(|weight| weight / claims) }
}

#[cfg(test)]
mod tests {
    use super::super::words::words;
    use super::*;

    #[track_caller]
    fn check(is: fn(&str, Tongue) -> bool, code: &str, yes: &str, no: &str) {
        let tongue = Tongue::from_code(code).expect("one of the five");
        for word in yes.split_whitespace() {
            assert!(is(word, tongue), "{word} is one in {code}");
        }
        for word in no.split_whitespace() {
            assert!(!is(word, tongue), "{word} is none in {code}");
        }
    }

    #[test]
    fn stop_words() {
        check(is_stop, "en", "the i my whom weren won y before", "live dog all more said");
        check(is_stop, "nl", "de het een ik mijn waar daarvoor", "hond woon huis goed");
        check(is_stop, "de", "der die das ich mein wo dafür", "hund wohne haus");
        check(is_stop, "fr", "le la les j mon où qu", "chien habite maison");
        check(is_stop, "es", "el la los mi dónde donde", "perro vivo casa");
    }

    #[test]
    fn words_of_time() {
        check(is_time_word, "en", "yesterday last week monday may december tonight", "time day first");
        check(is_time_word, "nl", "gisteren vorige week maandag mei vanavond geleden", "tijd eerste");
        check(is_time_word, "de", "gestern letzte woche montag mai", "zeit erste");
        check(is_time_word, "fr", "hier semaine dernière lundi mai", "temps premier");
        check(is_time_word, "es", "ayer semana pasada lunes mayo anoche", "tiempo primero");
    }

    #[test]
    fn words_of_number() {
        check(is_number_word, "en", "two ten few couple once twice", "one eleven many 7");
        check(is_number_word, "nl", "twee tien paar", "een elf veel");
        check(is_number_word, "de", "zwei zehn paar einmal", "eins viele");
        check(is_number_word, "fr", "deux dix quelques", "un beaucoup");
        check(is_number_word, "es", "dos diez par", "uno mucho");
    }

    #[test]
    fn first_person() {
        check(is_first_person, "en", "i my we our", "me you your m");
        check(is_first_person, "nl", "ik mijn wij we onze", "jij hun");
        check(is_first_person, "de", "ich meine wir unser", "du dein");
        check(is_first_person, "fr", "je j ma mes nous notre", "tu ton");
        check(is_first_person, "es", "yo mis nosotros nuestra", "tu su");
    }

    #[test]
    fn months_and_days_have_numbers() {
        for (tongue, august, sunday) in [
            (Tongue::English, "august", "sunday"),
            (Tongue::Dutch, "augustus", "zondag"),
            (Tongue::German, "august", "sonntag"),
            (Tongue::French, "août", "dimanche"),
            (Tongue::Spanish, "agosto", "domingo"),
        ] {
            assert_eq!((month(august, tongue), weekday(sunday, tongue)), (Some(8), Some(7)), "{tongue:?}");
        }
        assert_eq!(month("jan", Tongue::Dutch), None, "a man");
        assert_eq!(month_or_short("jan", Tongue::Dutch), Some(1));
        assert_eq!(number("twaalf", Tongue::Dutch), Some(12));
    }

    #[test]
    fn tables_are_made_of_words_and_forms_lead_to_one_lemma() {
        for tongue in Tongue::ALL {
            let lexicon = lexicon(tongue);
            let sets = [&lexicon.stop, &lexicon.time, &lexicon.quantity, &lexicon.first_person, &lexicon.telling];
            for word in sets.into_iter().flatten().chain(lexicon.lemmas.keys()).chain(lexicon.lemmas.values()) {
                assert_eq!(words(word).collect::<Vec<_>>(), [*word], "{tongue:?}");
            }
            for key in lexicon.lemmas.values() {
                assert!(!lexicon.lemmas.contains_key(key), "{tongue:?}: {key} leads on");
            }
            assert_eq!((lexicon.months.values().max(), lexicon.weekdays.values().max()), (Some(&12), Some(&7)));
        }
        let lemmas: HashSet<&str> = lexicon(Tongue::English).lemmas.values().copied().collect();
        assert_eq!((lexicon(Tongue::English).stop.len(), lemmas.len()), (108, 95));
    }
}
