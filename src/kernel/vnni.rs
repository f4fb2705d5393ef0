//! Products and signs by what came after AVX2: one instruction for four products and their sum, and one that counts bits.
//! Lengths are cut to whole blocks before any load.

use std::arch::x86_64::*;

const BLOCK: usize = 32;
/// Dimensions of a word's vector: four blocks.
const WORD: usize = 4 * BLOCK;
/// Vectors that are worked on side by side.
const BESIDE: usize = 4;
/// Words of the signs of the built-in embedder's vectors.
const SIGNS: usize = 4;

/// Whether this machine has all that is used here.
pub(super) fn is_there() -> bool {
    std::arch::is_x86_feature_detected!("avx512vnni")
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

pub(super) fn within(one: &[u64], several: &[u64], most: u16) -> Vec<(u16, u32)> {
    match <&[u64; SIGNS]>::try_from(one) {
        // SAFETY: the caller has asked `is_there`.
        Ok(one) => unsafe { signs_within(one, several.as_chunks().0, most) },
        Err(_) => super::plain_within(one, several, most),
    }
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

/// Goes through four vectors at a time; where none of them is near, nothing else is done about them.
#[target_feature(enable = "avx2,avx512vl,avx512vpopcntdq")]
unsafe fn signs_within(one: &[u64; SIGNS], several: &[[u64; SIGNS]], most: u16) -> Vec<(u16, u32)> {
    // SAFETY: both have four words; loads may be unaligned.
    let load = |of: &[u64; SIGNS]| unsafe { _mm256_loadu_si256(of.as_ptr().cast()) };
    let (wanted, limit) = (load(one), _mm256_set1_epi64x(i64::from(most)));
    let count = |other: &[u64; SIGNS]| _mm256_popcnt_epi64(_mm256_xor_si256(wanted, load(other)));
    let pairs = |a: __m256i, b: __m256i| _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let mut found = Vec::new();
    let (fours, rest) = several.as_chunks::<BESIDE>();
    for (at, [a, b, c, d]) in fours.iter().enumerate() {
        let (ab, cd) = (pairs(count(a), count(b)), pairs(count(c), count(d)));
        let sums =
            _mm256_add_epi64(_mm256_permute2x128_si256::<0x20>(ab, cd), _mm256_permute2x128_si256::<0x31>(ab, cd));
        let near = _mm256_cmple_epu64_mask(sums, limit);
        if near != 0 {
            let mut differing = [0_u64; BESIDE];
            // SAFETY: there is room for four numbers.
            unsafe { _mm256_storeu_si256(differing.as_mut_ptr().cast(), sums) };
            let those = (0..BESIDE).filter(|nth| near >> nth & 1 == 1);
            found.extend(those.map(|nth| (differing[nth] as u16, (at * BESIDE + nth) as u32)));
        }
    }
    let before = (several.len() - rest.len()) as u32;
    let rest = super::plain_within(one, rest.as_flattened(), most);
    found.extend(rest.into_iter().map(|(differing, nth)| (differing, before + nth)));
    found
}
