//! Numbers to a vector: the forward pass of a BERT encoder.
//!
//! Texts are computed together without padding: their tokens lie one after the other, and only attention minds where
//! one text ends and the next begins.

use super::super::normalise;
use super::FolderError;
use super::attention::Attention;
use super::curve::gelu;
use super::linear::{Linear, Norm, add};
use super::safetensors::Tensors;
use super::shape::{Pooling, Shape};

/// The weights.
pub(super) struct Model {
    words: Vec<f32>,
    /// Places in the text, with what marks a text as the first of its kind added already.
    places: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    hidden: usize,
    pooling: Pooling,
}

impl Model {
    pub(super) fn read(tensors: &mut Tensors, shape: &Shape) -> Result<Self, FolderError> {
        let hidden = shape.hidden;
        let words = tensors.read("embeddings.word_embeddings.weight", &[shape.vocabulary, hidden])?;
        let mut places = tensors.read("embeddings.position_embeddings.weight", &[shape.positions, hidden])?;
        let [kinds, _] = tensors.size("embeddings.token_type_embeddings.weight")?;
        let kinds = tensors.read("embeddings.token_type_embeddings.weight", &[kinds, hidden])?;
        places.chunks_exact_mut(hidden).for_each(|place| add(place, &kinds[..hidden]));
        let norm = Norm::read(tensors, "embeddings.LayerNorm", hidden, shape.norm_epsilon)?;
        let layers = (0..shape.layers).map(|layer| Layer::read(tensors, layer, shape)).collect::<Result<_, _>>()?;
        Ok(Self { words, places, norm, layers, hidden, pooling: shape.pooling })
    }

    pub(super) fn dimensions(&self) -> usize {
        self.hidden
    }

    /// The vectors of texts given as tokens; a text without tokens has the zero vector. Tokens and lengths are
    /// those of a tokenizer that was checked against the weights.
    pub(super) fn embed(&self, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let mut tokens: Vec<f32> = texts.iter().flat_map(|text| self.look_up(text)).collect();
        self.norm.run(&mut tokens);
        for layer in &self.layers {
            layer.run(&mut tokens, &lengths);
        }
        let mut rest = &tokens[..];
        let pool = |length: &usize| {
            let (text, after) = rest.split_at(length * self.hidden);
            rest = after;
            self.pool(text)
        };
        lengths.iter().map(pool).collect()
    }

    /// The first vectors of a text's tokens: the word and its place.
    fn look_up(&self, text: &[u32]) -> impl Iterator<Item = f32> {
        let places = self.places.chunks_exact(self.hidden);
        let words = text.iter().map(|&word| &self.words[word as usize * self.hidden..][..self.hidden]);
        words.zip(places).flat_map(|(word, place)| word.iter().zip(place).map(|(word, place)| word + place))
    }

    /// One vector for a text. A mean points where the sum does, and length is made one anyway.
    fn pool(&self, tokens: &[f32]) -> Vec<f32> {
        let counted = match self.pooling {
            Pooling::Mean => tokens.len() / self.hidden,
            Pooling::First => 1,
        };
        let mut sum = vec![0.0; self.hidden];
        tokens.chunks_exact(self.hidden).take(counted).for_each(|token| add(&mut sum, token));
        normalise(&mut sum);
        sum
    }
}

struct Layer {
    attention: Attention,
    attention_norm: Norm,
    widen: Linear,
    narrow: Linear,
    norm: Norm,
}

impl Layer {
    fn read(tensors: &mut Tensors, layer: usize, shape: &Shape) -> Result<Self, FolderError> {
        let (hidden, inner, epsilon) = (shape.hidden, shape.inner, shape.norm_epsilon);
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        Ok(Self {
            attention: Attention::read(tensors, &name("attention"), shape)?,
            attention_norm: Norm::read(tensors, &name("attention.output.LayerNorm"), hidden, epsilon)?,
            widen: Linear::read(tensors, &name("intermediate.dense"), hidden, inner)?,
            narrow: Linear::read(tensors, &name("output.dense"), inner, hidden)?,
            norm: Norm::read(tensors, &name("output.LayerNorm"), hidden, epsilon)?,
        })
    }

    fn run(&self, tokens: &mut [f32], lengths: &[usize]) {
        add(tokens, &self.attention.run(tokens, lengths));
        self.attention_norm.run(tokens);
        let mut wide = self.widen.run(tokens);
        wide.iter_mut().for_each(|value| *value = gelu(*value));
        add(tokens, &self.narrow.run(&wide));
        self.norm.run(tokens);
    }
}
