//! For tests: statements that forgot to say whose rows they mean, one at a time.

use std::sync::Mutex;
use std::sync::PoisonError;

/// Which statement is robbed of its tenant, and all that have one.
#[derive(Debug, Default)]
pub(in crate::store) struct Blind {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: Vec<String>,
    which: Option<usize>,
}

impl Blind {
    /// How many different statements named a tenant so far.
    pub(in crate::store) fn seen(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).seen.len()
    }

    /// Robs this one from now on; answers what it says.
    pub(in crate::store) fn rob(&self, which: Option<usize>) -> String {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.which = which;
        which.and_then(|which| state.seen.get(which).cloned()).unwrap_or_default()
    }

    /// A statement as it is asked.
    pub(super) fn asked(&self, sql: &str) -> String {
        let robbed = without_tenant(sql);
        if robbed == sql {
            return robbed;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.seen.iter().position(|seen| seen == sql);
        let at = known.unwrap_or_else(|| {
            state.seen.push(sql.to_owned());
            state.seen.len() - 1
        });
        if state.which == Some(at) { robbed } else { sql.to_owned() }
    }
}

/// Every `tenant = ?1` becomes something that is always so.
fn without_tenant(sql: &str) -> String {
    let (mut told, mut rest) = (String::new(), sql);
    while let Some(at) = ["tenant = ?", "home = ?"].iter().filter_map(|word| rest.find(word)).min() {
        let before = rest[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let value = at + rest[at..].find('?').unwrap_or_default();
        let digits = rest[value + 1..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| value + 1 + end);
        told.push_str(before);
        told.push_str(&format!("{}::text <> ''", &rest[value..digits]));
        rest = &rest[digits..];
    }
    told + rest
}

#[test]
fn a_statement_is_robbed_of_its_tenant_and_of_nothing_else() {
    let sql = "SELECT 1 FROM s WHERE s.tenant = ?12 AND user = ?2 OR home = ?1";
    assert_eq!(without_tenant(sql), "SELECT 1 FROM s WHERE ?12::text <> '' AND user = ?2 OR ?1::text <> ''");
    assert_eq!(without_tenant("DELETE FROM t WHERE key = ?1"), "DELETE FROM t WHERE key = ?1");
}
