//! Products by NEON. Lengths are cut to whole blocks before any load.

use std::arch::aarch64::*;

const BLOCK: usize = 16;

pub(super) fn dot(a: &[i8], b: &[i8]) -> i32 {
    // SAFETY: the caller has found NEON, and both slices are of one length, a whole number of blocks.
    super::in_blocks(a, b, BLOCK, |a, b| unsafe { dot_blocks(a.as_ptr(), b.as_ptr(), a.len()) })
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
