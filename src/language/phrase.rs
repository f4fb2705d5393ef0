//! Phrases: patterns over words, for tables that say how people ask.
//!
//! | written | matches |
//! | --- | --- |
//! | `did\|have i` | one of the words, then the next |
//! | `[please]`, `[a\|the]` | the same or nothing |
//! | `summar*` | a word that begins so |
//! | `*`, `[*]` | any word; any word or nothing |
//! | `...` | up to eight words |
//! | `^`, `$` | the beginning, the end |

/// The words that `...` may stand for.
const GAP_WORDS_MAX: usize = 8;

/// One pattern.
#[derive(Debug, Clone)]
pub struct Phrase {
    parts: Vec<Part>,
    begins: Letters,
}

/// What words may begin with: a bit for each plain letter, one for everything else. Most phrases are told from the word at hand
/// by that, without comparing any.
#[derive(Debug, Clone, Copy)]
struct Letters(u32);

impl Letters {
    const ANY: Self = Self(u32::MAX);

    fn of(word: &str) -> Self {
        match word.bytes().next() {
            Some(letter @ b'a'..=b'z') => Self(1 << (letter - b'a')),
            _ => Self(1 << 31),
        }
    }

    /// What a match of these parts may begin with, if it has a word.
    fn before(parts: &[Part]) -> Self {
        match parts.split_first() {
            Some((Part::One(forms), _)) => Self::of_any(forms),
            Some((Part::Maybe(forms), rest)) => Self(Self::of_any(forms).0 | Self::before(rest).0),
            Some((Part::Start, rest)) => Self::before(rest),
            Some((Part::Gap | Part::End, _)) | None => Self::ANY,
        }
    }

    fn of_any(forms: &[Form]) -> Self {
        let letters = forms.iter().map(|form| match form {
            Form::Beginning(text) if text.is_empty() => Self::ANY,
            Form::Whole(text) | Form::Beginning(text) => Self::of(text),
        });
        letters.fold(Self(0), |all, next| Self(all.0 | next.0))
    }

    fn have(self, word: Self) -> bool {
        self.0 & word.0 != 0
    }
}

#[derive(Debug, Clone)]
enum Part {
    One(Vec<Form>),
    Maybe(Vec<Form>),
    Gap,
    Start,
    End,
}

#[derive(Debug, Clone)]
enum Form {
    Whole(Box<str>),
    Beginning(Box<str>),
}

impl Phrase {
    /// Reads a pattern as written in the table above.
    pub fn read(pattern: &str) -> Phrase {
        let part = |text: &str| match text {
            "^" => Part::Start,
            "$" => Part::End,
            "..." => Part::Gap,
            _ => match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
                Some(inside) => Part::Maybe(forms(inside)),
                None => Part::One(forms(text)),
            },
        };
        let parts: Vec<Part> = pattern.split_whitespace().map(part).collect();
        Phrase { begins: Letters::before(&parts), parts }
    }

    /// Where matches that begin at word `at` may end, the longest first. A phrase of which every word may be missing matches
    /// nothing, too.
    pub fn ends_at<W: AsRef<str>>(&self, words: &[W], at: usize) -> Vec<usize> {
        let mut found = Vec::new();
        ends(&self.parts, words, at, &mut found);
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.dedup();
        found
    }

    /// Where the longest match that begins at word `at` ends; a match has at least one word.
    pub fn end_at<W: AsRef<str>>(&self, words: &[W], at: usize) -> Option<usize> {
        let begins = words.get(at).is_some_and(|word| self.begins.have(Letters::of(word.as_ref())));
        if begins { end(&self.parts, words, at).filter(|end| at < *end) } else { None }
    }
}

fn forms(text: &str) -> Vec<Form> {
    let form = |text: &str| match text.strip_suffix('*') {
        Some(beginning) => Form::Beginning(beginning.into()),
        None => Form::Whole(text.into()),
    };
    text.split('|').map(form).collect()
}

fn end<W: AsRef<str>>(parts: &[Part], words: &[W], at: usize) -> Option<usize> {
    let Some((part, rest)) = parts.split_first() else {
        return Some(at);
    };
    part.steps(words, at).filter_map(|next| end(rest, words, next)).max()
}

