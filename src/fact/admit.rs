//! Whether a proposal becomes a fact. Rules, the same for whoever proposes: patterns or a model.
//!
//! A model may be talked into anything, by a document that it reads and by its own earlier words. So nothing here trusts
//! it: what it proposes must stand in the user's own words, in the first person, and say what it is said to say. What the
//! built-in reads as a statement is one; where it does not, the sentence itself must not speak against it.

use super::directive::{addresses, commands, wishes};
use super::extract::{agrees, stance};
use super::fold::{folded, hides, imitates};
use super::own::{self, Foreign};
use super::{Act, CONFIDENCE_MIN, Category, Heard, IMPORTANCE_MIN, Proposal, Refusal, Status, VALUE_BYTES_MAX, masked};
use crate::language::{Tongue, is_stop, words};

/// Sure enough to hold, not sure enough to contradict: below this a fact is provisional.
pub const ACTIVE_CONFIDENCE_MIN: f64 = 0.7;

/// Words of a value, and of a wish.
const VALUE_WORDS_MAX: usize = 16;
const WISH_WORDS_MAX: usize = 40;

/// Words that somebody may share with the model by chance.
const ECHO_WORDS_MIN: usize = 6;

/// What becomes of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is held, with this status.
    Admit(Status),
    /// It is kept from every prompt until somebody looked at it.
    Quarantine(Refusal),
    /// It is not kept.
    Refuse(Refusal),
}

/// Decides about a proposal by the message that it is said to come from.
pub fn admit(proposal: &Proposal, heard: &Heard<'_>) -> Verdict {
    match judge(proposal, heard) {
        Err(verdict) => verdict,
        Ok(()) if proposal.confidence < ACTIVE_CONFIDENCE_MIN => Verdict::Admit(Status::Provisional),
        Ok(()) => Verdict::Admit(Status::Active),
    }
}

fn judge(proposal: &Proposal, heard: &Heard<'_>) -> Result<(), Verdict> {
    refuse(by_itself(proposal))?;
    let source = Source::find(proposal, heard).map_err(Verdict::Refuse)?;
    if hides(&source.line) || imitates(&source.line) {
        return Err(Verdict::Quarantine(Refusal::InstructionLike));
    }
    refuse(echoed(proposal, heard).then_some(Refusal::OwnWords))?;
    refuse((!is_backed(proposal, &source)).then_some(Refusal::NotSaid))?;
    // Read again only where the sentence speaks against it: mostly it does not.
    if let Some(reason) = stance(&source.line, proposal).filter(|_| !agrees(proposal, heard)) {
        return Err(Verdict::Refuse(reason));
    }
    let is_wish = proposal.key.category != Category::Instruction || wishes(&proposal.quote) || agrees(proposal, heard);
    if is_wish { Ok(()) } else { Err(Verdict::Quarantine(Refusal::InstructionLike)) }
}

fn refuse(reason: Option<Refusal>) -> Result<(), Verdict> {
    reason.map_or(Ok(()), |reason| Err(Verdict::Refuse(reason)))
}

/// What is wrong with a proposal whatever was said.
fn by_itself(proposal: &Proposal) -> Option<Refusal> {
    let is_wish = proposal.key.category == Category::Instruction;
    let words_max = if is_wish { WISH_WORDS_MAX } else { VALUE_WORDS_MAX };
    let empty = proposal.value.trim().is_empty() && proposal.act != Act::End;
    let long = VALUE_BYTES_MAX < proposal.value.len() || words_max < words(&proposal.value).count();
    let commands = match is_wish {
        true => commands(&proposal.value) || commands(&proposal.quote),
        false => commands(&proposal.value) || addresses(&proposal.value),
    };
    let checks = [
        (empty || proposal.quote.trim().is_empty(), Refusal::Empty),
        (long, Refusal::TooLong),
        (masked(&proposal.value) != proposal.value, Refusal::SecretLike),
        (commands, Refusal::InstructionLike),
        (proposal.value.trim_end().ends_with(['?', '？']), Refusal::Question),
        (proposal.confidence.is_nan() || proposal.confidence < CONFIDENCE_MIN, Refusal::LowConfidence),
        (proposal.importance.is_nan() || proposal.importance < IMPORTANCE_MIN, Refusal::Unimportant),
    ];
    checks.into_iter().find(|(is, _)| *is).map(|(_, reason)| reason)
}

/// Where in a message a proposal comes from.
struct Source {
    /// The line, or lines, that hold the quote.
    line: String,
    /// The user's own words, folded.
    own: String,
}

impl Source {
    /// The user's own words that hold the quote, or why there are none.
    fn find(proposal: &Proposal, heard: &Heard<'_>) -> Result<Source, Refusal> {
        let text = own::read_part(heard.text);
        let foreign = own::foreign(text);
        let own_text = own::blanked(text, &foreign);
        // Secrets are masked in quotes before anybody asks.
        let (own, quote) = (folded(&masked(&own_text)), folded(&masked(&proposal.quote)));
        if contains_words(&own, &quote) {
            let line = own_text.lines().find(|line| contains_words(&folded(&masked(line)), &quote));
            return Ok(Source { line: line.unwrap_or(&own_text).to_owned(), own });
        }
        Err(elsewhere(text, &foreign, &quote))
    }
}

/// Why a quote is not the user's: what the part is that holds it.
fn elsewhere(text: &str, foreign: &[Foreign], quote: &str) -> Refusal {
    let holds = |part: &&Foreign| contains_words(&folded(&masked(&text[part.at.clone()])), quote);
    foreign.iter().find(holds).map_or(Refusal::NotSaid, |part| part.why)
}

/// Whether a text contains another as whole words.
fn contains_words(text: &str, part: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    !part.is_empty()
        && text.match_indices(part).any(|(at, _)| {
            let (before, after) = (text[..at].chars().next_back(), text[at + part.len()..].chars().next());
            let inside_start = is_word(before) && is_word(part.chars().next());
            let inside_end = is_word(after) && is_word(part.chars().next_back());
            !inside_start && !inside_end
        })
}

/// Whether the words are the model's, come back by copy and paste.
fn echoed(proposal: &Proposal, heard: &Heard<'_>) -> bool {
    let quote = folded(&proposal.quote);
    ECHO_WORDS_MIN <= words(&quote).count() && heard.echoes.iter().any(|echo| contains_words(&folded(echo), &quote))
}

/// Whether a value stands in what was said: half of its words, of a wish all.
fn is_backed(proposal: &Proposal, source: &Source) -> bool {
    let said: std::collections::HashSet<String> = words(&source.own).map(|word| word.into_owned()).collect();
    let value = folded(&proposal.value);
    let counts = |word: &str| !Tongue::ALL.into_iter().any(|tongue| is_stop(word, tongue));
    let all: Vec<_> = words(&value).filter(|word| counts(word)).collect();
    let found = all.iter().filter(|word| said.contains(&***word)).count();
    let is_wish = proposal.key.category == Category::Instruction;
    if is_wish { found == all.len() } else { all.len() <= 2 * found }
}
