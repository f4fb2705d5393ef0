//! Products and signs by what came after AVX2: one instruction for four products and their sum, and one that counts bits.
//! Lengths are cut to whole blocks before any load.

use std::arch::x86_64::*;

use super::avx2::blocks_of_word;

const BLOCK: usize = 32;
/// Dimensions of a word's vector: three blocks and a half.
const WORD: usize = 7 * BLOCK / 2;
/// Vectors that are worked on side by side.
const BESIDE: usize = 4;
/// Heads that are compared side by side.
const HEADS: usize = 16;

/// Whether this machine has all that is used here.
pub(super) fn is_there() -> bool {
    std::arch::is_x86_feature_detected!("avx512vnni")
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512vpopcntdq")
        && std::arch::is_x86_feature_detected!("popcnt")
}

pub(super) fn dot(a: &[i8], b: &[i8]) -> i32 {
    // SAFETY: the caller has asked `is_there`, and both slices are of one length, a whole number of blocks.
    super::in_blocks(a, b, BLOCK, |a, b| unsafe { dot_blocks(a.as_ptr(), b.as_ptr(), a.len()) })
}

pub(super) fn dots(one: &[i8], several: &[i8], sums: &mut [i32]) {
    match <&[i8; WORD]>::try_from(one) {
        // SAFETY: the caller has asked `is_there`.
        Ok(word) => unsafe { dots_of_word(word, several, sums) },
        Err(_) => {
            let others = several.chunks_exact(one.len().max(1));
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum = dot(one, other));
        }
    }
}

pub(super) fn heads_within(one: u64, several: &[u64], most: u32) -> Vec<u32> {
    // SAFETY: the caller has asked `is_there`.
    unsafe { near_heads(one, several, most) }
}

/// One side of the products must be without signs: |a| · (b with the sign of a) is the same.
#[inline]
#[target_feature(enable = "avx2,avx512vnni,avx512vl")]
unsafe fn dot_blocks(a: *const i8, b: *const i8, length: usize) -> i32 {
    let mut sum = _mm256_setzero_si256();
    for at in (0..length).step_by(BLOCK) {
        // SAFETY: `at + BLOCK <= length`, and both pointers are good for `length` values; loads may be unaligned.
        let (a, b) = unsafe { (_mm256_loadu_si256(a.add(at).cast()), _mm256_loadu_si256(b.add(at).cast())) };
        sum = _mm256_dpbusd_epi32(sum, _mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
    }
    _mm_cvtsi128_si32(added_up(sum, sum, sum, sum))
}

/// The same for a word, whose vector stays in registers meanwhile.
#[target_feature(enable = "avx2,avx512vnni,avx512vl")]
unsafe fn dots_of_word(word: &[i8; WORD], several: &[i8], sums: &mut [i32]) {
    let signed = blocks_of_word(word);
    let [a, b, c, d] = signed;
    let plain = [_mm256_abs_epi8(a), _mm256_abs_epi8(b), _mm256_abs_epi8(c), _mm256_abs_epi8(d)];
    let product = |other: &[i8; WORD]| {
        let (mut sum, other) = (_mm256_setzero_si256(), blocks_of_word(other));
        for at in 0..4 {
            sum = _mm256_dpbusd_epi32(sum, plain[at], _mm256_sign_epi8(other[at], signed[at]));
        }
        sum
    };
    let (fours, rest) = several.as_chunks::<WORD>().0.as_chunks::<BESIDE>();
    let (sums_of_fours, sums_of_rest) = sums.split_at_mut(BESIDE * fours.len().min(sums.len() / BESIDE));
    for (sums, [a, b, c, d]) in sums_of_fours.as_chunks_mut::<BESIDE>().0.iter_mut().zip(fours) {
        let four = added_up(product(a), product(b), product(c), product(d));
        // SAFETY: there is room for four numbers.
        unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), four) };
    }
    for (sum, other) in sums_of_rest.iter_mut().zip(rest) {
        let single = product(other);
        *sum = _mm_cvtsi128_si32(added_up(single, single, single, single));
    }
}

/// The sums of four times eight numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn added_up(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> __m128i {
    let halves = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves))
}

/// Goes through sixteen at a time. Which are near cannot be foreseen: their numbers are moved together and written down, and so are
/// others behind them, which the next ones are written over.
#[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
fn near_heads(one: u64, several: &[u64], most: u32) -> Vec<u32> {
    let (wanted, limit) = (_mm512_set1_epi64(one as i64), _mm512_set1_epi64(i64::from(most)));
    let near = |heads: &[u64]| {
        // SAFETY: there are eight; loads may be unaligned.
        let heads = unsafe { _mm512_loadu_si512(heads.as_ptr().cast()) };
        _mm512_cmple_epu64_mask(_mm512_popcnt_epi64(_mm512_xor_si512(wanted, heads)), limit)
    };
    let (mut found, mut count) = (Vec::<u32>::with_capacity(several.len() + HEADS), 0);
    let mut numbers = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let (sixteens, rest) = several.as_chunks::<HEADS>();
    for heads in sixteens {
        let (first, second) = heads.split_at(HEADS / 2);
        let near = u16::from(near(first)) | u16::from(near(second)) << (HEADS / 2);
        // SAFETY: no more were found than were gone through, and there is room for sixteen more than there are.
        unsafe {
            _mm512_storeu_si512(found.as_mut_ptr().add(count).cast(), _mm512_maskz_compress_epi32(near, numbers))
        };
        count += near.count_ones() as usize;
        numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(HEADS as i32));
    }
    // SAFETY: so many were written.
    unsafe { found.set_len(count) };
    let before = (several.len() - rest.len()) as u32;
    found.extend(super::plain_heads_within(one, rest, most).into_iter().map(|nth| before + nth));
    found
}
