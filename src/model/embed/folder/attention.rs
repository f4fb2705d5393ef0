//! Attention: every token looks at the others of its text and takes over what concerns it.

use super::FolderError;
use super::curve::softmax;
use super::linear::Linear;
use super::matrix::{Matrix, Target, multiply};
use super::safetensors::Tensors;
use super::shape::Shape;

/// The attention of one layer.
pub(super) struct Attention {
    /// What a token asks for, how it is found, and what it gives, side by side.
    asks_keys_gifts: Linear,
    output: Linear,
    hidden: usize,
    heads: usize,
}

impl Attention {
    /// Reads the tensors below `<name>.`.
    pub(super) fn read(tensors: &mut Tensors, name: &str, shape: &Shape) -> Result<Self, FolderError> {
        let (hidden, heads) = (shape.hidden, shape.heads);
        let mut read = |part: &str| Linear::read(tensors, &format!("{name}.{part}"), hidden, hidden);
        let parts = [read("self.query")?, read("self.key")?, read("self.value")?];
        let output = read("output.dense")?;
        let asks_keys_gifts = Linear::beside(parts).expect("three are some");
        Ok(Self { asks_keys_gifts, output, hidden, heads })
    }

    /// What the tokens take over. `lengths` says how many of them belong to each text: texts do not see each other.
    pub(super) fn run(&self, tokens: &[f32], lengths: &[usize]) -> Vec<f32> {
        let asked = self.asks_keys_gifts.run(tokens);
        let mut taken = vec![0.0; tokens.len()];
        let mut start = 0;
        for &length in lengths.iter().filter(|length| **length > 0) {
            let asked = &asked[start * 3 * self.hidden..][..length * 3 * self.hidden];
            let taken = &mut taken[start * self.hidden..][..length * self.hidden];
            self.look_around(asked, taken, length);
            start += length;
        }
        self.output.run(&taken)
    }

    /// One text, each head on its own share of the dimensions.
    fn look_around(&self, asked: &[f32], taken: &mut [f32], length: usize) {
        let (hidden, share) = (self.hidden, self.hidden / self.heads);
        let scale = 1.0 / (share as f32).sqrt();
        let mut scores = vec![0.0; length * length];
        for head in (0..hidden).step_by(share) {
            let part = |at: usize| Matrix::of_rows(&asked[at * hidden + head..], length, share, 3 * hidden);
            let (asks, keys, gifts) = (part(0), part(1), part(2));
            multiply(scale, asks, keys.turned(), 0.0, Target { values: &mut scores, row_step: length });
            scores.chunks_exact_mut(length).for_each(softmax);
            let shares = Matrix::of_rows(&scores, length, length, length);
            multiply(1.0, shares, gifts, 0.0, Target { values: &mut taken[head..], row_step: hidden });
        }
    }
}
