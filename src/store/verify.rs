//! What a look through everything that is kept comes to.

/// Most problems that are told one by one.
const PROBLEMS_MAX: usize = 100;

/// What was looked at, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many of each kind were looked at.
    pub looked_at: Vec<(String, u64)>,
    /// What is damaged, a sentence each.
    pub problems: Vec<String>,
    /// Problems beyond those that are told.
    pub problems_more: u64,
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.problems.is_empty()
    }

    /// Notes that something is damaged.
    pub(super) fn problem(&mut self, told: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(told.into());
        } else {
            self.problems_more += 1;
        }
    }

    /// Puts what was seen last before the rest: it is what the rest follows from.
    pub(super) fn problems_first(&mut self, told: impl Iterator<Item = String>) {
        let rest = std::mem::take(&mut self.problems);
        told.chain(rest).for_each(|problem| self.problem(problem));
    }

    /// Notes how much was looked at; what was looked at in parts is added up.
    pub(super) fn looked(&mut self, what: &str, count: u64) {
        match self.looked_at.iter_mut().find(|(known, _)| known == what) {
            Some((_, so_far)) => *so_far += count,
            None => self.looked_at.push((what.to_owned(), count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_bounded_and_counts_add_up() {
        let mut found = Findings::default();
        assert!(found.is_well());
        (0..PROBLEMS_MAX + 7).for_each(|n| found.problem(n.to_string()));
        assert_eq!((found.problems.len(), found.problems_more), (PROBLEMS_MAX, 7));
        found.looked("turns", 2);
        found.looked("turns", 3);
        assert_eq!(found.looked_at, [("turns".to_owned(), 5)]);
    }
}
