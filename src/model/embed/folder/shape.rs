//! The sizes of a model: what the folder says, completed from the weights themselves.

use std::path::Path;

use serde::Deserialize;

use super::safetensors::Tensors;
use super::{FolderError, read_json};

/// Tokens read of a text when the folder does not say, and the most it may say.
const TOKENS_MAX_DEFAULT: usize = 256;
const TOKENS_MAX: usize = 512;

/// What was learnt with when the folder does not say.
const NORM_EPSILON_DEFAULT: f32 = 1e-12;

/// The sizes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub(super) vocabulary: usize,
    pub(super) positions: usize,
    pub(super) hidden: usize,
    pub(super) heads: usize,
    pub(super) layers: usize,
    pub(super) inner: usize,
    pub(super) norm_epsilon: f32,
    pub(super) tokens_max: usize,
    pub(super) pooling: Pooling,
}

/// How the vectors of a text's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Their mean.
    Mean,
    /// The first one, of the mark before the text.
    First,
}

#[derive(Deserialize, Default)]
struct Config {
    model_type: Option<String>,
    hidden_act: Option<String>,
    num_attention_heads: Option<usize>,
    layer_norm_eps: Option<f32>,
    position_embedding_type: Option<String>,
}

#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

#[derive(Deserialize)]
struct PoolingConfig {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
}

impl Shape {
    pub(super) fn read(folder: &Path, tensors: &Tensors) -> Result<Self, FolderError> {
        let file = folder.join("config.json");
        let config: Config = read_json(&file)?.unwrap_or_default();
        config.check(&file)?;
        let [vocabulary, hidden] = tensors.size("embeddings.word_embeddings.weight")?;
        let [positions, _] = tensors.size("embeddings.position_embeddings.weight")?;
        let [inner, _] = tensors.size("encoder.layer.0.intermediate.dense.weight")?;
        let layers = tensors.layers();
        let heads = config.heads(&file, hidden)?;
        let norm_epsilon = config.layer_norm_eps.unwrap_or(NORM_EPSILON_DEFAULT);
        let (tokens_max, pooling) = (tokens_max(folder, positions)?, pooling(folder)?);
        Ok(Self { vocabulary, positions, hidden, heads, layers, inner, norm_epsilon, tokens_max, pooling })
    }
}

impl Config {
    /// Refuses models that would be computed wrongly.
    fn check(&self, file: &Path) -> Result<(), FolderError> {
        let wanted = [
            ("model_type", &self.model_type, "bert"),
            ("hidden_act", &self.hidden_act, "gelu"),
            ("position_embedding_type", &self.position_embedding_type, "absolute"),
        ];
        for (name, value, wanted) in wanted {
            if let Some(value) = value.as_deref().filter(|value| *value != wanted) {
                let reason = format!("its `{name}` is `{value}`, and only `{wanted}` can be computed");
                return Err(FolderError::unusable(file, reason));
            }
        }
        Ok(())
    }

    /// How many heads share a layer's vector. The weights do not tell, so it is said or known from models of
    /// that size.
    fn heads(&self, file: &Path, hidden: usize) -> Result<usize, FolderError> {
        let known = match hidden {
            384 => Some(12),
            128 | 256 | 512 | 768 | 1024 => Some(hidden / 64),
            _ => None,
        };
        match self.num_attention_heads.or(known) {
            Some(heads) if heads > 0 && hidden.is_multiple_of(heads) => Ok(heads),
            Some(heads) => {
                Err(FolderError::unusable(file, format!("{heads} heads cannot share {hidden} dimensions evenly")))
            }
            None => Err(FolderError::unusable(file, "it must say `num_attention_heads`: the weights do not tell")),
        }
    }
}

fn tokens_max(folder: &Path, positions: usize) -> Result<usize, FolderError> {
    let config: Option<SentenceConfig> = read_json(&folder.join("sentence_bert_config.json"))?;
    let said = config.and_then(|config| config.max_seq_length).unwrap_or(TOKENS_MAX_DEFAULT);
    // Two of them are the marks around a text.
    Ok(said.min(positions).clamp(2, TOKENS_MAX))
}

fn pooling(folder: &Path) -> Result<Pooling, FolderError> {
    let file = folder.join("1_Pooling").join("config.json");
    match read_json::<PoolingConfig>(&file)? {
        None | Some(PoolingConfig { pooling_mode_mean_tokens: true, pooling_mode_cls_token: false }) => {
            Ok(Pooling::Mean)
        }
        Some(PoolingConfig { pooling_mode_cls_token: true, pooling_mode_mean_tokens: false }) => Ok(Pooling::First),
        Some(_) => Err(FolderError::unusable(&file, "only the mean of the tokens or the first one can be taken")),
    }
}