fn ends<W: AsRef<str>>(parts: &[Part], words: &[W], at: usize, found: &mut Vec<usize>) {
    match parts.split_first() {
        None => found.push(at),
        Some((part, rest)) => part.steps(words, at).for_each(|next| ends(rest, words, next, found)),
    }
}

impl Part {
    /// Where the words behind this part may begin.
    fn steps<W: AsRef<str>>(&self, words: &[W], at: usize) -> std::ops::Range<usize> {
        let taken = |forms: &[Form]| words.get(at).is_some_and(|word| forms.iter().any(|form| form.is(word.as_ref())));
        match self {
            Part::One(forms) if taken(forms) => at + 1..at + 2,
            Part::Maybe(forms) if taken(forms) => at..at + 2,
            Part::Maybe(_) => at..at + 1,
            Part::Gap => at..words.len().min(at + GAP_WORDS_MAX) + 1,
            Part::Start if at == 0 => at..at + 1,
            Part::End if at == words.len() => at..at + 1,
            Part::One(_) | Part::Start | Part::End => at..at,
        }
    }
}

impl Form {
    fn is(&self, word: &str) -> bool {
        match self {
            Form::Whole(text) => **text == *word,
            Form::Beginning(text) => word.starts_with(&**text),
        }
    }
}

/// Patterns of which any may match.
#[derive(Debug, Clone, Default)]
pub struct Phrases {
    all: Vec<Phrase>,
}

impl Phrases {
    /// Reads a list of patterns.
    pub fn read<P: AsRef<str>>(patterns: &[P]) -> Phrases {
        Phrases { all: patterns.iter().map(|pattern| Phrase::read(pattern.as_ref())).collect() }
    }

    /// Where the longest match that begins at word `at` ends.
    pub fn end_at<W: AsRef<str>>(&self, words: &[W], at: usize) -> Option<usize> {
        self.all.iter().filter_map(|phrase| phrase.end_at(words, at)).max()
    }

    /// Whether one of them is somewhere in the words.
    pub fn are_in<W: AsRef<str>>(&self, words: &[W]) -> bool {
        (0..words.len()).any(|at| self.all.iter().any(|phrase| phrase.end_at(words, at).is_some()))
    }

    /// The matches from left to right, none overlapping, each as long as can be.
    pub fn found<W: AsRef<str>>(&self, words: &[W]) -> Vec<std::ops::Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            match self.end_at(words, at) {
                Some(end) => {
                    found.push(at..end);
                    at = end;
                }
                None => at += 1,
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matches, joined by `+`.
    #[track_caller]
    fn check(patterns: &[&str], text: &str, expected: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        let found = Phrases::read(patterns).found(&words);
        let found: Vec<String> = found.into_iter().map(|range| words[range].join(" ")).collect();
        assert_eq!(found.join(" + "), expected, "{patterns:?} in {text}");
    }

    #[test]
    fn words_and_their_alternatives() {
        check(&["did|have i"], "what did i say and have i gone", "did i + have i");
        check(&["did i"], "did we", "");
    }

    #[test]
    fn words_that_may_be_missing() {
        check(
            &["can you [please] [tell|show] [me]"],
            "can you tell me and can you please go",
            "can you tell me + can you please",
        );
        check(&["a [b] b"], "a b", "a b");
        check(&["[a] [b]"], "c", "");
    }

    #[test]
    fn beginnings_and_any_words() {
        check(&["summar*"], "a summary to summarise", "summary + summarise");
        check(&["in our [*] chats"], "in our many chats or in our chats", "in our many chats + in our chats");
        check(&["how did ... change"], "how did my taste in music change", "how did my taste in music change");
        check(&["how ... change"], "how a b c d e f g h i change", "");
    }

    #[test]
    fn ends() {
        check(&["^ when"], "when and when", "when");
        check(&["that $"], "that is that", "that");
    }

    #[test]
    fn all_ends_are_told() {
        let words = ["play", "the", "old", "harp"];
        assert_eq!(Phrase::read("play [*] [*]").ends_at(&words, 0), [3, 2, 1]);
        assert_eq!(Phrase::read("[a]").ends_at(&words, 0), [0]);
        assert!(Phrase::read("sing").ends_at(&words, 0).is_empty());
    }

    #[test]
    fn the_longest_wins() {
        check(&["so", "so far", "far"], "so far so good", "so far + so");
    }
}
