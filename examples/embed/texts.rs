//! Texts and their tokens.

use std::path::Path;

use tokenizers::{Tokenizer, TruncationParams};

use crate::Result;

/// The tokens of one text, including the two marks around it: at most [`MOST`].
pub(crate) type Tokens = Vec<i64>;

/// Real lines of text: pages of this project's guide.
pub(crate) const LINES: &str = concat!(
    include_str!("../../docs/checkpoint.md"),
    include_str!("../../docs/devices.md"),
    include_str!("../../docs/offload.md"),
    include_str!("../../docs/options.md"),
    include_str!("../../docs/retry.md"),
);

/// Maximum length of texts in the model's training, in tokens. Later tokens are cut off.
const MOST: usize = 256;

/// Texts at a time, because the tokenizer's additional data is many times larger than the token ids.
const AT_ONCE: usize = 1024;

pub(crate) struct Words {
    tokenizer: Tokenizer,
}

impl Words {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let with_path = |error| format!("{}: {error}", path.display());
        let mut tokenizer = Tokenizer::from_file(path).map_err(with_path)?;
        let truncation = TruncationParams { max_length: MOST, ..TruncationParams::default() };
        // The file requests padding to 128 tokens, always; batches are padded later, when their texts are known.
        tokenizer.with_truncation(Some(truncation)).map_err(with_path)?.with_padding(None);
        Ok(Self { tokenizer })
    }

    pub(crate) fn tokens<S: AsRef<str>>(&self, texts: &[S]) -> Result<Vec<Tokens>> {
        let mut tokens = Vec::with_capacity(texts.len());
        for texts in texts.chunks(AT_ONCE) {
            let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
            let encodings =
                self.tokenizer.encode_batch_fast(texts, true).map_err(|error| error.to_string())?;
            let ids = encodings.iter().map(|encoding| encoding.get_ids().iter().copied().map(i64::from));
            tokens.extend(ids.map(Tokens::from_iter));
        }
        Ok(tokens)
    }
}
