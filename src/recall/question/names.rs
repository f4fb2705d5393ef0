//! Which participants a question names, and the question without them: a name in a question draws every
//! message of that person near, whatever they said.

use std::ops::Range;

use crate::language::{Word, words};

/// Letters by which a longer name is recognised: "Mela" is Melanie, "Mel" might be anybody.
const PREFIX_CHARS: usize = 4;

/// The participants named, by index, and where in the text (an `'s` included).
pub(super) struct Names {
    pub(super) named: Vec<usize>,
    pub(super) at: Vec<Range<usize>>,
}

/// Looks for the participants' names among the words of a question.
///
/// A name is its full self in any case, the first word of a name of several, or a capitalised word that
/// begins with the first four letters of a longer name. A word that is somebody's full name names nobody else.
pub(super) fn names(text: &str, said: &[Word<'_>], participants: &[String]) -> Names {
    let known: Vec<Vec<String>> =
        participants.iter().map(|name| words(name).map(|word| word.into_owned()).collect()).collect();
    let mut found = Names { named: Vec::new(), at: Vec::new() };
    for at in 0..said.len() {
        let full = |name: &[String]| full_length(name, &said[at..]);
        let longest = known.iter().filter_map(|name| full(name)).max();
        let is_capital = text[said[at].at.clone()].starts_with(char::is_uppercase);
        let is_named = |name: &[String]| match longest {
            Some(longest) => full(name) == Some(longest),
            None => is_capital && begins(name, &said[at].text),
        };
        let here: Vec<usize> = (0..known.len()).filter(|who| is_named(&known[*who])).collect();
        if !here.is_empty() {
            let last = &said[at + longest.unwrap_or(1) - 1];
            found.at.push(said[at].at.start..with_s(text, last.at.end));
            found.named.extend(here);
        }
    }
    found.named.sort_unstable();
    found.named.dedup();
    found
}

/// How many words of a name stand here: all of them, or the first.
fn full_length(name: &[String], said: &[Word<'_>]) -> Option<usize> {
    let same = name.iter().zip(said).take_while(|(name, word)| **name == *word.text).count();
    match same {
        0 => None,
        _ if same == name.len() => Some(same),
        _ => Some(1),
    }
}

fn begins(name: &[String], word: &str) -> bool {
    let Some(first) = name.first() else { return false };
    let mut letters = first.char_indices();
    let prefix = letters.nth(PREFIX_CHARS).map(|(end, _)| &first[..end]);
    prefix.is_some_and(|prefix| word.starts_with(prefix))
}

/// The end of a name with its `'s`.
fn with_s(text: &str, end: usize) -> usize {
    let rest = &text[end..];
    let after = rest.strip_prefix(['\'', '’']).and_then(|rest| rest.strip_prefix(['s', 'S']));
    match after {
        Some(after) if !after.starts_with(char::is_alphanumeric) => text.len() - after.len(),
        _ => end,
    }
}
