//! A session's own lines before its tenant's: what was said in it is never pushed out by what its tenant knows.

/// What is laid before the model, as places in what was offered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Merged {
    /// Lines of the session that are told.
    pub session: Vec<usize>,
    /// Lines of its tenant that are told.
    pub tenant: Vec<usize>,
    /// Tokens that are left.
    pub left: usize,
}

/// Takes what fits, each list in its order, by the tokens of its lines. The session's lines choose first; its tenant's
/// take the room that they leave.
pub fn merge(session: &[usize], tenant: &[usize], tokens_max: usize) -> Merged {
    let mut left = tokens_max;
    let session = take(session, &mut left);
    let tenant = take(tenant, &mut left);
    Merged { session, tenant, left }
}

fn take(lines: &[usize], left: &mut usize) -> Vec<usize> {
    let mut taken = Vec::new();
    for (at, tokens) in lines.iter().enumerate() {
        if let Some(rest) = left.checked_sub(*tokens) {
            *left = rest;
            taken.push(at);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_session_chooses_first() {
        let merged = merge(&[40, 50, 30], &[20, 10], 100);
        assert_eq!((merged.session, merged.tenant, merged.left), (vec![0, 1], vec![1], 0));
    }

    proptest! {
        /// Whatever a tenant knows, however much: the session's lines are those that would be told without it.
        #[test]
        fn tenant_memories_never_push_session_lines_out(
            session in prop::collection::vec(0usize..500, 0..40), tenant in prop::collection::vec(0usize..500, 0..200),
            tokens_max in 0usize..4_000,
        ) {
            let merged = merge(&session, &tenant, tokens_max);
            prop_assert_eq!(&merged.session, &merge(&session, &[], tokens_max).session);
            let spent = |lines: &[usize], taken: &[usize]| taken.iter().map(|at| lines[*at]).sum::<usize>();
            let all = spent(&session, &merged.session) + spent(&tenant, &merged.tenant);
            prop_assert_eq!(all + merged.left, tokens_max);
        }
    }
}
