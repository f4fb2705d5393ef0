//! Products and signs by what came after AVX2: one instruction for four products and their sum, and one that counts bits.
//! Lengths are cut to whole blocks before any load.

use std::arch::x86_64::*;

const BLOCK: usize = 32;
/// Dimensions of a word's vector: four blocks.
const WORD: usize = 4 * BLOCK;
/// Vectors that are worked on side by side.
const BESIDE: usize = 4;
/// Heads that are compared side by side.
const HEADS: usize = 8;

/// Whether this machine has all that is used here.
pub(super) fn is_there() -> bool {
    std::arch::is_x86_feature_detected!("avx512vnni")
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512vpopcntdq")
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
    // SAFETY: a word has four blocks, and so has every other; loads may be unaligned.
    let block = |of: &[i8; WORD], at: usize| unsafe { _mm256_loadu_si256(of.as_ptr().add(at * BLOCK).cast()) };
    let signed = [block(word, 0), block(word, 1), block(word, 2), block(word, 3)];
    let plain = [
        _mm256_abs_epi8(signed[0]),
        _mm256_abs_epi8(signed[1]),
        _mm256_abs_epi8(signed[2]),
        _mm256_abs_epi8(signed[3]),
    ];
    let product = |other: &[i8; WORD]| {
        let mut sum = _mm256_setzero_si256();
        for at in 0..4 {
            sum = _mm256_dpbusd_epi32(sum, plain[at], _mm256_sign_epi8(block(other, at), signed[at]));
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

/// Goes through eight at a time; where none of them is near, nothing else is done about them.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn near_heads(one: u64, several: &[u64], most: u32) -> Vec<u32> {
    let (wanted, limit) = (_mm512_set1_epi64(one as i64), _mm512_set1_epi64(i64::from(most)));
    let mut found = Vec::new();
    let (eights, rest) = several.as_chunks::<HEADS>();
    for (at, heads) in eights.iter().enumerate() {
        // SAFETY: there are eight; loads may be unaligned.
        let heads = unsafe { _mm512_loadu_si512(heads.as_ptr().cast()) };
        let differing = _mm512_popcnt_epi64(_mm512_xor_si512(wanted, heads));
        let mut near = _mm512_cmple_epu64_mask(differing, limit);
        while near != 0 {
            found.push((at * HEADS) as u32 + near.trailing_zeros());
            near &= near - 1;
        }
    }
    let before = (several.len() - rest.len()) as u32;
    found.extend(super::plain_heads_within(one, rest, most).into_iter().map(|nth| before + nth));
    found
}
