//! Products and signs by AVX2. Lengths are cut to whole blocks before any load.

use std::arch::x86_64::*;

const BLOCK: usize = 32;
/// Dimensions of a word's vector: three blocks and a half.
const WORD: usize = 7 * BLOCK / 2;

pub(super) fn dot(a: &[i8], b: &[i8]) -> i32 {
    // SAFETY: the caller has found AVX2, and both slices are of one length, a whole number of blocks.
    super::in_blocks(a, b, BLOCK, |a, b| unsafe { dot_blocks(a.as_ptr(), b.as_ptr(), a.len()) })
}

pub(super) fn dots(one: &[i8], several: &[i8], sums: &mut [i32]) {
    match <&[i8; WORD]>::try_from(one) {
        // SAFETY: the caller has found AVX2.
        Ok(word) => unsafe { dots_of_word(word, several, sums) },
        Err(_) => {
            let others = several.chunks_exact(one.len().max(1));
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum = dot(one, other));
        }
    }
}

/// The sums of products of a word's vector with several; it stays in registers meanwhile.
#[target_feature(enable = "avx2")]
unsafe fn dots_of_word(word: &[i8; WORD], several: &[i8], sums: &mut [i32]) {
    let ones = _mm256_set1_epi16(1);
    let signed = blocks_of_word(word);
    let [a, b, c, d] = signed;
    let plain = [_mm256_abs_epi8(a), _mm256_abs_epi8(b), _mm256_abs_epi8(c), _mm256_abs_epi8(d)];
    for (sum, other) in sums.iter_mut().zip(several.as_chunks::<WORD>().0) {
        let (mut products, other) = (_mm256_setzero_si256(), blocks_of_word(other));
        for at in 0..4 {
            let pairs = _mm256_maddubs_epi16(plain[at], _mm256_sign_epi8(other[at], signed[at]));
            products = _mm256_add_epi32(products, _mm256_madd_epi16(pairs, ones));
        }
        *sum = added_up(products);
    }
}

/// A word's vector, the last half of a block with zeros behind it.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn blocks_of_word(word: &[i8; WORD]) -> [__m256i; 4] {
    let at = word.as_ptr();
    // SAFETY: there are three blocks and a half; loads may be unaligned.
    unsafe {
        let half = _mm_loadu_si128(at.add(3 * BLOCK).cast());
        [
            _mm256_loadu_si256(at.cast()),
            _mm256_loadu_si256(at.add(BLOCK).cast()),
            _mm256_loadu_si256(at.add(2 * BLOCK).cast()),
            _mm256_zextsi128_si256(half),
        ]
    }
}

/// The signs of 64 values. This needs nothing but SSE2.
pub(super) fn signs(part: &[i8; 64]) -> u64 {
    let sixteen = |at: usize| {
        // SAFETY: every such machine has SSE2, and there are four times sixteen values; loads may be unaligned.
        let above = unsafe {
            let values = _mm_loadu_si128(part.as_ptr().add(16 * at).cast());
            _mm_movemask_epi8(_mm_cmpgt_epi8(values, _mm_setzero_si128()))
        };
        u64::from(above as u16) << (16 * at)
    };
    sixteen(0) | sixteen(1) | sixteen(2) | sixteen(3)
}

pub(super) fn heads_differing(one: u64, several: &[u64]) -> Vec<u8> {
    // SAFETY: the caller has found POPCNT.
    unsafe { heads_counted(one, several) }
}

pub(super) fn heads_within(one: u64, several: &[u64], most: u32) -> Vec<u32> {
    // SAFETY: the caller has found POPCNT.
    unsafe { near_heads(one, several, most) }
}

pub(super) fn some_heads_differing(one: u64, several: &[u64], those: &[u32]) -> Vec<u8> {
    // SAFETY: the caller has found POPCNT.
    unsafe { some_heads_counted(one, several, those) }
}

/// The plain way, compiled for a processor that counts bits by itself. Loops instead of iterators: what an iterator calls is
/// compiled without these instructions and cannot be put in its place.
#[target_feature(enable = "popcnt")]
fn heads_counted(one: u64, several: &[u64]) -> Vec<u8> {
    let mut counts = Vec::with_capacity(several.len());
    for other in several {
        counts.push((one ^ other).count_ones() as u8);
    }
    counts
}

/// Numbers are written down at once and counted only where they are near: which are cannot be foreseen.
#[target_feature(enable = "popcnt")]
fn near_heads(one: u64, several: &[u64], most: u32) -> Vec<u32> {
    let (mut found, mut count) = (vec![0; several.len()], 0);
    for (other, no) in several.iter().zip(0..) {
        found[count] = no;
        count += usize::from((one ^ other).count_ones() <= most);
    }
    found.truncate(count);
    found
}

#[target_feature(enable = "popcnt")]
fn some_heads_counted(one: u64, several: &[u64], those: &[u32]) -> Vec<u8> {
    let mut counts = Vec::with_capacity(those.len());
    for no in those {
        counts.push((one ^ several[*no as usize]).count_ones() as u8);
    }
    counts
}

/// `maddubs` wants one side without signs: |a| · (b with the sign of a) is the same product, and two such
/// products of at most 127² fit into sixteen bits.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn dot_blocks(a: *const i8, b: *const i8, length: usize) -> i32 {
    let ones = _mm256_set1_epi16(1);
    let mut sum = _mm256_setzero_si256();
    for at in (0..length).step_by(BLOCK) {
        // SAFETY: `at + BLOCK <= length`, and both pointers are good for `length` values; loads may be unaligned.
        let (a, b) = unsafe { (_mm256_loadu_si256(a.add(at).cast()), _mm256_loadu_si256(b.add(at).cast())) };
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
    added_up(sum)
}

/// The sum of eight numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn added_up(sum: __m256i) -> i32 {
    let half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let quarter = _mm_add_epi32(half, _mm_shuffle_epi32::<0b01_00_11_10>(half));
    let single = _mm_add_epi32(quarter, _mm_shuffle_epi32::<0b10_11_00_01>(quarter));
    _mm_cvtsi128_si32(single)
}
