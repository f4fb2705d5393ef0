//! Dot products of small whole numbers, as fast as the machine allows.
//!
//! Vectors are kept as one byte per dimension. The sum of products of bytes is a whole number, so the three ways to
//! compute it (AVX2, NEON, plain) give the same result to the last bit, and the fastest is chosen at run time.

/// A vector in bytes: `value = bytes[i] * scale`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bytes {
    pub(crate) bytes: Vec<i8>,
    pub(crate) scale: f32,
}

/// Puts a vector into bytes, its largest value at 127. `None` for a vector of nothing.
pub(crate) fn quantise(vector: &[f32]) -> Option<Bytes> {
    let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return None;
    }
    let scale = largest / 127.0;
    let bytes = vector.iter().map(|value| (value / scale).round() as i8).collect();
    Some(Bytes { bytes, scale })
}

/// The sum of products. Both must be of one length; values lie between -127 and 127.
pub(crate) fn dot(a: &[i8], b: &[i8]) -> i32 {
    debug_assert_eq!(a.len(), b.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return avx2::dot(a, b);
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        return neon::dot(a, b);
    }
    plain_dot(a, b)
}

/// The sums of products of one vector with several, which lie one behind the other.
pub(crate) fn dots(one: &[i8], several: &[i8], sums: &mut [i32]) {
    debug_assert_eq!(one.len() * sums.len(), several.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return avx2::dots(one, several, sums);
    }
    for (sum, other) in sums.iter_mut().zip(several.chunks_exact(one.len().max(1))) {
        *sum = dot(one, other);
    }
}

fn plain_dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

/// Has a value brought from memory, without waiting for it.
#[inline]
pub(crate) fn fetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    prefetch::fetch(value);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// The signs of a vector, one bit each, in words of 64.
pub(crate) fn signs(vector: &[i8]) -> impl Iterator<Item = u64> {
    vector
        .chunks(64)
        .map(|part| part.chunks(8).enumerate().fold(0, |bits, (at, eight)| bits | signs_of(eight) << (8 * at)))
}

/// The signs of up to eight values. What is above zero has its top bit after 127 was added to it, and what is not has none; a
/// product then brings the eight bits together.
fn signs_of(eight: &[i8]) -> u64 {
    let mut bytes = [0_u8; 8];
    bytes.iter_mut().zip(eight).for_each(|(byte, value)| *byte = (*value).max(0) as u8);
    let above = (u64::from_le_bytes(bytes) + 0x7f7f_7f7f_7f7f_7f7f) & 0x8080_8080_8080_8080;
    (above >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// In how many signs every `step`th of several vectors, which lie one behind the other, differs from one, with its number: those
/// that differ in no more than `most`.
pub(crate) fn within(one: &[u64], several: &[u64], step: usize, most: u16) -> Vec<(u16, u32)> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt") {
        return avx2::within(one, several, step, most);
    }
    plain_within(one, several, step, most)
}

