//! The curved functions of a transformer, written so that the compiler computes many values at a time.

/// `e` to the power of `x`, to seven digits. The standard library's is exact to the last bit and computes one value at
/// a time, which would cost as much as a layer's products.
pub(super) fn exp(x: f32) -> f32 {
    // Adding and subtracting 1.5 × 2^23 rounds to a whole number.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts, so that the rest of the division by it is exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 88.0);
    let twos = (x * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let rest = x - twos * LN_2_HIGH - twos * LN_2_LOW;
    let series = [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5];
    let curve = series.iter().fold(1.987_569_2e-4, |sum, term| sum * rest + term);
    let power_of_two = f32::from_bits(((twos as i32 + 127) << 23) as u32);
    (curve * rest * rest + rest + 1.0) * power_of_two
}

/// The bend between a layer's two halves, GELU: `x × Φ(x)`.
pub(super) fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function to 1.5e-7: Abramowitz and Stegun, 7.1.26.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6];
    let curve = series.iter().fold(1.061_405_4, |sum, term| sum * t + term);
    (1.0 - curve * t * exp(-x * x)).copysign(x)
}

/// Makes shares of a row of scores: positive, larger for larger scores, one in sum.
pub(super) fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::MIN, f32::max);
    scores.iter_mut().for_each(|score| *score = exp(*score - largest));
    let share = 1.0 / scores.iter().sum::<f32>();
    scores.iter_mut().for_each(|score| *score *= share);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_exact_to_seven_digits() {
        for step in -8700..=8800 {
            let x = step as f32 / 100.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-6, "{x}");
        }
        assert!(exp(f32::MIN) < 1e-37 && exp(f32::MAX).is_finite());
    }

    #[test]
    fn gelu_bends_where_it_should() {
        // From scipy: x * norm.cdf(x).
        for (x, expected) in [(0.0, 0.0), (1.0, 0.841_344_7), (-1.0, -0.158_655_3), (3.0, 2.995_950_3), (-9.0, 0.0)] {
            assert!((gelu(x) - expected).abs() < 1e-6, "{x}: {}", gelu(x));
        }
    }

    #[test]
    fn shares_are_one_in_sum() {
        let mut scores = [1000.0, 1001.0, -1000.0];
        softmax(&mut scores);
        assert!((scores.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!(scores[1] > scores[0] && scores[2] < 1e-30);
    }
}
