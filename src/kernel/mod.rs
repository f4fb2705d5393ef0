//! Dot products of small whole numbers, as fast as the machine allows.
//!
//! Vectors are kept as one byte per dimension. The sum of products of bytes is a whole number, so all ways to compute it (AVX2,
//! the instructions after it, NEON, plain) give the same result to the last bit, and the fastest is chosen at run time.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector instructions; lengths are cut to whole blocks before any load")]
mod avx2;
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code, reason = "vector instructions; lengths are cut to whole blocks before any load")]
mod neon;
#[allow(unsafe_code, reason = "bytes that lie one behind the other are read as one slice")]
mod rows;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector instructions; lengths are cut to whole blocks before any load")]
mod vnni;

pub(crate) use rows::Rows;

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
    if vnni::is_there() {
        return vnni::dot(a, b);
    }
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
    if vnni::is_there() {
        return vnni::dots(one, several, sums);
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return avx2::dots(one, several, sums);
    }
    for (sum, other) in sums.iter_mut().zip(several.chunks_exact(one.len().max(1))) {
        *sum = dot(one, other);
    }
}

/// The sum of products: whole blocks as the machine does them, what is left over plainly.
fn in_blocks(a: &[i8], b: &[i8], block: usize, blocks: impl FnOnce(&[i8], &[i8]) -> i32) -> i32 {
    let length = a.len().min(b.len());
    let whole = length - length % block;
    blocks(&a[..whole], &b[..whole]) + plain_dot(&a[whole..length], &b[whole..length])
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

/// The signs of a vector, one bit each, in words of 64: whether a value is above zero.
pub(crate) fn signs(vector: &[i8]) -> impl Iterator<Item = u64> {
    vector.chunks(64).map(|part| match <&[i8; 64]>::try_from(part) {
        Ok(whole) => signs_of(whole),
        Err(_) => plain_signs(part),
    })
}

#[cfg(target_arch = "x86_64")]
fn signs_of(part: &[i8; 64]) -> u64 {
    avx2::signs(part)
}

#[cfg(not(target_arch = "x86_64"))]
fn signs_of(part: &[i8; 64]) -> u64 {
    plain_signs(part)
}

fn plain_signs(part: &[i8]) -> u64 {
    part.iter().enumerate().fold(0, |bits, (at, value)| bits | u64::from(*value > 0) << at)
}

/// In how many of the first 64 signs each of several vectors differs from one.
pub(crate) fn heads_differing(one: u64, several: &[u64]) -> Vec<u8> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt") {
        return avx2::heads_differing(one, several);
    }
    plain_heads_differing(one, several)
}

#[inline(always)]
fn plain_heads_differing(one: u64, several: &[u64]) -> Vec<u8> {
    several.iter().map(|other| (one ^ other).count_ones() as u8).collect()
}

/// The numbers of those that differ in no more than `most` of them.
pub(crate) fn heads_within(one: u64, several: &[u64], most: u32) -> Vec<u32> {
    #[cfg(target_arch = "x86_64")]
    if vnni::is_there() {
        return vnni::heads_within(one, several, most);
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt") {
        return avx2::heads_within(one, several, most);
    }
    plain_heads_within(one, several, most)
}

#[inline(always)]
fn plain_heads_within(one: u64, several: &[u64], most: u32) -> Vec<u32> {
    let near = |(other, _): &(&u64, u32)| (one ^ *other).count_ones() <= most;
    several.iter().zip(0..).filter(near).map(|(_, no)| no).collect()
}

/// In how many of the first 64 signs some of several vectors differ from one.
pub(crate) fn some_heads_differing(one: u64, several: &[u64], those: &[u32]) -> Vec<u8> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt") {
        return avx2::some_heads_differing(one, several, those);
    }
    plain_some_heads_differing(one, several, those)
}

#[inline(always)]
fn plain_some_heads_differing(one: u64, several: &[u64], those: &[u32]) -> Vec<u8> {
    those.iter().map(|no| (one ^ several[*no as usize]).count_ones() as u8).collect()
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
        let into_line = start.addr() % LINE;
        for at in (0..into_line + size_of_val(value)).step_by(LINE) {
            // SAFETY: a hint is good for any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_sub(into_line).wrapping_add(at)) };
        }
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
            let (a, b) = (&a[..length], &b[..length]);
            prop_assert_eq!(dot(a, b), plain_dot(a, b));
            // What this machine would not choose, as long as it can.
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                prop_assert_eq!(avx2::dot(a, b), plain_dot(a, b));
            }
        }

        #[test]
        fn several_at_once_are_the_same(one in prop_oneof![vector(), proptest::collection::vec(-127_i8..=127, 112)], count in 0_usize..11) {
            let several: Vec<i8> = (0..count).flat_map(|n| one.iter().map(move |value| value.wrapping_add(n as i8).max(-127))).collect();
            let expected: Vec<i32> = (0..count).map(|n| plain_dot(&one, &several[n * one.len()..(n + 1) * one.len()])).collect();
            let mut sums = vec![0; count];
            dots(&one, &several, &mut sums);
            prop_assert_eq!(&sums, &expected);
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                sums.fill(0);
                avx2::dots(&one, &several, &mut sums);
                prop_assert_eq!(sums, expected);
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
        fn signs_are_those_of_the_values(one in prop_oneof![vector(), proptest::collection::vec(-127_i8..=127, 256)]) {
            let signs: Vec<u64> = signs(&one).collect();
            let is_set = |at: usize| signs[at / 64] >> (at % 64) & 1 == 1;
            prop_assert!(one.iter().enumerate().all(|(at, value)| is_set(at) == (*value > 0)));
            prop_assert_eq!(signs.len(), one.len().div_ceil(64));
        }

        #[test]
        fn heads_differ_where_they_do(
            one in any::<u64>(), several in proptest::collection::vec(any::<u64>(), 0..70), most in 20_u32..44,
        ) {
            let all = plain_heads_differing(one, &several);
            prop_assert_eq!(&heads_differing(one, &several), &all);
            let those: Vec<u32> = (0..several.len() as u32).rev().step_by(3).collect();
            let some: Vec<u8> = those.iter().map(|no| all[*no as usize]).collect();
            prop_assert_eq!(&some_heads_differing(one, &several, &those), &some);
            prop_assert_eq!(plain_some_heads_differing(one, &several, &those), some);
            let expected: Vec<u32> =
                all.into_iter().zip(0..).filter(|(signs, _)| u32::from(*signs) <= most).map(|(_, no)| no).collect();
            prop_assert_eq!(&heads_within(one, &several, most), &expected);
            // What this machine would not choose, as long as it can.
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("popcnt") {
                prop_assert_eq!(&avx2::heads_within(one, &several, most), &expected);
            }
            prop_assert_eq!(plain_heads_within(one, &several, most), expected);
        }
    }

    #[test]
    fn nothing_has_no_bytes() {
        assert_eq!(quantise(&[0.0; 4]), None);
        assert_eq!(quantise(&[f32::NAN, 1.0]).map(|bytes| bytes.bytes), Some(vec![0, 127]));
    }
}
