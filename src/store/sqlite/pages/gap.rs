//! What lies between the places of cells and the cells of a page belongs to nobody. When SQLite divides a page it leaves copies of what
//! moved there, which `secure_delete` does not see when the words themselves go; so nothing leaves with a page that is not on it.

/// Pages of a file from which on the first byte of a list of pages may look like the kind of a tree's page.
const PAGES_TOLD_APART: u32 = 0x0200_0000;

/// Whether the pages of trees can be told from all others by their first byte: by the head of the file. Maps of pages, which files of
/// ours do not have, would look alike.
pub(super) fn can_tell(head: &[u8]) -> bool {
    let number =
        |at: usize| head.get(at..at + 4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    number(28).is_some_and(|pages| pages < PAGES_TOLD_APART) && number(52) == Some(0)
}

/// Blanks what belongs to nobody. A page that is not of a tree, or that does not look as it should, stays as it is.
pub(super) fn blank(page: &mut [u8], number: u32) {
    if let Some(gap) = gap(page, number).and_then(|gap| page.get_mut(gap)) {
        gap.fill(0);
    }
}

fn gap(page: &[u8], number: u32) -> Option<std::ops::Range<usize>> {
    let at = if number == 1 { super::sum::HEAD_BYTES } else { 0 };
    let head_bytes = match page.get(at)? {
        2 | 5 => 12,
        10 | 13 => 8,
        _ => return None,
    };
    let two = |at: usize| Some(usize::from(u16::from_be_bytes([*page.get(at)?, *page.get(at + 1)?])));
    let begin = at + head_bytes + 2 * two(at + 3)?;
    // In the largest pages the end may be one more than two bytes can say.
    let end = match two(at + 5)? {
        0 => 65_536,
        end => end,
    };
    (begin <= end && end <= page.len()).then_some(begin..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leaf with two cells, the last of which begins at 900, and words in between.
    fn leaf(kind: u8) -> Vec<u8> {
        let mut page = vec![b'x'; 1_024];
        page[0] = kind;
        page[3..5].copy_from_slice(&2_u16.to_be_bytes());
        page[5..7].copy_from_slice(&900_u16.to_be_bytes());
        page
    }

    #[test]
    fn nothing_is_left_between_places_and_cells() {
        for (kind, begin) in [(10, 12), (13, 12), (2, 16), (5, 16)] {
            let (mut page, before) = (leaf(kind), leaf(kind));
            blank(&mut page, 7);
            assert!(page[begin..900].iter().all(|byte| *byte == 0));
            assert_eq!((&page[..begin], &page[900..]), (&before[..begin], &before[900..]), "the rest stays");
        }
        let mut first = leaf(13);
        blank(&mut first, 1);
        assert_eq!(first, leaf(13), "the first page begins with the head of the file");
    }

    #[test]
    fn what_is_no_page_of_a_tree_stays() {
        for kind in [0, 1, 3, 7, 255] {
            let mut page = leaf(kind);
            blank(&mut page, 7);
            assert_eq!(page, leaf(kind));
        }
        let mut wrong = leaf(13);
        wrong[5..7].copy_from_slice(&5_u16.to_be_bytes());
        let before = wrong.clone();
        blank(&mut wrong, 7);
        assert_eq!(wrong, before, "cells before their places");
    }

    #[test]
    fn a_head_says_whether_pages_can_be_told_apart() {
        let mut head = [0; 100];
        assert!(can_tell(&head));
        head[28] = 2;
        assert!(!can_tell(&head), "too many pages");
        (head[28], head[55]) = (1, 1);
        assert!(!can_tell(&head), "maps of pages");
        assert!(!can_tell(&head[..50]));
    }
}