#[inline(always)]
fn plain_within(one: &[u64], several: &[u64], step: usize, most: u16) -> Vec<(u16, u32)> {
    let differing = |other: &[u64]| one.iter().zip(other).map(|(a, b)| (a ^ b).count_ones() as u16).sum::<u16>();
    let all = several.chunks_exact(one.len().max(1)).zip(0..).step_by(step);
    all.map(|(other, no)| (differing(other), no)).filter(|(signs, _)| *signs <= most).collect()
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector instructions; lengths are cut to whole blocks before any load")]
mod avx2 {
    use std::arch::x86_64::*;

    const BLOCK: usize = 32;
    /// Dimensions of a word's vector: four blocks.
    const WORD: usize = 4 * BLOCK;

    pub(super) fn dot(a: &[i8], b: &[i8]) -> i32 {
        let length = a.len().min(b.len());
        let whole = length - length % BLOCK;
        // SAFETY: the caller has found AVX2, and both slices hold at least `whole` values.
        let blocks = unsafe { dot_blocks(a.as_ptr(), b.as_ptr(), whole) };
        blocks + super::plain_dot(&a[whole..length], &b[whole..length])
    }

    pub(super) fn dots(one: &[i8], several: &[i8], sums: &mut [i32]) {
        if !one.len().is_multiple_of(BLOCK) {
            let others = several.chunks_exact(one.len().max(1));
            return sums.iter_mut().zip(others).for_each(|(sum, other)| *sum = dot(one, other));
        }
        match <&[i8; WORD]>::try_from(one) {
            // SAFETY: the caller has found AVX2.
            Ok(word) => unsafe { dots_of_word(word, several, sums) },
            // SAFETY: the caller has found AVX2.
            Err(_) => unsafe { dots_blocks(one, several, sums) },
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn dots_blocks(one: &[i8], several: &[i8], sums: &mut [i32]) {
        for (sum, other) in sums.iter_mut().zip(several.chunks_exact(one.len().max(1))) {
            // SAFETY: both are of one length, a whole number of blocks.
            *sum = unsafe { dot_blocks(one.as_ptr(), other.as_ptr(), one.len()) };
        }
    }

    /// The same for a word, whose vector stays in registers meanwhile.
    #[target_feature(enable = "avx2")]
    unsafe fn dots_of_word(word: &[i8; WORD], several: &[i8], sums: &mut [i32]) {
        let ones = _mm256_set1_epi16(1);
        // SAFETY: a word has four blocks; loads may be unaligned.
        let block = |at: usize| unsafe { _mm256_loadu_si256(word.as_ptr().add(at * BLOCK).cast()) };
        let signed = [block(0), block(1), block(2), block(3)];
        let plain = |at: usize| _mm256_abs_epi8(signed[at]);
        let plain = [plain(0), plain(1), plain(2), plain(3)];
        for (sum, other) in sums.iter_mut().zip(several.as_chunks::<WORD>().0) {
            let mut products = _mm256_setzero_si256();
            for at in 0..4 {
                // SAFETY: so has every other.
                let other = unsafe { _mm256_loadu_si256(other.as_ptr().add(at * BLOCK).cast()) };
                let pairs = _mm256_maddubs_epi16(plain[at], _mm256_sign_epi8(other, signed[at]));
                products = _mm256_add_epi32(products, _mm256_madd_epi16(pairs, ones));
            }
            *sum = added_up(products);
        }
    }

    pub(super) fn within(one: &[u64], several: &[u64], step: usize, most: u16) -> Vec<(u16, u32)> {
        // SAFETY: the caller has found AVX2 and POPCNT.
        unsafe { counted(one, several, step, most) }
    }

    /// The plain way, compiled for a processor that counts bits by itself. Loops instead of iterators: what an iterator calls is
    /// compiled without these instructions and cannot be put in its place.
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn counted(one: &[u64], several: &[u64], step: usize, most: u16) -> Vec<(u16, u32)> {
        let Ok(one) = <&[u64; 4]>::try_from(one) else { return super::plain_within(one, several, step, most) };
        // The built-in embedder's.
        let (several, _) = several.as_chunks::<4>();
        let mut found = Vec::new();
        for at in (0..several.len()).step_by(step) {
            let other = &several[at];
            let (first, second) = ((one[0] ^ other[0]).count_ones(), (one[1] ^ other[1]).count_ones());
            let (third, fourth) = ((one[2] ^ other[2]).count_ones(), (one[3] ^ other[3]).count_ones());
            let signs = (first + second + third + fourth) as u16;
            if signs <= most {
                found.push((signs, at as u32));
            }
        }
        found
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
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "a hint to the processor, which reads nothing")]
mod prefetch {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    /// Bytes that come from memory together.
    const LINE: usize = 64;

    #[inline]
    pub(super) fn fetch<T: ?Sized>(value: &T) {
        let start = std::ptr::from_ref(value).cast::<i8>();
        for at in (0..size_of_val(value) + LINE - 1).step_by(LINE) {
            // SAFETY: a hint is good for any address; the last one may lie behind the value, in the line that it ends in.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at)) };
        }
    }
}

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code, reason = "vector instructions; lengths are cut to whole blocks before any load")]
mod neon {
    use std::arch::aarch64::*;

    const BLOCK: usize = 16;

    pub(super) fn dot(a: &[i8], b: &[i8]) -> i32 {
        let length = a.len().min(b.len());
        let whole = length - length % BLOCK;
        // SAFETY: the caller has found NEON, and both slices hold at least `whole` values.
        let blocks = unsafe { dot_blocks(a.as_ptr(), b.as_ptr(), whole) };
        blocks + super::plain_dot(&a[whole..length], &b[whole..length])
    }

    #[target_feature(enable = "neon")]
    unsafe fn dot_blocks(a: *const i8, b: *const i8, length: usize) -> i32 {
        let mut sum = vdupq_n_s32(0);
        for at in (0..length).step_by(BLOCK) {
            // SAFETY: `at + BLOCK <= length`, and both pointers are good for `length` values.
            let (a, b) = unsafe { (vld1q_s8(a.add(at)), vld1q_s8(b.add(at))) };
            sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
            sum = vpadalq_s16(sum, vmull_s8(vget_high_s8(a), vget_high_s8(b)));
        }
        vaddvq_s32(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vector() -> impl Strategy<Value = Vec<i8>> {
        proptest::collection::vec(-127_i8..=127, 0..700)
    }

    proptest! {
        #[test]
        fn every_way_gives_the_same_sum(a in vector(), b in vector()) {
            let length = a.len().min(b.len());
            prop_assert_eq!(dot(&a[..length], &b[..length]), plain_dot(&a[..length], &b[..length]));
        }

        #[test]
        fn several_at_once_are_the_same(one in prop_oneof![vector(), proptest::collection::vec(-127_i8..=127, 128)], count in 0_usize..5) {
            let several: Vec<i8> = (0..count).flat_map(|n| one.iter().map(move |value| value.wrapping_add(n as i8).max(-127))).collect();
            let mut sums = vec![0; count];
            dots(&one, &several, &mut sums);
            for (sum, other) in sums.iter().zip(several.chunks_exact(one.len().max(1))) {
                prop_assert_eq!(*sum, plain_dot(&one, other));
            }
        }

        #[test]
        fn bytes_are_close_to_their_vector(vector in proptest::collection::vec(-1.0_f32..1.0, 1..300)) {
            let Some(bytes) = quantise(&vector) else { return Ok(()) };
            for (value, byte) in vector.iter().zip(&bytes.bytes) {
                prop_assert!((value - f32::from(*byte) * bytes.scale).abs() <= bytes.scale * 0.51);
                prop_assert!(*byte != i8::MIN);
            }
        }

        #[test]
        fn signs_differ_where_they_do(
            one in prop_oneof![vector(), proptest::collection::vec(-127_i8..=127, 256)], count in 0_usize..9,
            step in 1_usize..4, most in 0_u16..300,
        ) {
            let several: Vec<Vec<i8>> = (0..count).map(|n| one.iter().map(|value| value.wrapping_mul(n as i8)).collect()).collect();
            let differing = |other: &Vec<i8>| one.iter().zip(other).filter(|(a, b)| (**a > 0) != (**b > 0)).count() as u16;
            let expected: Vec<(u16, u32)> = several.iter().map(differing).zip(0..).step_by(step)
                .filter(|(signs, _)| *signs <= most).collect();
            let several: Vec<u64> = several.iter().flat_map(|other| signs(other)).collect();
            let one: Vec<u64> = signs(&one).collect();
            if !one.is_empty() {
                prop_assert_eq!(&within(&one, &several, step, most), &expected);
                prop_assert_eq!(plain_within(&one, &several, step, most), expected);
            }
        }
    }

    #[test]
    fn nothing_has_no_bytes() {
        assert_eq!(quantise(&[0.0; 4]), None);
        assert_eq!(quantise(&[f32::NAN, 1.0]).map(|bytes| bytes.bytes), Some(vec![0, 127]));
    }
}
