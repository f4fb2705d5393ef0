//! The sum of a page, and what the head of a file says about its pages.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes at the end of each page that are the sum's.
pub(super) const SUM_BYTES: usize = 8;

/// Bytes of the head of a file.
pub(super) const HEAD_BYTES: usize = 100;

/// The smallest page, and the one that files of ours have.
pub(super) const PAGE_BYTES_MIN: usize = 512;
const PAGE_BYTES: usize = 4_096;

/// What every file of SQLite begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The sum of a page without its last bytes. The number is in it, so that a page in another's place is damage, too.
pub(super) fn of(content: &[u8], page: u32) -> [u8; SUM_BYTES] {
    xxh3_64_with_seed(content, u64::from(page)).to_le_bytes()
}

/// Whether a page is what was written.
pub(super) fn is_right(page: &[u8], number: u32) -> bool {
    let Some((content, sum)) = page.split_last_chunk::<SUM_BYTES>() else { return false };
    *sum == of(content, number)
}

/// The number of the page that is read or written as a whole; none if it is something else.
pub(super) fn page_at(offset: i64, bytes: usize) -> Option<u32> {
    if bytes < PAGE_BYTES_MIN || !bytes.is_power_of_two() {
        return None;
    }
    let (offset, bytes) = (u64::try_from(offset).ok()?, bytes as u64);
    if offset.is_multiple_of(bytes) { u32::try_from(offset / bytes + 1).ok() } else { None }
}

/// Whether the head of a file says that its pages have sums.
pub(super) fn has_sums(head: &[u8]) -> bool {
    head.starts_with(MAGIC) && head.get(20).is_some_and(|reserved| usize::from(*reserved) == SUM_BYTES)
}

/// How large the pages of a file are, by its head; a head that says nothing of use is damaged, and ours.
pub(super) fn page_bytes(head: &[u8]) -> usize {
    let told = match head.get(16..18) {
        Some([0, 1]) => 65_536,
        Some([high, low]) => usize::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    };
    if told >= PAGE_BYTES_MIN && told.is_power_of_two() { told } else { PAGE_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u32) -> Vec<u8> {
        let mut page = vec![b'x'; 1_024];
        let at = page.len() - SUM_BYTES;
        let sum = of(&page[..at], number);
        page[at..].copy_from_slice(&sum);
        page
    }

    #[test]
    fn a_page_is_right_in_its_place_alone() {
        assert!(is_right(&page(7), 7));
        assert!(!is_right(&page(7), 8), "in another's place");
        assert!(!is_right(&[0; 1_024], 7), "never written");
        assert!(!is_right(&[], 7));
        for bit in 0..1_024 * 8 {
            let mut page = page(7);
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_right(&page, 7), "bit {bit}");
        }
    }

    #[test]
    fn whole_pages_are_told_from_the_rest() {
        assert_eq!(page_at(0, 4_096), Some(1));
        assert_eq!(page_at(8_192, 4_096), Some(3));
        assert_eq!(page_at(0, HEAD_BYTES), None);
        assert_eq!(page_at(24, 16), None);
        assert_eq!(page_at(100, 4_096), None);
        assert_eq!(page_at(-4_096, 4_096), None);
    }

    #[test]
    fn a_head_says_how_pages_are() {
        let mut head = [0; HEAD_BYTES];
        assert!(!has_sums(&head) && page_bytes(&head) == 4_096);
        head[..16].copy_from_slice(MAGIC);
        head[16..18].copy_from_slice(&[0x20, 0]);
        assert!(!has_sums(&head) && page_bytes(&head) == 8_192);
        head[20] = 8;
        assert!(has_sums(&head));
        head[16..18].copy_from_slice(&[0, 1]);
        assert_eq!(page_bytes(&head), 65_536);
        head[16..18].copy_from_slice(&[0x11, 0]);
        assert_eq!(page_bytes(&head), 4_096);
    }
}
