//! Pages of long lists.

/// Which part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// Most items.
    pub limit: usize,
    /// The cursor of the last item seen; `None` begins at the start.
    pub after: Option<u64>,
    /// Whether superseded turns are listed too.
    pub superseded: bool,
}

impl PageRequest {
    /// The first `limit` items.
    pub fn first(limit: usize) -> Self {
        Self { limit, after: None, superseded: false }
    }
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<u64>,
}

impl<T> Page<T> {
    /// Cuts a page from one item more than it may hold; each item comes with its cursor.
    pub(crate) fn cut(mut found: Vec<(u64, T)>, limit: usize) -> Self {
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().map(|(cursor, _)| *cursor).filter(|_| more);
        Self { items: found.into_iter().map(|(_, item)| item).collect(), next }
    }
}
