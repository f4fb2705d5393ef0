//! The straight parts of a layer: a product with weights, and bringing vectors to a common scale.

use super::FolderError;
use super::matrix::{Matrix, Target, multiply};
use super::safetensors::Tensors;

/// `x × weightsᵀ + bias`.
pub(super) struct Linear {
    weights: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

impl Linear {
    /// Reads `<name>.weight` and `<name>.bias`.
    pub(super) fn read(tensors: &mut Tensors, name: &str, inputs: usize, outputs: usize) -> Result<Self, FolderError> {
        let weights = tensors.read(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = tensors.read(&format!("{name}.bias"), &[outputs])?;
        Ok(Self { weights, bias, inputs, outputs })
    }

    /// Several with the same inputs as one, their outputs side by side.
    pub(super) fn beside(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|mut left, right| {
            left.weights.extend(right.weights);
            left.bias.extend(right.bias);
            left.outputs += right.outputs;
            left
        })
    }

    /// The outputs for these inputs, a row each.
    pub(super) fn run(&self, inputs: &[f32]) -> Vec<f32> {
        let rows = inputs.len() / self.inputs;
        let mut outputs = self.bias.repeat(rows);
        let inputs = Matrix::of_rows(inputs, rows, self.inputs, self.inputs);
        let weights = Matrix::of_rows(&self.weights, self.outputs, self.inputs, self.inputs).turned();
        multiply(1.0, inputs, weights, 1.0, Target { values: &mut outputs, row_step: self.outputs });
        outputs
    }
}

/// Layer normalisation: every vector gets mean zero and spread one, then the spread and mean that were learnt.
pub(super) struct Norm {
    spread: Vec<f32>,
    mean: Vec<f32>,
    epsilon: f32,
}

impl Norm {
    /// Reads `<name>.weight` and `<name>.bias`.
    pub(super) fn read(tensors: &mut Tensors, name: &str, size: usize, epsilon: f32) -> Result<Self, FolderError> {
        let spread = tensors.read(&format!("{name}.weight"), &[size])?;
        let mean = tensors.read(&format!("{name}.bias"), &[size])?;
        Ok(Self { spread, mean, epsilon })
    }

    pub(super) fn run(&self, vectors: &mut [f32]) {
        let size = self.mean.len() as f32;
        for vector in vectors.chunks_exact_mut(self.mean.len()) {
            let mean = vector.iter().sum::<f32>() / size;
            let variance = vector.iter().map(|value| (value - mean) * (value - mean)).sum::<f32>() / size;
            let scale = 1.0 / (variance + self.epsilon).sqrt();
            for ((value, spread), learnt) in vector.iter_mut().zip(&self.spread).zip(&self.mean) {
                *value = (*value - mean) * scale * spread + learnt;
            }
        }
    }
}

/// Adds one row of vectors to another.
pub(super) fn add(to: &mut [f32], what: &[f32]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += what);
}
