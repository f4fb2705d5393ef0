//! What a mistyped name may have been meant to be.

/// The known name nearest to a mistyped one, if it is near enough to be meant.
pub fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|candidate| (distance(name, candidate), candidate)).min()?;
    (near.0 <= 2 + name.len() / 5).then_some(near.1)
}

/// How many letters must change to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_meant() {
        let known = || ["listen", "ttl", "context_messages"].into_iter();
        assert_eq!(closest("contxt_mesages", known()), Some("context_messages"));
        assert_eq!(closest("ttl_", known()), Some("ttl"));
        assert_eq!(closest("something else", known()), None);
    }
}
