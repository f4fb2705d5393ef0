//! Options as lines of a list.

use std::collections::BTreeMap;

use super::tell::DETAILS;
use super::{ChoiceOption, LABEL_CHARS_MAX};

/// Longest item that is a thing to choose and no paragraph.
const ITEM_CHARS_MAX: usize = 80;

/// The last list of a text, with what stands around it.
#[derive(Debug)]
pub(super) struct List<'a> {
    /// The line before it.
    pub(super) intro: Option<&'a str>,
    items: Vec<&'a str>,
    /// The lines behind it.
    pub(super) behind: &'a [&'a str],
}

/// How an item is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Number(u32),
    Letter(char),
    Bullet,
}

impl Mark {
    /// Whether an item with this mark comes after one with the other.
    fn follows(self, before: Self) -> bool {
        match (before, self) {
            (Self::Number(a), Self::Number(b)) => b == a + 1,
            (Self::Letter(a), Self::Letter(b)) => b as u32 == a as u32 + 1,
            (Self::Bullet, Self::Bullet) => true,
            _ => false,
        }
    }

    fn may_be_first(self) -> bool {
        matches!(self, Self::Number(0 | 1) | Self::Letter('a') | Self::Bullet)
    }
}

/// The last list of these lines, if it has two items or more.
pub(super) fn last_list<'a>(lines: &'a [&'a str]) -> Option<List<'a>> {
    let (mut run, mut last): (Vec<(usize, Mark, &str)>, Option<Vec<_>>) = (Vec::new(), None);
    for (at, line) in lines.iter().enumerate() {
        let depth = indent(line);
        let outer = run.first().map(|(at, ..)| indent(lines[*at]));
        match item(line) {
            // What is indented further belongs to the item above.
            _ if outer.is_some_and(|outer| depth > outer) => {}
            Some((mark, _))
                if run.last().is_some_and(|(_, before, _)| !mark.follows(*before)) && !mark.may_be_first() =>
            {
                run.clear();
            }
            Some((mark, text)) => {
                if run.last().is_some_and(|(_, before, _)| !mark.follows(*before)) {
                    run.clear();
                }
                if !run.is_empty() || mark.may_be_first() {
                    run.push((at, mark, text));
                }
                if run.len() > 1 {
                    last = Some(run.clone());
                }
            }
            None if line.trim().is_empty() => {}
            None => run.clear(),
        }
    }
    let items = last?;
    let (first, end) = (items.first()?.0, items.last()?.0 + 1);
    let deeper = |line: &&&str| indent(line) > indent(lines[first]) && !line.trim().is_empty();
    let end = end + lines[end..].iter().take_while(deeper).count();
    let intro = lines[..first].iter().rev().find(|line| !line.trim().is_empty()).copied();
    let behind = &lines[end..];
    Some(List { intro, items: items.into_iter().map(|(_, _, text)| text).collect(), behind })
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The mark of a line and what follows it.
fn item(line: &str) -> Option<(Mark, &str)> {
    let line = line.trim();
    let bullet = line.strip_prefix(['-', '*', '•', '–', '·', '▪', '◦']).filter(|rest| rest.starts_with([' ', '\t']));
    if let Some(rest) = bullet {
        return Some((Mark::Bullet, rest.trim()));
    }
    // `**1. Tea**` is marked as `1. Tea` is.
    let open = line.trim_start_matches('*');
    let bold = line.len() - open.len();
    let (mark, rest) = marked(open.trim_start_matches('('))?;
    let rest = if bold > 0 { rest.trim_end_matches('*') } else { rest };
    rest.contains(char::is_alphanumeric).then(|| (mark, rest.trim()))
}

/// `1.`, `1)`, `a)`, `B.`, `1:`, and a blank behind it.
pub(super) fn is_marked(text: &str) -> Option<&str> {
    marked(text.trim_start_matches('(')).map(|(_, rest)| rest.trim())
}

fn marked(text: &str) -> Option<(Mark, &str)> {
    let end = text.find(['.', ')', ':'])?;
    let (name, rest) = (&text[..end], &text[end + 1..]);
    let mark = match (name.parse::<u32>(), name.chars().next()) {
        (Ok(number), _) if name.len() <= 2 => Mark::Number(number),
        (_, Some(letter)) if name.len() == 1 && letter.is_ascii_alphabetic() => {
            Mark::Letter(letter.to_ascii_lowercase())
        }
        _ => return None,
    };
    rest.starts_with([' ', '\t', '*']).then_some((mark, rest))
}

impl List<'_> {
    /// The items as options; `None` when one of them is nothing to choose.
    pub(super) fn options(&self) -> Option<Vec<ChoiceOption>> {
        self.items.iter().map(|item| option(item)).collect()
    }
}

/// An item's name and what is said of it behind a dash or colon.
fn option(item: &str) -> Option<ChoiceOption> {
    if item.trim_end().ends_with(['?', '？']) {
        return None;
    }
    let cut = [" - ", " – ", " — ", ": ", ":** ", "** "].iter().filter_map(|mark| Some((item.find(mark)?, mark.len())));
    let (label, details) = match cut.min() {
        Some((at, length)) => (&item[..at], &item[at + length..]),
        None => (item, ""),
    };
    let label = plain(label);
    let details: String = plain(details).chars().take(LABEL_CHARS_MAX).collect();
    let fits = !label.is_empty() && label.chars().count() <= ITEM_CHARS_MAX;
    let known = (!details.is_empty()).then(|| (DETAILS.to_owned(), details));
    fits.then(|| ChoiceOption { label, attributes: BTreeMap::from_iter(known) })
}

/// A text without marks that set it off, and without a point at its end.
pub(super) fn plain(text: &str) -> String {
    let text: String =
        text.chars().filter(|c| !matches!(c, '*' | '_' | '`' | '"' | '“' | '”' | '„' | '«' | '»')).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.trim_matches(|c: char| {
        matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '-' | '–' | '—' | '¿' | '‘' | '’' | ' ')
    });
    text.trim_matches('\'').to_owned()
}
