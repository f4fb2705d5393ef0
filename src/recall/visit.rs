//! The context of a visitor's session: its own lines, then what its tenant knows, within the tokens there are.

use jiff::tz::TimeZone;

use super::render::{HEADING_TOKENS_MAX, Page, aside_line};
use super::{Aside, AsideSource, Considered, Fate, Layer, Profile, Recalled};
use crate::id::{EpisodeId, SessionId};
use crate::live::{Summary, merge};
use crate::tokens;

/// Headings that both kinds of lines need at most.
const HEADINGS_MAX: usize = 3;

impl Aside {
    /// What is told of a part of a visitor's session.
    pub(crate) fn told_in_visit(told: &Summary, session: SessionId) -> Self {
        let Summary { level, from, to, first, last, ref text } = *told;
        let id = EpisodeId::beginning(session, level.as_str(), first, from);
        let source = AsideSource::Episode { id, session, level, first, last, from, to };
        Self { source, ..Self::new(Layer::Summary, "", &**text) }
    }
}

impl Recalled {
    /// Packs what a session tells of itself and what its tenant knows. The session's lines choose first.
    pub(crate) fn of_visit(
        own: Vec<Aside>,
        tenant: Vec<Aside>,
        tokens_max: usize,
        zone: &TimeZone,
        session: SessionId,
    ) -> Self {
        if own.is_empty() && tenant.is_empty() {
            return Self::default();
        }
        let weigh = |lines: &[Aside]| -> Vec<usize> {
            lines.iter().map(|line| tokens::count(&aside_line(line, zone, Some(session))) + 1).collect()
        };
        let (own_tokens, tenant_tokens) = (weigh(&own), weigh(&tenant));
        let room = tokens_max.saturating_sub(HEADINGS_MAX * HEADING_TOKENS_MAX);
        let merged = merge(&own_tokens, &tenant_tokens, room);
        let considered = |lines: Vec<Aside>, tokens: Vec<usize>, kept: &[usize]| {
            let fate = |at| if kept.contains(&at) { Fate::Kept } else { Fate::OverBudget };
            let lines = lines.into_iter().zip(tokens).enumerate();
            lines.map(|(at, (aside, tokens))| Considered { aside, fate: fate(at), tokens }).collect::<Vec<_>>()
        };
        let mut asides = considered(own, own_tokens, &merged.session);
        asides.extend(considered(tenant, tenant_tokens, &merged.tenant));
        let page = Page { asides, ..Page::default() };
        let (text, tokens) = (page.render(zone, Some(session)), page.tokens(0));
        let searched = page.asides.len();
        Self { asides: page.asides, text, tokens, profile: Some(Profile::Assistant), searched, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(layer: Layer, texts: &[&str]) -> Vec<Aside> {
        texts.iter().enumerate().map(|(n, text)| Aside::new(layer, n.to_string(), *text)).collect()
    }

    fn told(own: &[&str], tenant: &[&str], tokens_max: usize) -> String {
        let (own, tenant) = (lines(Layer::Summary, own), lines(Layer::Passages, tenant));
        let session = SessionId::ephemeral("acme", "visit");
        Recalled::of_visit(own, tenant, tokens_max, &TimeZone::UTC, session).text
    }

    #[test]
    fn both_are_told_where_there_is_room() {
        let text = told(&["the order is 12345"], &["returns are free for 30 days"], 200);
        assert_eq!(text, "## Documents\n- returns are free for 30 days\n\n## Summaries\n- the order is 12345");
        assert_eq!(told(&[], &[], 200), "");
    }

    /// However much a tenant knows, what the session tells is the same.
    #[test]
    fn a_tenant_never_pushes_the_session_out() {
        let own = ["the order is 12345 and it is late", "the visitor is called Ines and lives in Porto"];
        let knows = vec!["a passage about the returns of chairs and tables"; 50];
        for tokens_max in 0..120 {
            let (alone, beside) = (told(&own, &[], tokens_max), told(&own, &knows, tokens_max));
            for line in own {
                assert_eq!(alone.contains(line), beside.contains(line), "{tokens_max}: {beside}");
            }
            assert!(tokens::count(&beside) <= tokens_max.max(1), "{tokens_max}: {beside}");
        }
    }
}
